"""One Spark session and one cluster for all tests of this directory: a session takes ten seconds to start."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from pyromq import Message, blocking
from pyromq.protocol.message import MessageQueue
from pyromq.spark.session import local_session
from pyromq.testing import LocalCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# JVMs that live for seconds start in two thirds of the time without the slow compiler. Child processes inherit it.
for variable in ("SPARK_LAUNCHER_OPTS", "SPARK_SUBMIT_OPTS"):
    os.environ.setdefault(variable, "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = local_session("pyromq tests", "local[2]", fast_checkpoints=True, **{"spark.sql.shuffle.partitions": "2"})
    yield session
    session.stop()


@pytest.fixture(scope="session")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=2) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def producer(cluster: LocalCluster) -> Iterator[blocking.Producer]:
    with blocking.Producer(group="spark-tests", namesrv=cluster.namesrv) as producer:
        yield producer


Sent = dict[tuple[str, int, int], Message]
"""What was sent, by broker, queue and offset."""


def send(producer: blocking.Producer, messages: list[Message], queue: MessageQueue | None = None) -> Sent:
    """Send messages one by one and return where each of them lies."""
    sent = {}
    for message in messages:
        result = producer.send(message) if queue is None else producer.send(message, queue=queue)
        sent[result.queue.broker_name, result.queue.queue_id, result.queue_offset] = message
    return sent
