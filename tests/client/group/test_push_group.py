"""Push consumers of one group: queues are shared and move as members come and go; nothing is lost on the way."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter

import pytest

from pyromq.client.group.allocation import allocate_by_circle, allocate_sticky
from pyromq.client.group.ownership import TAKE_UP_PATIENCE
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.client.push.push_consumer import PushConsumer
from pyromq.client.push.push_session import PushSession
from pyromq.client.send.producer import Producer
from pyromq.protocol.messages.message import Message, MessageExt, MessageQueue
from pyromq.testing import LocalCluster, eventually
from tests.client.helpers import Heard, fill


def owners(*consumers: PushConsumer) -> list[MessageQueue]:
    return sorted(queue for consumer in consumers for queue in consumer.assignment)


async def kill(consumer: PushConsumer) -> None:
    """End a consumer without a goodbye: its connections just close, as those of a killed process do."""
    session = consumer._session
    await session.membership.stop()
    for task in [*session._tasks, session.instance._beating, session.instance._refreshing]:
        await task.stop()
    session.workers._closed = True
    await session.assignment.stop()
    await session.instance.api.close()


async def test_members_share_the_queues_and_take_over_from_who_leaves(
    cluster: LocalCluster, producer: Producer, topic: str, group: str
) -> None:
    await fill(producer, topic, 4)
    async with PushConsumer(group, cluster.namesrv, {topic: "*"}, Heard()) as first:
        await eventually(lambda: len(first.assignment) == 4)
        async with PushConsumer(group, cluster.namesrv, {topic: "*"}, Heard()) as second:
            await eventually(lambda: len(first.assignment) == len(second.assignment) == 2)
            assert len(set(owners(first, second))) == 4
        await eventually(lambda: len(first.assignment) == 4)


async def test_messages_are_shared_out_evenly(
    cluster: LocalCluster, producer: Producer, topic: str, group: str
) -> None:
    await fill(producer, topic, 4)
    listeners = [Heard() for _ in range(4)]
    consumers = [PushConsumer(group, cluster.namesrv, {topic: "*"}, heard) for heard in listeners]
    for consumer in consumers:
        await consumer.start()
    try:
        await eventually(lambda: all(len(consumer.assignment) == 1 for consumer in consumers))
        before = [len(heard.messages) for heard in listeners]
        await fill(producer, topic, 80)
        await eventually(lambda: sum(len(heard.messages) for heard in listeners) == 84)
        shares = [len(heard.messages) - had for heard, had in zip(listeners, before, strict=True)]
        assert shares == [20] * 4
    finally:
        await asyncio.gather(*[consumer.close() for consumer in consumers])


async def test_a_member_that_dies_is_replaced_at_once_although_it_unlocked_nothing(topic: str, group: str) -> None:
    async with LocalCluster() as cluster, Producer("p", cluster.namesrv) as producer:
        await fill(producer, topic, 4)
        heard = Heard()
        async with PushConsumer(group, cluster.namesrv, {topic: "*"}, heard) as first:
            second = PushConsumer(group, cluster.namesrv, {topic: "*"}, Heard())
            await second.start()
            await eventually(lambda: len(first.assignment) == len(second.assignment) == 2)
            await eventually(lambda: all(held.pull_offset is not None for held in second._session.assignment))
            await kill(second)
            await eventually(lambda: len(first.assignment) == 4)
            started = asyncio.get_running_loop().time()
            before = len(heard.messages)
            await fill(producer, topic, 8)
            await eventually(lambda: len(set(heard.bodies[before:])) == 8)
            assert asyncio.get_running_loop().time() - started < 5, "it does not wait for a lock nobody returns"


def members(cluster: LocalCluster, group: str) -> int:
    return len(cluster.brokers[0].server.clients.members(group))  # type: ignore[union-attr]


async def test_a_member_that_comes_after_one_that_was_killed_waits_for_nobody(
    cluster: LocalCluster, producer: Producer, topic: str, group: str
) -> None:
    await fill(producer, topic, 4)
    first = PushConsumer(group, cluster.namesrv, {topic: "*"}, Heard())
    await first.start()
    await eventually(lambda: len(first.assignment) == 4)
    await eventually(lambda: all(held.pull_offset is not None for held in first._session.assignment))
    await kill(first)
    await eventually(lambda: not members(cluster, group))
    heard = Heard()
    second = PushConsumer(group, cluster.namesrv, {topic: "*"}, heard, clock=cluster.clock)
    started = cluster.clock.monotonic()
    async with second:
        await eventually(lambda: all(held.pull_offset is not None for held in second._session.assignment))
        await fill(producer, topic, 8)
        await heard.wait_for(8)
        assert cluster.clock.monotonic() - started < TAKE_UP_PATIENCE - 1


async def test_a_member_stops_waiting_for_one_that_is_killed(
    cluster: LocalCluster, producer: Producer, topic: str, group: str
) -> None:
    await fill(producer, topic, 4)
    busy, go_on = asyncio.Event(), asyncio.Event()

    async def slow(message: MessageExt) -> None:
        busy.set()
        await go_on.wait()

    first = PushConsumer(group, cluster.namesrv, {topic: "*"}, slow, start_from="earliest")
    await first.start()
    await busy.wait()
    heard = Heard()
    async with PushConsumer(group, cluster.namesrv, {topic: "*"}, heard, clock=cluster.clock) as second:
        await eventually(lambda: len(second.assignment) == 2)
        started = cluster.clock.monotonic()
        await first._session.instance.api.close()  # as if killed: it cannot connect again
        await heard.wait_for(4)
        assert cluster.clock.monotonic() - started < TAKE_UP_PATIENCE - 1
    go_on.set()
    await first.close()


async def test_a_new_member_begins_where_the_last_owner_stopped(topic: str, group: str) -> None:
    """The lock makes it wait until the last owner has finished what is in hand and committed it."""
    async with LocalCluster() as cluster, Producer("p", cluster.namesrv) as producer:
        sent = await fill(producer, topic, 200)
        gate = asyncio.Event()
        done: list[bytes] = []

        async def slow(message: MessageExt) -> None:
            if len(done) > 40:
                await gate.wait()
            done.append(message.body)

        clock = cluster.clock
        async with PushConsumer(
            group, cluster.namesrv, {topic: "*"}, slow, start_from="earliest", clock=clock
        ) as first:
            await eventually(lambda: len(done) > 40)
            heard = Heard()
            async with PushConsumer(group, cluster.namesrv, {topic: "*"}, heard, clock=clock) as second:
                await eventually(lambda: len(first.assignment) == len(second.assignment) == 2)
                await clock.advance_async(seconds=2)
                assert not heard.messages, "the queues it was given are still in hand"
                gate.set()
                await eventually(lambda: len(done) + len(heard.messages) >= 200)
                await clock.advance_async(seconds=1)
        assert sorted([*done, *heard.bodies]) == sorted(sent), "nothing lost, nothing twice"
        assert len(heard.messages) > 40


async def test_a_slow_listener_does_not_keep_a_queue_for_longer_than_five_seconds(topic: str, group: str) -> None:
    async with LocalCluster() as cluster, Producer("p", cluster.namesrv) as producer:
        clock = cluster.clock
        await fill(producer, topic, 4)
        gate = asyncio.Event()
        begun: list[bytes] = []

        async def slow(message: MessageExt) -> None:
            begun.append(message.body)
            await gate.wait()

        async with PushConsumer(
            group, cluster.namesrv, {topic: "*"}, slow, start_from="earliest", clock=clock
        ) as first:
            await eventually(lambda: len(begun) == 4)
            heard = Heard()
            async with PushConsumer(group, cluster.namesrv, {topic: "*"}, heard, clock=clock) as second:
                await eventually(lambda: len(second.assignment) == 2)
                started = clock.now()
                while len(heard.messages) < 2:
                    await clock.advance_async(seconds=0.5)
                assert 4 < clock.now() - started < 8
                assert len(first.assignment) == 2
            gate.set()


async def test_nothing_is_lost_and_nothing_repeated_while_members_come_and_go_politely(topic: str, group: str) -> None:
    async with (
        LocalCluster() as cluster,
        Producer("p", cluster.namesrv) as producer,
        await BrokerApi.connect(cluster.namesrv) as api,
    ):
        await api.create_topic(cluster.brokers[0].address, topic, queues=16)
        seen: list[bytes] = []
        sent: list[bytes] = []

        async def listen(message: MessageExt) -> None:
            await asyncio.sleep(0.001)
            seen.append(message.body)

        async def stay(seconds: float) -> None:
            async with PushConsumer(group, cluster.namesrv, {topic: "*"}, listen, start_from="earliest"):
                await asyncio.sleep(seconds)

        async def send() -> None:
            for number in range(3000):
                sent.append(b"%d" % number)
                await producer.send(Message(topic=topic, body=sent[-1]))

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(send())
            for number in range(8):
                tasks.create_task(stay(0.5 + (number * 7 % 5) / 5))
                await asyncio.sleep(0.12)
        async with PushConsumer(
            group, cluster.namesrv, {topic: "*"}, listen, start_from="earliest", clock=cluster.clock
        ):
            await eventually(lambda: len(set(seen)) == len(sent))
            await cluster.clock.advance_async(seconds=1)
        repeats = sum(count - 1 for count in Counter(seen).values())
        assert set(seen) == set(sent)
        assert repeats == 0


async def test_a_member_without_a_queue_is_told_so_once(
    cluster: LocalCluster, producer: Producer, topic: str, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    await fill(producer, topic, 1)
    async with await BrokerApi.connect(cluster.namesrv) as api:
        await api.create_topic(cluster.brokers[0].address, topic, queues=1)
    with caplog.at_level(logging.WARNING):
        async with (
            PushConsumer(group, cluster.namesrv, {topic: "*"}, Heard()) as first,
            PushConsumer(group, cluster.namesrv, {topic: "*"}, Heard()) as second,
        ):
            await eventually(lambda: len(first.assignment) + len(second.assignment) == 1)
            idle = second if first.assignment else first
            for _ in range(3):
                await idle._session.membership.rebalance()
    said = [record.getMessage() for record in caplog.records if "has nothing to do" in record.getMessage()]
    assert said == [f"this member of group={group} has nothing to do: topic={topic} has 1 queues for 2 members"]


@pytest.mark.parametrize("allocate", [allocate_by_circle, allocate_sticky])
async def test_the_allocation_function_is_the_caller_s_choice(
    cluster: LocalCluster, producer: Producer, topic: str, group: str, allocate: object
) -> None:
    await fill(producer, topic, 4)
    async with (
        PushConsumer(group, cluster.namesrv, {topic: "*"}, Heard(), allocate=allocate) as first,  # type: ignore[arg-type]
        PushConsumer(group, cluster.namesrv, {topic: "*"}, Heard(), allocate=allocate) as second,  # type: ignore[arg-type]
    ):
        await eventually(lambda: len(first.assignment) == len(second.assignment) == 2)
        if allocate is allocate_by_circle:
            assert {queue.queue_id % 2 for queue in first.assignment} in ({0}, {1})


async def test_an_allocation_function_that_fails_leaves_the_queues_as_they_are(
    cluster: LocalCluster, producer: Producer, topic: str, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    await fill(producer, topic, 4)
    broken = False

    def allocate(queues: list[MessageQueue], members: list[str], me: str) -> list[MessageQueue]:
        if broken:
            raise ZeroDivisionError("a bug of the user's")
        return queues

    async with PushConsumer(group, cluster.namesrv, {topic: "*"}, Heard(), allocate=allocate) as consumer:
        await eventually(lambda: len(consumer.assignment) == 4)
        broken = True
        consumer._session.membership.wake()
        await eventually(lambda: "a bug of the user's" in caplog.text)
        assert len(consumer.assignment) == 4


async def test_new_queues_of_a_topic_are_taken_up(topic: str, group: str) -> None:
    async with (
        LocalCluster() as cluster,
        Producer("p", cluster.namesrv, clock=cluster.clock) as producer,
        await BrokerApi.connect(cluster.namesrv) as api,
    ):
        await fill(producer, topic, 4)
        async with PushConsumer(group, cluster.namesrv, {topic: "*"}, Heard(), clock=cluster.clock) as consumer:
            await api.create_topic(cluster.brokers[0].address, topic, queues=6)
            await cluster.clock.advance_async(seconds=31)
            await eventually(lambda: len(consumer.assignment) == 6)


async def test_namespaces_keep_groups_and_topics_apart(cluster: LocalCluster, topic: str, group: str) -> None:
    heard = Heard()
    async with (
        Producer("p", cluster.namesrv, namespace="N1") as inside,
        Producer("p", cluster.namesrv) as outside,
        PushConsumer(group, cluster.namesrv, {topic: "*"}, heard, namespace="N1") as consumer,
    ):
        await outside.send(Message(topic=topic, body=b"outside"))
        await inside.send(Message(topic=topic, body=b"inside"))
        await heard.wait_for(1)
        await eventually(lambda: len(consumer.assignment) == 4)
        assert {queue.topic for queue in consumer.assignment} == {topic}
        assert consumer.group == f"N1%{group}"
        assert consumer._session.retry_topic == f"%RETRY%N1%{group}"
    assert [(message.topic, message.body) for message in heard.messages] == [(topic, b"inside")]


async def test_queues_are_shared_out_every_twenty_seconds_also_if_no_broker_tells(
    topic: str, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PushSession, "members_changed", lambda session: None)  # deaf to what brokers tell
    async with LocalCluster() as cluster, Producer("p", cluster.namesrv) as producer:
        await fill(producer, topic, 4)
        options = {"subscriptions": {topic: "*"}, "listener": Heard(), "clock": cluster.clock}
        async with PushConsumer(group, cluster.namesrv, **options) as first:  # type: ignore[arg-type]
            await eventually(lambda: len(first.assignment) == 4)
            began = cluster.clock.monotonic()
            async with PushConsumer(group, cluster.namesrv, **options) as second:  # type: ignore[arg-type]
                await eventually(lambda: len(second.assignment) == 2)
                took = cluster.clock.monotonic() - began
                assert len(first.assignment) == 4 or took > 15  # that long on a machine that is busy elsewhere
                await cluster.clock.advance_async(seconds=20)
                await eventually(lambda: len(first.assignment) == 2)
