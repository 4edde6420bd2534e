"""Topics with more and fewer queues, under load, with groups that consume all the while."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from signal import SIGKILL

import pytest

from pyromq import LitePullConsumer, Message, MessageExt, Producer, PushConsumer, blocking
from pyromq.admin import AdminClient, ResizeProgress
from pyromq.admin.masters import Masters
from pyromq.errors import ClientError, NoRoute
from pyromq.protocol.messages.message import MessageQueue
from pyromq.testing import LocalCluster, eventually
from tests.client.helpers import MemoryOffsets

KEYS = [f"key-{number}" for number in range(24)]


async def shapes(admin: AdminClient, topic: str) -> dict[str, tuple[int, int]]:
    """Return the numbers of read and write queues, by broker."""
    found = await admin.topics.describe(topic)
    return {name: (data.read_queue_nums, data.write_queue_nums) for name, data in found.settings.items()}


async def steps(progress: AsyncIterator[ResizeProgress]) -> list[str]:
    """Return the phases of a resize, each once."""
    return list(dict.fromkeys([it.phase async for it in progress]))


async def test_more_queues_are_there_at_once(admin: AdminClient, topic: str) -> None:
    await admin.topics.create(topic, brokers=["broker-a"], read_queues=2, write_queues=2)
    await admin.topics.create(topic, brokers=["broker-b"], read_queues=4, write_queues=4, order=True)
    plan = await admin.topics.plan_resize(topic, 4)
    assert (plan.leaving, plan.is_done) == ((), False)
    assert await steps(admin.topics.resize(topic, 4)) == ["write", "done"]
    assert await shapes(admin, topic) == {"broker-a": (4, 4), "broker-b": (4, 4)}
    assert (await admin.topics.plan_resize(topic, 4)).is_done
    await steps(admin.topics.resize(topic, 6))
    assert (await admin.topics.describe(topic)).order == "broker-b:6"


async def test_a_group_that_is_away_is_waited_for_unless_it_is_ignored(
    pair: LocalCluster, admin: AdminClient, topic: str, group: str
) -> None:
    await admin.topics.create(topic, brokers=["broker-a"], read_queues=4, write_queues=4)
    queues = [MessageQueue(topic, "broker-a", number) for number in range(4)]
    async with Producer("shop", pair.namesrv) as producer:
        await producer.send(Message(topic, b"x"), queue=queues[0])
        async with LitePullConsumer(group, pair.namesrv, {topic: "*"}, start_from="earliest") as consumer:
            while not await consumer.poll():
                pass
            await consumer.commit()
        for queue in queues:
            await producer.send(Message(topic, b"x"), queue=queue)
    plan = await admin.topics.plan_resize(topic, 2)
    assert [(queue.broker_name, queue.queue_id) for queue in plan.leaving] == [("broker-a", 2), ("broker-a", 3)]
    assert [(it.group, it.members, it.waiting) for it in plan.groups] == [(group, 0, 2)]
    with pytest.raises(ClientError, match=rf"of {group} \(2\); the same command goes on"):
        await steps(admin.topics.resize(topic, 2, settle=0, timeout=0))
    assert await shapes(admin, topic) == {"broker-a": (4, 2)}
    assert await steps(admin.topics.resize(topic, 2, settle=0, ignore_groups=[group])) == ["write", "drain", "done"]
    assert await shapes(admin, topic) == {"broker-a": (2, 2)}


async def test_a_late_message_is_not_lost(
    pair: LocalCluster, admin: AdminClient, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A producer with an old route may send until the last moment: brokers accept what is still read."""
    await admin.topics.create(topic, brokers=["broker-a"], read_queues=2, write_queues=2)
    seen: list[str] = []
    async with Producer("shop", pair.namesrv) as late:
        await late.send(Message(topic, b"0"), queue=MessageQueue(topic, "broker-a", 1))
        looked = admin.topics._ends

        async def look(masters: Masters, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int]:
            ends = await looked(masters, queues)
            read, _ = (await shapes(admin, topic))["broker-a"]
            seen.append(str(read))
            if len(seen) == 2:  # all looked drained
                await late.send(Message(topic, b"1"), queue=MessageQueue(topic, "broker-a", 1))
            return ends

        monkeypatch.setattr(admin.topics, "_ends", look)
        assert await steps(admin.topics.resize(topic, 1, settle=0)) == ["write", "drain", "done"]
    # plan, first look (a message comes after it), taken away too early, read again, and taken away at last
    assert seen == ["2", "2", "1", "2", "1"]


@asynccontextmanager
async def load(cluster: LocalCluster, topic: str) -> AsyncIterator[list[tuple[str, int]]]:
    """Send numbered messages of many keys, all the time; yield what was acknowledged, in order."""
    sent: list[tuple[str, int]] = []
    is_over = asyncio.Event()

    async def send_key(producer: Producer, key: str) -> None:
        number = 0
        while not is_over.is_set():
            await producer.send(Message(topic, b"%d" % number, keys=[key]), order_key=key)
            sent.append((key, number))
            number += 1
            await asyncio.sleep(0.002)

    async with Producer("load", cluster.namesrv, clock=cluster.clock) as producer, asyncio.TaskGroup() as group:
        for key in KEYS:
            group.create_task(send_key(producer, key))
        yield sent
        is_over.set()


async def killed_half_way(cluster: LocalCluster, topic: str, queues: int) -> None:
    """Resize by the command, and kill its process while it waits for the groups."""
    options = ("topic", "resize", topic, "--queues", str(queues), "--yes", "--json", "-n", cluster.namesrv)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "pyromq.cli.main", *options, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    phases = [json.loads(await process.stdout.readline())["phase"] for _ in range(2)]
    process.kill()
    assert (phases, await process.wait()) == (["write", "drain"], -SIGKILL)


async def test_half_of_sixteen_queues_go_under_load_and_nothing_is_lost(
    cluster: LocalCluster, topic: str, group: str
) -> None:
    got: list[tuple[str, int]] = []
    in_order: dict[int, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))

    async def listen(message: MessageExt) -> None:
        got.append((message.keys[0], int(message.body)))

    async def listen_in_order(message: MessageExt) -> None:
        in_order[message.queue_id][message.keys[0]].append(int(message.body))

    def got_in_order() -> set[tuple[str, int]]:
        return {(key, number) for keys in in_order.values() for key, numbers in keys.items() for number in numbers}

    async with AdminClient(cluster.namesrv) as admin:
        await admin.topics.create(topic, read_queues=16, write_queues=16)
        common = {"start_from": "earliest", "clock": cluster.clock}
        async with (
            PushConsumer(group, cluster.namesrv, {topic: "*"}, listen, **common),  # type: ignore[arg-type]
            PushConsumer(f"{group}-o", cluster.namesrv, {topic: "*"}, listen_in_order, orderly=True, **common),  # type: ignore[arg-type]
        ):
            async with load(cluster, topic) as sent:
                await eventually(lambda: len(got_in_order()) > 200)
                await killed_half_way(cluster, topic, 8)
                assert await shapes(admin, topic) == {"broker-a": (16, 8)}
                before = len(sent)
                await cluster.clock.advance_async(seconds=31, step=31)  # clients refresh their routes
                assert await steps(admin.topics.resize(topic, 8, settle=0.5)) == ["write", "drain", "done"]
                assert await shapes(admin, topic) == {"broker-a": (8, 8)}
                count = len(sent)
                assert count > before, "sends went on all the while"
                await eventually(lambda: len(sent) > count + 200)
            await eventually(lambda: got_in_order() == set(sent))
            await eventually(lambda: set(got) == set(sent))
    for keys in in_order.values():
        for numbers in keys.values():
            assert numbers == sorted(numbers), "a queue keeps the order of a key"
    assert set(Counter(sent).values()) == {1}


async def test_members_that_broadcast_are_asked_themselves(
    pair: LocalCluster, admin: AdminClient, topic: str, group: str
) -> None:
    await admin.topics.create(topic, brokers=["broker-a"], read_queues=2, write_queues=2)
    gate, got = asyncio.Event(), []

    async def listen(message: MessageExt) -> None:
        await gate.wait()
        got.append(message)

    async with Producer("shop", pair.namesrv) as producer:
        await producer.send(Message(topic, b"x"), queue=MessageQueue(topic, "broker-a", 1))
    options = {"broadcasting": True, "start_from": "earliest", "offset_store": MemoryOffsets()}
    async with PushConsumer(group, pair.namesrv, {topic: "*"}, listen, **options):  # type: ignore[arg-type]

        async def waiting() -> list[int]:
            return [it.waiting for it in (await admin.topics.plan_resize(topic, 1)).groups if it.group == group]

        async def is_waiting() -> bool:
            return await waiting() == [1]

        async def is_done() -> bool:
            return await waiting() == [0]

        await eventually(is_waiting)
        gate.set()
        await eventually(is_done)
    assert len(got) == 1


async def test_bad_numbers_and_names_are_refused(admin: AdminClient, topic: str) -> None:
    await admin.topics.create(topic)
    for count in (0, -1, 65_536):
        with pytest.raises(ClientError, match="a topic has 1 to 65535 queues on each broker"):
            await admin.topics.plan_resize(topic, count)
    with pytest.raises(NoRoute):
        await admin.topics.plan_resize("nowhere", 4)
    with pytest.raises(ClientError, match="RocketMQ's own"):
        await admin.topics.plan_resize("TBW102", 4)


def test_blocking_clients_resize_and_delete_too(topic: str) -> None:
    with LocalCluster() as cluster, blocking.AdminClient(cluster.namesrv) as admin:
        admin.topics.create(topic)
        assert admin.topics.plan_resize(topic, 2).queues == 2
        assert [it.phase for it in admin.topics.resize(topic, 2, settle=0)][-1] == "done"
        assert admin.topics.plan_delete(topic) == admin.topics.delete(topic)
