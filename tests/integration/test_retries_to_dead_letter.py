"""A message that always fails: all its retries at the right intervals, then one dead letter. The test moves time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import timedelta
from itertools import pairwise

import pytest

from pyromq import DeadLetter, Message, MessageExt, Producer, PushConsumer, RetryLater
from pyromq.admin import AdminClient
from pyromq.store.message_store import MessageStore
from pyromq.testing import LocalCluster, eventually

MINUTE, HOUR = 60, 3600
INTERVALS = [
    10, 30, 1 * MINUTE, 2 * MINUTE, 3 * MINUTE, 4 * MINUTE, 5 * MINUTE, 6 * MINUTE, 7 * MINUTE, 8 * MINUTE, 9 * MINUTE,
    10 * MINUTE, 20 * MINUTE, 30 * MINUTE, 1 * HOUR, 2 * HOUR,
]  # fmt: skip
"""RocketMQ's delay before each of its 16 retries."""

STEP = 80.0  # virtual seconds that the clock moves at a time


@pytest.fixture
async def cluster() -> AsyncIterator[LocalCluster]:
    async with LocalCluster() as running:
        yield running


class Stopwatch:
    """Records times by the cluster's clock and in real time, because the clock also runs while it is advanced."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._clock = cluster.clock
        self._moments: list[tuple[float, float]] = []

    def __len__(self) -> int:
        return len(self._moments)

    def note(self) -> None:
        self._moments.append((self._clock.now(), time.monotonic()))

    def shows(self, *intervals: float) -> bool:
        """Return True if this much time lies between the moments: never less, and no more than the real time on top."""
        gaps = [(now - before, real - real_before) for (before, real_before), (now, real) in pairwise(self._moments)]
        return len(gaps) == len(intervals) and all(
            interval <= gap <= interval + real + 0.1 for (gap, real), interval in zip(gaps, intervals, strict=True)
        )


class AlwaysFails:
    """A listener that always fails, and records when it was called."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.seen: list[MessageExt] = []
        self.watch = Stopwatch(cluster)

    async def __call__(self, message: MessageExt) -> None:
        self.seen.append(message)
        self.watch.note()
        raise ValueError("never")


async def send_one(cluster: LocalCluster) -> str:
    async with Producer("shop", cluster.namesrv, clock=cluster.clock) as producer:
        message = Message(topic="orders", body=b"one", tags="paid", keys=["o-1"], properties={"amount": "7"})
        return (await producer.send(message)).message_id


def consumer(cluster: LocalCluster, listener: object, **options: object) -> PushConsumer:
    return PushConsumer(
        "billing",
        cluster.namesrv,
        {"orders": "*"},
        listener,  # type: ignore[arg-type]
        start_from="earliest",
        clock=cluster.clock,
        **options,  # type: ignore[arg-type]
    )


async def dead_letters(cluster: LocalCluster) -> list[MessageExt]:
    async with AdminClient(cluster.namesrv, clock=cluster.clock) as admin:
        return [message async for message in admin.read("%DLQ%billing")]


def store(cluster: LocalCluster) -> MessageStore:
    server = cluster.brokers[0].server
    assert server is not None
    return server.store


def has_dead_letters(cluster: LocalCluster) -> bool:
    return store(cluster).max_offset("%DLQ%billing", 0) > 0


def is_scheduled(cluster: LocalCluster) -> bool:
    return store(cluster).max_offset("SCHEDULE_TOPIC_XXXX", 2) > 0


@contextmanager
def gone_from_the_log(cluster: LocalCluster) -> Iterator[None]:
    """Make a broker find nothing at any physical offset."""
    opened = store(cluster)
    read, opened.read = opened.read, lambda physical_offset: None  # type: ignore[method-assign]
    yield
    opened.read = read  # type: ignore[method-assign]


async def fail_again(cluster: LocalCluster, listener: AlwaysFails, seconds: float) -> None:
    """Move the clock by the delay of the next retry, and wait for it."""
    count = len(listener.seen)
    await cluster.clock.advance_async(seconds=seconds, step=STEP)
    await eventually(lambda: len(listener.seen) == count + 1)


async def test_all_sixteen_retries_come_in_time_and_then_one_dead_letter(cluster: LocalCluster) -> None:
    message_id = await send_one(cluster)
    listener = AlwaysFails(cluster)
    async with consumer(cluster, listener):
        await eventually(lambda: len(listener.seen) == 1)
        for interval in INTERVALS:
            await fail_again(cluster, listener, interval)
        await cluster.clock.advance_async(hours=2.5, step=STEP)
    assert len(listener.seen) == 17, "nothing comes after the last retry"
    assert listener.watch.shows(*INTERVALS)
    assert [message.reconsume_times for message in listener.seen] == list(range(17))
    assert {(message.topic, message.body, message.message_id) for message in listener.seen} == {
        ("orders", b"one", message_id)
    }
    (letter,) = await dead_letters(cluster)
    assert (letter.body, letter.tags, letter.keys, letter.reconsume_times) == (b"one", "paid", ("o-1",), 17)
    assert letter.properties["amount"] == "7"
    assert letter.properties["RETRY_TOPIC"] == "orders"
    assert letter.properties["PYROMQ_CAUSE"].startswith("ValueError: never (test_retries_to_dead_letter.py:")


async def test_a_consumer_may_have_a_limit_of_its_own(cluster: LocalCluster) -> None:
    await send_one(cluster)
    listener = AlwaysFails(cluster)
    async with consumer(cluster, listener, max_reconsume=2):
        await eventually(lambda: len(listener.seen) == 1)
        await fail_again(cluster, listener, 10)
        await fail_again(cluster, listener, 30)
        await eventually(lambda: has_dead_letters(cluster))
    (letter,) = await dead_letters(cluster)
    assert letter.reconsume_times == 3


async def test_a_listener_chooses_when_it_comes_again_and_when_it_is_given_up(cluster: LocalCluster) -> None:
    """The delay is not a level: the broker's timer handles it."""
    await send_one(cluster)
    watch = Stopwatch(cluster)

    async def listen(message: MessageExt) -> None:
        watch.note()
        raise RetryLater(timedelta(seconds=77)) if len(watch) < 3 else DeadLetter("enough")

    async with consumer(cluster, listen):
        await eventually(lambda: len(watch) == 1)
        for expected in (2, 3):
            await cluster.clock.advance_async(seconds=77, step=STEP)
            await eventually(lambda expected=expected: len(watch) == expected)  # type: ignore[misc]
        await eventually(lambda: has_dead_letters(cluster))
    assert watch.shows(77, 77)
    (letter,) = await dead_letters(cluster)
    assert letter.reconsume_times == 3
    assert letter.properties["PYROMQ_CAUSE"].startswith("DeadLetter: enough")


async def test_retries_go_on_after_the_broker_was_restarted(cluster: LocalCluster) -> None:
    await send_one(cluster)
    listener = AlwaysFails(cluster)
    async with consumer(cluster, listener):
        await eventually(lambda: len(listener.seen) == 1)
        await eventually(lambda: is_scheduled(cluster))
        await asyncio.to_thread(cluster.stop_broker)
        await asyncio.to_thread(cluster.start_broker)
        await fail_again(cluster, listener, 12)
    assert [message.reconsume_times for message in listener.seen] == [0, 1]


async def test_a_message_that_the_log_has_no_more_comes_again_as_a_copy(cluster: LocalCluster) -> None:
    """A listener holds it for so long that its log file is removed meanwhile."""
    await send_one(cluster)
    listener = AlwaysFails(cluster)
    with gone_from_the_log(cluster):
        async with consumer(cluster, listener):
            await eventually(lambda: len(listener.seen) == 1)
            await fail_again(cluster, listener, 10)
    assert [(message.body, message.reconsume_times) for message in listener.seen] == [(b"one", 0), (b"one", 1)]


async def test_inside_a_namespace_topics_keep_the_names_their_users_know(cluster: LocalCluster) -> None:
    seen: list[str] = []

    async def listen(message: MessageExt) -> None:
        seen.append(message.topic)
        raise RetryLater(0) if len(seen) == 1 else DeadLetter("no more")

    async with Producer("shop", cluster.namesrv, namespace="ns") as producer:
        await producer.send(Message(topic="orders", body=b"one"))
    options = {"start_from": "earliest", "namespace": "ns"}
    async with PushConsumer("billing", cluster.namesrv, {"orders": "*"}, listen, **options):  # type: ignore[arg-type]
        await eventually(lambda: store(cluster).max_offset("%DLQ%ns%billing", 0) == 1)
    assert seen == ["orders", "orders"]
    async with AdminClient(cluster.namesrv) as admin:
        (letter,) = [letter async for letter in admin.dead_letters.read("ns%billing")]
    assert (letter.topic, letter.group) == ("ns%orders", "ns%billing")
