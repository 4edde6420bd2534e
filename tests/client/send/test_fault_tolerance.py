"""Latency fault tolerance: who failed or was slow is avoided for a while."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from pyromq.client.net.publish_info import TopicPublishInfo
from pyromq.client.send.fault_tolerance import LatencyFaultTolerance
from pyromq.client.send.producer import Producer
from pyromq.clock import SystemClock
from pyromq.protocol.messages.message import Message, MessageQueue
from pyromq.testing import LocalCluster


class Clock(SystemClock):
    """Stands still unless it is told."""

    def __init__(self) -> None:
        self.time = 1000.0

    def monotonic(self) -> float:
        return self.time


def info(**counts: int) -> TopicPublishInfo:
    return TopicPublishInfo(
        [MessageQueue("T", name, number) for name, count in counts.items() for number in range(count)]
    )


@pytest.mark.parametrize(
    ("latency_ms", "absence"),
    [(0, 0), (49, 0), (50, 0), (549, 0), (550, 30), (999, 30), (1000, 60), (2000, 120), (3000, 180), (15_000, 600)],
)
def test_the_slower_the_answer_the_longer_a_broker_is_avoided(latency_ms: int, absence: int) -> None:
    clock = Clock()
    faults = LatencyFaultTolerance(clock)
    faults.note("a", latency_ms / 1000)
    assert faults.is_available("a") == (absence == 0)
    clock.time += absence
    assert faults.is_available("a")
    if absence:
        clock.time -= 0.001
        assert not faults.is_available("a")


def test_a_failure_keeps_a_broker_away_for_ten_minutes_and_an_answer_brings_it_back() -> None:
    clock = Clock()
    faults = LatencyFaultTolerance(clock)
    faults.note("a", 0.001, failed=True)
    clock.time += 599
    assert not faults.is_available("a")
    faults.note("a", 0.001)
    assert faults.is_available("a")


def test_queues_of_available_brokers_are_taken_in_turn() -> None:
    faults = LatencyFaultTolerance(Clock())
    faults.note("b", 1.0, failed=True)
    brokers = info(a=2, b=3, c=1)
    chosen = [faults.choose(brokers) for _ in range(60)]
    assert Counter(queue.broker_name for queue in chosen).keys() == {"a", "c"}
    assert set(chosen) == {queue for queue in brokers.queues if queue.broker_name != "b"}


def test_where_none_is_available_the_better_half_is_used() -> None:
    faults = LatencyFaultTolerance(Clock())
    for name, seconds in (("a", 4.0), ("b", 1.0), ("c", 2.0), ("d", 20.0)):
        faults.note(name, seconds)
    chosen = Counter(faults.choose(info(a=1, b=2, c=1, d=1)).broker_name for _ in range(40))
    assert chosen == {"b": 20, "c": 20}


def test_a_broker_that_the_topic_left_is_forgotten() -> None:
    faults = LatencyFaultTolerance(Clock())
    faults.note("gone", 0.6)
    faults.note("here", 20.0)
    here = info(here=2)
    for _ in range(4):
        assert faults.choose(here).broker_name == "here"
    assert faults.is_available("gone")


async def test_a_producer_stays_away_from_a_broker_that_failed(topic: str) -> None:
    async with (
        LocalCluster(brokers=2) as cluster,
        Producer("p", cluster.namesrv, latency_fault_tolerance=True, clock=cluster.clock) as producer,
    ):
        for _ in range(16):
            await producer.send(Message(topic=topic, body=b"x"))
        # The route must not change before a send has failed.
        producer._delivery.instance.api.unreachable.on_failure = lambda: None
        await asyncio.to_thread(cluster.stop_broker, 0)
        for _ in range(16):
            assert (await producer.send(Message(topic=topic, body=b"x"))).queue.broker_name == "broker-b"
        await asyncio.to_thread(cluster.start_broker, 0)
        await cluster.clock.advance_async(minutes=5)
        again = Counter([(await producer.send(Message(topic=topic, body=b"x"))).queue.broker_name for _ in range(16)])
        assert again == {"broker-b": 16}
        await cluster.clock.advance_async(minutes=6)
        again = Counter([(await producer.send(Message(topic=topic, body=b"x"))).queue.broker_name for _ in range(16)])
        assert again == {"broker-a": 8, "broker-b": 8}
