"""Queues read together give the same rows as queues read alone, whatever happens to the connection."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pyromq import Message, blocking
from pyromq.errors import BrokerError
from pyromq.protocol.messages.message import MessageQueue
from pyromq.spark.options.read_options import read_options
from pyromq.spark.read.batch_reader import BatchReader
from pyromq.spark.read.brokers.broker_connection import BrokerConnection
from pyromq.spark.read.brokers.queues_reader import QueuesReader
from pyromq.testing import LocalCluster
from tests.spark.conftest import send

TAGS = ["paid", "created", "AaAa", "BBBB"]  # the last two have one hash


@pytest.fixture(scope="module")
def filtering() -> Iterator[LocalCluster]:
    with LocalCluster(settings={"enablePropertyFilter": True}) as cluster:
        with blocking.Producer(group="g", namesrv=cluster.namesrv) as producer:
            producer.send(Message(topic="mixed", body=b"makes the topic"))
            for number in range(120):
                queue = MessageQueue("mixed", "broker-a", number % 3)
                body, properties = b"%d" % number * 20, {"amount": str(number)}
                send(producer, [Message(topic="mixed", body=body, tags=TAGS[number % 4], properties=properties)], queue)
        yield cluster


Row = dict[str, Any]


def _rows(cluster: LocalCluster, **options: str) -> list[Row]:
    given = {"namesrv": cluster.namesrv, "subscribe": "mixed", "retryTimeout": "5s"}
    reader = BatchReader(read_options(given | options, streaming=False))
    rows = [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]
    return sorted(rows, key=lambda row: (row["queue_id"], row["queue_offset"]))


CASES = [{}, {"tags": "paid || AaAa"}, {"batchRows": "7"}, {"batchBytes": "1k"}, {"maxRecordsPerPartition": "11"}]


@pytest.mark.parametrize("options", CASES)
def test_queues_together_give_what_each_gives_alone(
    filtering: LocalCluster, monkeypatch: pytest.MonkeyPatch, options: dict[str, str]
) -> None:
    together = _rows(filtering, **options)
    monkeypatch.setattr(QueuesReader, "records", lambda self: iter(()))
    assert together == _rows(filtering, **options)
    assert len(together) == (121 if "tags" not in options else 60)


def test_no_plain_pull_is_made_where_queues_can_be_read_together(
    filtering: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyromq.spark.read.brokers.slice_reader.SliceReader", None)
    assert len(_rows(filtering)) == 121


def test_an_answer_without_messages_leads_on(filtering: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyromq.spark.read.brokers.slice_reader.SliceReader", None)
    assert _rows(filtering, tags="no-such-tag") == []


def test_sql_is_for_the_broker_and_tags_are_compared_with_it(filtering: LocalCluster) -> None:
    rows = _rows(filtering, sql="amount >= 100", columns="queue_id,queue_offset,tags,properties")
    assert sorted(int(dict(row["properties"])["amount"]) for row in rows) == list(range(100, 120))
    assert {row["tags"] for row in _rows(filtering, sql="amount >= 100", tags="AaAa")} == {"AaAa"}


def test_a_broker_that_filters_by_no_sql_says_what_to_do() -> None:
    with LocalCluster(settings={"enablePropertyFilter": False}) as cluster:
        with blocking.Producer(group="g", namesrv=cluster.namesrv) as producer:
            producer.send(Message(topic="mixed", body=b"x"))
        with pytest.raises(BrokerError, match="enablePropertyFilter=true switches it on") as caught:
            _rows(cluster, sql="amount > 1")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("read_from", ["master", "slave", "suggested"])
def test_every_broker_of_a_group_may_be_asked(filtering: LocalCluster, read_from: str) -> None:
    assert len(_rows(filtering, readFrom=read_from)) == 121, "a group without slaves has its master"


def test_a_connection_that_breaks_between_two_answers_costs_no_row(
    filtering: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    received: list[int] = []
    plain = BrokerConnection.receive

    def break_at_the_third(line: BrokerConnection) -> Any:
        received.append(1)
        if len(received) == 3:
            line._socket.shutdown(2)
        return plain(line)

    expected = _rows(filtering)
    monkeypatch.setattr(BrokerConnection, "receive", break_at_the_third)
    assert _rows(filtering, batchRows="7") == expected
    assert len(received) >= 3


def test_a_reader_that_is_left_early_leaves_no_answer_for_the_next(filtering: LocalCluster) -> None:
    given = {"namesrv": filtering.namesrv, "subscribe": "mixed", "batchRows": "5", "columns": "queue_offset"}
    reader = BatchReader(read_options(given, streaming=False))
    (part,) = reader.partitions()
    batches = reader.read(part)
    next(batches)
    batches.close()  # type: ignore[attr-defined]  # as Spark does for LIMIT
    assert len(_rows(filtering)) == 121
