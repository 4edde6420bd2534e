"""Streams whose topics lose queues, and whose clusters lose brokers: nothing unread is skipped in silence."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from pyromq import Message, blocking
from pyromq.errors import NoRoute, OffsetOutOfRange
from pyromq.protocol.messages.message import MessageQueue
from pyromq.spark.options.read_options import read_options
from pyromq.spark.read.stream_reader import StreamReader
from pyromq.testing import LocalCluster
from tests.pipelines.conftest import make_topic
from tests.spark.test_trouble import delete_topic

EVERYTHING = ReadAllAvailable()


def _stream(namesrv: str, **options: str) -> StreamReader:
    given = {"namesrv": namesrv, "startingOffsets": "earliest", "columns": "queue_id", "retryTimeout": "1s"}
    return StreamReader(read_options(given | options, streaming=True))


def _fill(producer: blocking.Producer, topic: str, queues: range, count: int = 3, broker: str = "broker-a") -> None:
    for number in queues:
        for _ in range(count):
            producer.send(Message(topic=topic, body=b"x"), queue=MessageQueue(topic, broker, number))


def _begin(reader: StreamReader) -> dict[str, Any]:
    """Return a new stream's start, recorded by the empty batch 0."""
    start = reader.initialOffset()
    assert reader.latestOffset(start, EVERYTHING) == start
    return start


def _next(reader: StreamReader, start: dict[str, Any]) -> tuple[dict[str, Any], int]:
    """Return the end of the next batch and its number of rows, as seen by a stream that looks up its topics again."""
    reader._queues_found_at = float("-inf")
    end = reader.latestOffset(start, EVERYTHING)
    return end, sum(batch.num_rows for part in reader.partitions(start, end) for batch in reader.read(part))


@pytest.fixture
def single() -> Any:
    with LocalCluster() as cluster:
        yield cluster


@pytest.fixture
def sender(single: LocalCluster) -> Any:
    with blocking.Producer(group="g", namesrv=single.namesrv) as producer:
        yield producer


def test_a_topic_that_lost_queues_with_unread_messages(
    single: LocalCluster, sender: blocking.Producer, caplog: pytest.LogCaptureFixture
) -> None:
    make_topic(single, "orders", 8)
    _fill(sender, "orders", range(8))
    strict, lenient = (_stream(single.namesrv, subscribe="orders", failOnDataLoss=text) for text in ("true", "false"))
    read, rows = _next(strict, _begin(strict))
    assert rows == 24
    _begin(lenient)
    _fill(sender, "orders", range(8), count=5)
    make_topic(single, "orders", 4)
    with pytest.raises(OffsetOutOfRange) as caught:
        _next(strict, read)
    assert str(caught.value) == (
        "queue orders/broker-a/4 and 3 more: the topic no longer has it, and 20 messages there are unread;"
        " give the topic its queues back to read them; set failOnDataLoss=false to continue"
    )
    read, rows = _next(lenient, read)
    assert rows == 20
    read, rows = _next(lenient, read)
    assert rows == 0
    assert caplog.text.count("the topic no longer has it, and 20 messages there are unread") == 1
    make_topic(single, "orders", 8)
    assert _next(lenient, read)[1] == 20, "given back, they are read from where they were"


def test_a_restarted_stream_notices_it_too(single: LocalCluster, sender: blocking.Producer) -> None:
    make_topic(single, "orders", 8)
    reader = _stream(single.namesrv, subscribe="orders")
    start = _begin(reader)
    _fill(sender, "orders", range(8))
    make_topic(single, "orders", 4)
    for bounded in (True, False):
        reader = _stream(single.namesrv, subscribe="orders")
        if bounded:
            reader.prepareForTriggerAvailableNow()
        with pytest.raises(OffsetOutOfRange, match="12 messages there are unread"):
            reader.latestOffset(start, EVERYTHING)


def test_a_topic_whose_queues_were_read_before_they_left(single: LocalCluster, sender: blocking.Producer) -> None:
    make_topic(single, "orders", 8)
    _fill(sender, "orders", range(8))
    reader = _stream(single.namesrv, subscribe="orders")
    read, _ = _next(reader, _begin(reader))
    make_topic(single, "orders", 4)
    _fill(sender, "orders", range(4))
    end, rows = _next(reader, read)
    assert rows == 12
    assert end["orders"]["broker-a"]["7"] == 3, "a queue that comes back continues where it was"


def test_a_topic_of_a_pattern_that_was_deleted(single: LocalCluster, sender: blocking.Producer) -> None:
    for topic in ("orders-a", "orders-b"):
        make_topic(single, topic, 1)
        _fill(sender, topic, range(1))
    strict, lenient = (
        _stream(single.namesrv, subscribePattern="orders-.*", failOnDataLoss=text) for text in ("true", "false")
    )
    read, rows = _next(strict, _begin(strict))
    assert rows == 6
    _begin(lenient)
    delete_topic(single, "orders-a")
    _fill(sender, "orders-b", range(1))
    with pytest.raises(OffsetOutOfRange, match="orders-a/broker-a/0: wanted offset 3, but it ends at 0; its topic was"):
        _next(strict, read)
    assert _next(lenient, read)[1] == 3
    delete_topic(single, "orders-b")
    with pytest.raises(OffsetOutOfRange, match="orders-a/broker-a/0"):
        _next(_stream(single.namesrv, subscribePattern="orders-.*"), read)


def test_topics_that_are_no_longer_subscribed_are_not_missed(single: LocalCluster, sender: blocking.Producer) -> None:
    make_topic(single, "orders", 1)
    _fill(sender, "orders", range(1))
    reader = _stream(single.namesrv, subscribe="orders")
    start = {"orders": {"broker-a": {"0": 0}}, "refunds": {"broker-a": {"0": 5}}}
    end, rows = _next(reader, start)
    assert (rows, end["refunds"]) == (3, start["refunds"])


def test_a_bounded_run_does_not_leave_out_a_broker_that_is_away(caplog: pytest.LogCaptureFixture) -> None:
    with LocalCluster(brokers=2) as cluster, blocking.Producer(group="g", namesrv=cluster.namesrv) as producer:
        make_topic(cluster, "orders", 1)
        for broker in ("broker-a", "broker-b"):
            _fill(producer, "orders", range(1), broker=broker)
        reader = _stream(cluster.namesrv, subscribe="orders")
        read, rows = _next(reader, _begin(reader))
        assert rows == 6
        for broker in ("broker-a", "broker-b"):
            _fill(producer, "orders", range(1), broker=broker)
        cluster.stop_broker(1)
        bounded = _stream(cluster.namesrv, subscribe="orders")
        bounded.prepareForTriggerAvailableNow()
        with pytest.raises(
            NoRoute, match=r"a master of broker-b, .*: this run would leave out its messages; set failOn"
        ):
            bounded.latestOffset(read, EVERYTHING)
        endless = _stream(cluster.namesrv, subscribe="orders")
        read, rows = _next(endless, read)
        assert rows == 3, "an endless stream goes on"
        assert _next(endless, read) == (read, 0)
        assert caplog.text.count("broker-b, which this stream has read before: its messages wait") == 1
        cluster.start_broker(1)
        assert _next(endless, read)[1] == 3


def test_a_batch_whose_queues_left_before_it_was_read(
    single: LocalCluster, sender: blocking.Producer, caplog: pytest.LogCaptureFixture
) -> None:
    make_topic(single, "orders", 2)
    reader = _stream(single.namesrv, subscribe="orders")
    start = _begin(reader)
    _fill(sender, "orders", range(2))
    end = reader.latestOffset(start, EVERYTHING)
    make_topic(single, "orders", 1)
    counts = {}
    for text in ("true", "false"):
        again = _stream(single.namesrv, subscribe="orders", failOnDataLoss=text)
        batches = (batch for part in again.partitions(start, end) for batch in again.read(part))
        if text == "true":
            with pytest.raises(OffsetOutOfRange, match="orders/broker-a/1: the topic no longer has it, and 3 messages"):
                list(batches)
        else:
            counts[text] = sum(batch.num_rows for batch in batches)
    assert counts == {"false": 3}
    assert "continuing because failOnDataLoss=false" in caplog.text
