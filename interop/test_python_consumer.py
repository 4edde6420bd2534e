"""PyroMQ's consumers on Apache's broker, and on our own."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from datetime import UTC, datetime

import pytest

from interop.conftest import Cluster
from interop.inbox import Inbox
from interop.java_side import wait_for_messages
from interop.peer import Peer
from interop.python_side import BODIES, COUNT, EVEN, messages, poll, send
from pyromq import (
    Ack,
    DeadLetter,
    LitePullConsumer,
    Message,
    MessageExt,
    Producer,
    PushConsumer,
    RetryLater,
    Sql,
    Suspend,
)
from pyromq.testing import eventually


async def test_its_push_consumer_gets_every_message_once(cluster: Cluster, name: str) -> None:
    await send(cluster, name)
    inbox = Inbox()
    async with PushConsumer(name, cluster.namesrv, {name: "*"}, inbox, start_from="earliest"):
        assert {one.body for one in await inbox.take(COUNT)} == BODIES
        await send(cluster, name, b"more")
        assert {one.body for one in await inbox.take(COUNT)} == {b"more %d" % number for number in range(COUNT)}
    async with PushConsumer(name, cluster.namesrv, {name: "*"}, inbox, start_from="earliest"):
        assert await inbox.rest() == []


async def test_its_orderly_consumer_gets_each_queue_in_order(cluster: Cluster, name: str) -> None:
    await send(cluster, name)
    inbox = Inbox()
    async with PushConsumer(name, cluster.namesrv, {name: "*"}, inbox, orderly=True, start_from="earliest"):
        taken = await inbox.take(COUNT)
    by_queue: dict[int, list[int]] = defaultdict(list)
    for one in taken:
        by_queue[one.queue_id].append(one.queue_offset)
    assert all(offsets == list(range(len(offsets))) for offsets in by_queue.values())


async def test_broadcasting_gives_every_member_every_message(
    cluster: Cluster, name: str, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path_factory.mktemp("home")))  # where broadcasting keeps its offsets
    await send(cluster, name)
    one, two = Inbox(), Inbox()

    def member(inbox: Inbox, instance: str) -> PushConsumer:
        return PushConsumer(
            name, cluster.namesrv, {name: "*"}, inbox, broadcasting=True, start_from="earliest", instance_name=instance
        )

    async with member(one, "one"), member(two, "two"):
        assert {message.body for message in await one.take(COUNT)} == BODIES
        assert {message.body for message in await two.take(COUNT)} == BODIES


@pytest.mark.parametrize("orderly", [False, True], ids=["concurrent", "orderly"])
async def test_members_share_the_queues_and_take_over(cluster: Cluster, name: str, orderly: bool) -> None:
    await send(cluster, name)
    inbox = Inbox()
    topics = {name: "*"}

    def member(instance: str) -> PushConsumer:
        return PushConsumer(
            name, cluster.namesrv, topics, inbox, orderly=orderly, start_from="earliest", instance_name=instance
        )

    async with member("stays") as stays:
        await inbox.take(COUNT)
        async with member("leaves") as leaves:
            await eventually(lambda: (len(stays.assignment), len(leaves.assignment)) == (2, 2))
            assert not set(stays.assignment) & set(leaves.assignment)
        await eventually(lambda: len(stays.assignment) == 4)
        await send(cluster, name, b"more")
        await inbox.take_all({b"more %d" % number for number in range(COUNT)})


EVEN_BY_SQL = Sql("number IN ('0', '2', '4', '6', '8') OR number > 9 AND TAGS = 'even'")


@pytest.mark.parametrize("wanted", ["even || nothing", EVEN_BY_SQL], ids=["tags", "sql"])
async def test_subscriptions_are_filtered(cluster: Cluster, name: str, wanted: str | Sql) -> None:
    await send(cluster, name)
    inbox = Inbox()
    async with PushConsumer(name, cluster.namesrv, {name: wanted}, inbox, start_from="earliest"):
        assert {one.body for one in await inbox.take(len(EVEN))} == EVEN
        assert await inbox.rest() == []


async def test_a_message_that_fails_comes_again(cluster: Cluster, name: str) -> None:
    async with Producer("python-producers", cluster.namesrv) as producer:
        await producer.send(messages(name)[0])
    inbox = Inbox(lambda message: RetryLater(delay=1) if message.reconsume_times < 2 else None)
    async with PushConsumer(name, cluster.namesrv, {name: "*"}, inbox, start_from="earliest"):
        taken = await inbox.take(3)
        assert await inbox.rest() == []
    assert [one.reconsume_times for one in taken] == [0, 1, 2]
    assert {(one.topic, one.body, one.tags) for one in taken} == {(name, b"body 0", "even")}


async def test_dead_letters_are_kept(cluster: Cluster, java: Peer, name: str) -> None:
    async with Producer("python-producers", cluster.namesrv) as producer:
        await producer.send(messages(name)[0])
    inbox = Inbox(lambda message: DeadLetter("no"))
    async with PushConsumer(name, cluster.namesrv, {name: "*"}, inbox, start_from="earliest"):
        await inbox.take(1)
        found = await asyncio.to_thread(wait_for_messages, java, cluster, f"%DLQ%{name}")
    assert [fact["body"] for fact in found] == ["body 0"]


@pytest.mark.parametrize("orderly", [False, True], ids=["concurrent", "orderly"])
async def test_what_fails_too_often_goes_to_the_dead_letters(
    cluster: Cluster, java: Peer, name: str, orderly: bool
) -> None:
    async with Producer("python-producers", cluster.namesrv) as producer:
        await producer.send(messages(name)[0])
    inbox = Inbox(lambda message: RetryLater(delay=1))
    async with PushConsumer(
        name, cluster.namesrv, {name: "*"}, inbox, start_from="earliest", max_reconsume=1, orderly=orderly
    ):
        await inbox.take(2)
        found = await asyncio.to_thread(wait_for_messages, java, cluster, f"%DLQ%{name}")
    assert [fact["body"] for fact in found] == ["body 0"]


async def test_a_listener_of_batches_acknowledges_a_part(cluster: Cluster, name: str) -> None:
    seen: list[list[bytes]] = []

    async def take(batch: list[MessageExt]) -> Ack | None:
        seen.append([one.body for one in batch])
        return Ack(first=1) if len(batch) > 1 and batch[0].reconsume_times == 0 else None

    async with Producer("python-producers", cluster.namesrv) as producer:
        await producer.send_batch(messages(name)[:4])
    async with PushConsumer(
        name, cluster.namesrv, {name: "*"}, take, start_from="earliest", batch_size=4, concurrency=1
    ):
        await eventually(lambda: sum(map(len, seen)) >= 7)
    assert seen[0] == [b"body 0", b"body 1", b"body 2", b"body 3"]
    assert sorted(body for batch in seen[1:] for body in batch) == [b"body 1", b"body 2", b"body 3"]


async def test_a_paused_push_consumer_gets_nothing_until_it_is_resumed(cluster: Cluster, name: str) -> None:
    await send(cluster, name)
    inbox = Inbox()
    async with PushConsumer(name, cluster.namesrv, {name: "*"}, inbox, start_from="earliest") as consumer:
        await inbox.take(COUNT)
        consumer.pause()
        await send(cluster, name, b"more")
        assert await inbox.rest() == []
        consumer.resume()
        assert {one.body for one in await inbox.take(COUNT)} == {b"more %d" % number for number in range(COUNT)}


async def test_an_orderly_listener_that_fails_holds_up_its_queue(cluster: Cluster, name: str) -> None:
    async with Producer("python-producers", cluster.namesrv) as producer:
        await producer.send_batch(messages(name)[:3])
    seen: list[tuple[bytes, int]] = []

    async def fail_twice(message: MessageExt) -> None:
        seen.append((message.body, message.reconsume_times))
        if message.reconsume_times < 2:
            raise Suspend(delay=0.1)

    async with PushConsumer(name, cluster.namesrv, {name: "*"}, fail_twice, orderly=True, start_from="earliest"):
        await eventually(lambda: len(seen) >= 9)
    assert seen == [(b"body %d" % number, times) for number in range(3) for times in range(3)]


async def test_retries_and_dead_letters_stay_in_their_namespace(cluster: Cluster, java: Peer, name: str) -> None:
    async with Producer("python-producers", cluster.namesrv, namespace="shop") as producer:
        await producer.send(messages(name)[0])
    inbox = Inbox(lambda message: RetryLater(delay=1))
    async with PushConsumer(
        name, cluster.namesrv, {name: "*"}, inbox, start_from="earliest", max_reconsume=1, namespace="shop"
    ):
        taken = await inbox.take(2)
        found = await asyncio.to_thread(wait_for_messages, java, cluster, f"%DLQ%shop%{name}")
    assert [(one.topic, one.reconsume_times) for one in taken] == [(name, 0), (name, 1)]
    assert [fact["body"] for fact in found] == ["body 0"]


# --- pulling ----------------------------------------------------------------------------------------------------------


async def test_a_lite_pull_consumer_goes_on_where_it_committed(cluster: Cluster, name: str) -> None:
    await send(cluster, name)
    for text in (b"body", b"more"):
        async with LitePullConsumer(name, cluster.namesrv, {name: "*"}, start_from="earliest") as consumer:
            assert {one.body for one in await poll(consumer, COUNT)} == {b"%s %d" % (text, n) for n in range(COUNT)}
            await consumer.commit()
        await send(cluster, name, b"more")


async def test_a_lite_pull_consumer_seeks(cluster: Cluster, name: str) -> None:
    async with Producer("python-producers", cluster.namesrv) as producer:
        told, *_ = await producer.send_batch(messages(name))
        await asyncio.sleep(0.01)
        middle = datetime.now(UTC)
        await asyncio.sleep(0.01)
        await producer.send_batch(messages(name, b"more"), queue=told.queue)
    async with LitePullConsumer(name, cluster.namesrv) as consumer:
        await consumer.assign([told.queue])
        await consumer.seek_to_begin(told.queue)
        assert len(await poll(consumer, 2 * COUNT)) == 2 * COUNT
        await consumer.seek(told.queue, 30)
        assert [one.queue_offset for one in await poll(consumer, 10)] == list(range(30, 40))
        await consumer.seek_to_time(told.queue, middle)
        assert (await poll(consumer, 1))[0].body == b"more 0"
        await consumer.seek_to_end(told.queue)
        assert await consumer.poll(timeout=0.5) == []


@pytest.mark.parametrize("wanted", ["even", EVEN_BY_SQL], ids=["tags", "sql"])
async def test_a_lite_pull_consumer_filters(cluster: Cluster, name: str, wanted: str | Sql) -> None:
    await send(cluster, name)
    async with LitePullConsumer(name, cluster.namesrv, {name: wanted}, start_from="earliest") as consumer:
        assert {one.body for one in await poll(consumer, len(EVEN))} == EVEN


async def test_a_lite_pull_consumer_pauses_a_queue_and_commits(cluster: Cluster, name: str) -> None:
    async with Producer("python-producers", cluster.namesrv) as producer:
        told, *_ = await producer.send_batch(messages(name))
        held = told.queue
        async with LitePullConsumer(name, cluster.namesrv, auto_commit=False) as consumer:
            queues = await consumer.queues(name)
            await consumer.assign(queues)
            await consumer.seek_to_begin(held)
            assert len(await poll(consumer, COUNT)) == COUNT
            assert not await consumer.committed(held)  # a broker answers 0 for a young queue
            await consumer.commit()
            assert await consumer.committed(held) == COUNT
            consumer.pause(held)
            (open_queue, *_) = [queue for queue in queues if queue != held]
            await producer.send(Message(topic=name, body=b"held"), queue=held)
            await producer.send(Message(topic=name, body=b"open"), queue=open_queue)
            assert [one.body for one in await poll(consumer, 1)] == [b"open"]
            assert await consumer.poll(timeout=0.5) == []
            consumer.resume(held)
            assert [one.body for one in await poll(consumer, 1)] == [b"held"]
