from __future__ import annotations

import threading
import time

from pyspark.sql.streaming.datasource import ReadAllAvailable

from pyromq import Message, blocking
from pyromq.protocol.messages.message import MessageQueue
from pyromq.spark.options.read_options import read_options
from pyromq.spark.read.brokers.broker_queues import BrokerQueues, connect
from pyromq.spark.read.stream_reader import StreamReader
from pyromq.testing import LocalCluster
from tests.spark.conftest import send


def _ends(brokers: BrokerQueues, topic: str) -> dict[MessageQueue, int]:
    return brokers.max_offsets(brokers.queues([topic]))


def test_a_message_ends_the_wait_for_one(cluster: LocalCluster, producer: blocking.Producer) -> None:
    (place,) = send(producer, [Message(topic="waited-for", body=b"first")])
    queue = MessageQueue("waited-for", *place[:2])
    later = threading.Timer(0.3, send, (producer, [Message(topic="waited-for", body=b"second")], queue))
    later.start()
    began = time.monotonic()
    connect(cluster.namesrv).wait_for_message({queue: place[2] + 1}, None, timeout=60)
    assert 0.2 < time.monotonic() - began < 30
    later.join()


def test_a_message_that_is_there_already_ends_the_wait_too(cluster: LocalCluster, producer: blocking.Producer) -> None:
    (place,) = send(producer, [Message(topic="waited-for", body=b"third")])
    began = time.monotonic()
    connect(cluster.namesrv).wait_for_message(
        {MessageQueue("waited-for", *place[:2]): place[2]}, "some-group", timeout=60
    )
    assert time.monotonic() - began < 30


def test_connections_are_kept_for_each_cluster(cluster: LocalCluster) -> None:
    assert connect(cluster.namesrv) is connect(cluster.namesrv)
    assert connect(cluster.namesrv) is not connect(f"{cluster.namesrv};127.0.0.1:1")


def test_a_group_shows_the_progress_of_a_stream_and_only_what_is_processed(
    cluster: LocalCluster, producer: blocking.Producer
) -> None:
    send(producer, [Message(topic="shown", body=b"x") for _ in range(20)])
    brokers = connect(cluster.namesrv)
    given = {"namesrv": cluster.namesrv, "subscribe": "shown", "group": "show", "startingOffsets": "earliest"}
    reader = StreamReader(read_options(given, streaming=True))
    ends = _ends(brokers, "shown")
    start = reader.initialOffset()
    assert reader.latestOffset(start, ReadAllAvailable()) == start
    assert brokers.committed_offsets(ends, "show-nothing") in ({}, dict.fromkeys(ends, 0))
    end = reader.latestOffset(start, ReadAllAvailable())
    assert brokers.committed_offsets(ends, "show") == dict.fromkeys(ends, 0), "the batch is not done yet"
    reader.latestOffset(end, ReadAllAvailable())
    assert brokers.committed_offsets(ends, "show") == ends
