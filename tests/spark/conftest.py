"""One cluster for all tests of this directory; they use the common session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pyromq import Message, blocking
from pyromq.protocol.messages.message import MessageQueue
from pyromq.testing import LocalCluster


@pytest.fixture(scope="session")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=2) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def producer(cluster: LocalCluster) -> Iterator[blocking.Producer]:
    with blocking.Producer(group="spark-tests", namesrv=cluster.namesrv) as producer:
        yield producer


Sent = dict[tuple[str, int, int], Message]
"""The messages sent, by broker, queue and offset."""


def send(producer: blocking.Producer, messages: list[Message], queue: MessageQueue | None = None) -> Sent:
    """Send messages one by one and return where each is stored."""
    sent = {}
    for message in messages:
        result = producer.send(message) if queue is None else producer.send(message, queue=queue)
        sent[result.queue.broker_name, result.queue.queue_id, result.queue_offset] = message
    return sent
