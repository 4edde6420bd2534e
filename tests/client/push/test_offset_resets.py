"""An operator's reset while queues start or change hands: the group continues where the operator said."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.client.push.push_consumer import PushConsumer
from pyromq.client.send.producer import Producer
from pyromq.protocol.messages.message import Message, MessageExt, MessageQueue
from pyromq.testing import LocalCluster, eventually
from tests.client.helpers import Heard, MemoryOffsets, committed

COUNT = 20


@pytest.fixture
async def own_cluster() -> AsyncIterator[LocalCluster]:
    async with LocalCluster() as running:
        yield running


async def one_full_queue(cluster: LocalCluster, topic: str) -> MessageQueue:
    async with Producer("p", cluster.namesrv) as producer:
        queue = (await producer.queues(topic))[-1]  # the second of two members gets it
        for number in range(COUNT):
            await producer.send(Message(topic=topic, body=b"%d" % number), queue=queue)
    return queue


class SlowOffsets(MemoryOffsets):
    """Answers with what it had when it was asked, but only after a while."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0
        self.gate = asyncio.Event()

    async def load(self, queue: MessageQueue) -> int | None:
        offset = await super().load(queue)
        self.asked += 1
        await self.gate.wait()
        return offset


@pytest.mark.parametrize("passes", [0, 1, 3, 10])
async def test_a_queue_that_starts_meanwhile_starts_at_the_new_offset(
    own_cluster: LocalCluster, topic: str, group: str, passes: int
) -> None:
    queue = await one_full_queue(own_cluster, topic)
    heard = Heard()
    offsets = SlowOffsets()
    offsets.offsets[queue] = 5
    async with PushConsumer(group, own_cluster.namesrv, {topic: "*"}, heard, offset_store=offsets) as consumer:
        await eventually(lambda: offsets.asked >= 5)  # the queue, the three others, and that of the retry topic
        resetting = asyncio.create_task(consumer._session.reset_offsets({queue: 15}))
        for _ in range(passes):
            await asyncio.sleep(0)
        offsets.gate.set()
        await resetting
        await heard.wait_for(5)
        await consumer.commit()
    assert heard.bodies[-5:] == [b"15", b"16", b"17", b"18", b"19"]
    assert offsets.offsets[queue] == COUNT


@pytest.mark.parametrize("orderly", [False, True])
async def test_a_queue_that_changes_hands_meanwhile_continues_at_the_new_offset(
    own_cluster: LocalCluster, topic: str, group: str, orderly: bool
) -> None:
    """The old owner waits for its listener before it commits and gives the queue up."""
    queue = await one_full_queue(own_cluster, topic)
    clock = own_cluster.clock
    gate, busy = asyncio.Event(), asyncio.Event()
    first: list[bytes] = []

    async def slow(message: MessageExt) -> None:
        first.append(message.body)
        if len(first) == 10:
            busy.set()
            await gate.wait()

    second = Heard()

    def member(listener: object, name: str) -> PushConsumer:
        return PushConsumer(
            group, own_cluster.namesrv, {topic: "*"}, listener,  # type: ignore[arg-type]
            orderly=orderly, start_from="earliest", instance_name=name, clock=clock,
        )  # fmt: skip

    async with member(slow, "a") as old:
        await busy.wait()
        async with member(second, "b") as new:
            await eventually(lambda: queue in new.assignment and queue not in old.assignment)
            await asyncio.gather(*[one._session.reset_offsets({queue: 2}) for one in (old, new)])
            gate.set()
            await eventually(lambda: len(second.bodies) >= COUNT - 2)
            await new.commit()
            async with await BrokerApi.connect(own_cluster.namesrv) as api:
                address = own_cluster.brokers[0].address
                assert (await committed(api, address, group, topic))[queue.queue_id] == COUNT
    assert sorted(second.bodies, key=int) == [b"%d" % number for number in range(2, COUNT)]
