"""What a user reads when a topic or broker is missing: one line that says what to do, for batches and streams."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable

from pyromq import Message, blocking
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.client.portal import Portal
from pyromq.clock import SystemClock
from pyromq.errors import PyroMQError
from pyromq.protocol.codes import PERM_WRITE, RequestCode
from pyromq.protocol.command import request
from pyromq.protocol.headers.admin import DeleteTopicInBrokerRequestHeader
from pyromq.protocol.headers.routes import DeleteTopicInNamesrvRequestHeader
from pyromq.remoting.client import RemotingClient
from pyromq.spark.options.read_options import read_options
from pyromq.spark.options.write_options import write_options
from pyromq.spark.read.batch_reader import BatchReader
from pyromq.spark.read.stream_reader import StreamReader
from pyromq.spark.write.sink_task import SinkTask
from pyromq.spark.write.writer import write_rows
from pyromq.testing import LocalCluster
from tests.pipelines.conftest import make_topic
from tests.spark.conftest import send

EVERYTHING = ReadAllAvailable()


def _text(call: Callable[[], object]) -> str:
    with pytest.raises(PyroMQError) as caught:
        call()
    text = str(caught.value)
    assert "\n" not in text
    return text


def _stream(namesrv: str, topic: str, **options: str) -> StreamReader:
    given = {"namesrv": namesrv, "subscribe": topic, "startingOffsets": "earliest"} | options
    return StreamReader(read_options(given, streaming=True))


def _rows(namesrv: str, topic: str) -> list[Any]:
    reader = BatchReader(read_options({"namesrv": namesrv, "subscribe": topic, "retryTimeout": "1s"}, streaming=False))
    return [batch for part in reader.partitions() for batch in reader.read(part)]


def test_a_missing_topic(cluster: LocalCluster) -> None:
    for call in (lambda: _rows(cluster.namesrv, "nowhere"), _stream(cluster.namesrv, "nowhere").initialOffset):
        text = _text(call)
        assert "no broker has the topic 'nowhere'" in text
        assert "the first message that is sent to it creates it" in text


def test_a_topic_that_may_not_be_read(cluster: LocalCluster) -> None:
    portal = Portal.shared()
    api = portal.call(BrokerApi.connect(cluster.namesrv))
    for broker in cluster.brokers:
        portal.call(api.create_topic(broker.address, "write-only", perm=PERM_WRITE))
    for call in (lambda: _rows(cluster.namesrv, "write-only"), _stream(cluster.namesrv, "write-only").initialOffset):
        assert _text(call) == ("topic 'write-only' has no readable queue: set its permission to 6 on its brokers"), (
            "no rows would say that it is empty"
        )
    portal.call(api.close())


def delete_topic(cluster: LocalCluster, topic: str) -> None:
    """Delete a topic as mqadmin does: at the brokers, then at the name server."""
    Portal.shared().call(_delete(cluster, topic))


async def _delete(cluster: LocalCluster, topic: str) -> None:
    async with RemotingClient(SystemClock()) as remoting:
        for address in (broker.address for broker in cluster.brokers):
            header = DeleteTopicInBrokerRequestHeader(topic=topic)
            await remoting.request(address, request(RequestCode.DELETE_TOPIC_IN_BROKER, header), 5.0)
        gone = DeleteTopicInNamesrvRequestHeader(topic=topic)
        await remoting.request(cluster.namesrv, request(RequestCode.DELETE_TOPIC_IN_NAMESRV, gone), 5.0)


def test_a_topic_that_is_deleted_under_a_stream(cluster: LocalCluster, producer: blocking.Producer) -> None:
    send(producer, [Message(topic="short-lived", body=b"x") for _ in range(16)])
    readers = [_stream(cluster.namesrv, "short-lived", failOnDataLoss=text) for text in ("true", "false")]
    for reader in readers:
        reader.latestOffset(reader.initialOffset(), EVERYTHING)
    end = readers[0].latestOffset(readers[0].initialOffset(), EVERYTHING)
    delete_topic(cluster, "short-lived")
    text = _text(lambda: readers[0].latestOffset(end, EVERYTHING))
    assert "its topic was deleted or recreated" in text
    assert text.endswith("set failOnDataLoss=false to continue")
    assert readers[1].latestOffset(end, EVERYTHING)


def test_a_broker_that_is_down() -> None:
    with LocalCluster() as cluster:
        with blocking.Producer(group="g", namesrv=cluster.namesrv) as producer:
            producer.send(Message(topic="orders", body=b"x"))
        assert len(_rows(cluster.namesrv, "orders")) == 1
        cluster.stop_broker()
        for call in (lambda: _rows(cluster.namesrv, "orders"), _stream(cluster.namesrv, "orders").initialOffset):
            assert "no broker has the topic 'orders'" in _text(call)


def test_dead_letters_of_a_group_that_has_none(cluster: LocalCluster) -> None:
    text = _text(lambda: _rows(cluster.namesrv, "%DLQ%nobody"))
    assert text.endswith("(a broker makes it with the group's first dead letter: is the group's name right?)")


def _send(namesrv: str, topic: str) -> None:
    rows = pa.record_batch({"body": [b"x"]})
    given = {"namesrv": namesrv, "topic": topic, "retryTimeout": "1s"}
    write_rows(iter([rows]), write_options(given, from_arrow_schema(rows.schema)), SinkTask(f"{topic}-0-0", 0, 0))


def test_a_sink_whose_topic_is_missing_or_was_deleted(caplog: pytest.LogCaptureFixture) -> None:
    with LocalCluster(settings={"autoCreateTopicEnable": False}) as strict:
        assert "create the topic" in _text(lambda: _send(strict.namesrv, "nowhere"))
        assert sum("nowhere, retrying for" in text for text in caplog.messages) == 1, "said once, not at every attempt"
        make_topic(strict, "short-lived", 4)
        _send(strict.namesrv, "short-lived")
        delete_topic(strict, "short-lived")
        assert "create" in _text(lambda: _send(strict.namesrv, "short-lived"))


def test_a_name_server_that_never_answered_is_told_by_the_error_alone(caplog: pytest.LogCaptureFixture) -> None:
    text = _text(lambda: _rows("127.0.0.1:1", "orders"))
    assert text.startswith("no name server answers: 127.0.0.1:1")
    assert text.endswith("is one running there?")
    assert not caplog.messages
