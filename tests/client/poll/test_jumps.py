"""Seeks at the same time, and a seek while the consumer closes: every message once, and nothing that goes on."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from pyromq.client.poll.lite_pull_consumer import LitePullConsumer
from pyromq.client.send.producer import Producer
from pyromq.errors import ClientError, RemotingError
from pyromq.protocol.messages.message import Message, MessageQueue
from pyromq.testing import LocalCluster
from tests.client.helpers import read

COUNT = 200


async def one_full_queue(producer: Producer, topic: str) -> MessageQueue:
    queue = (await producer.queues(topic))[0]
    await asyncio.gather(
        *[producer.send(Message(topic=topic, body=b"%d" % number), queue=queue) for number in range(COUNT)]
    )
    return queue


def pull_tasks() -> list[str]:
    return [task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith("pyromq pull")]


async def test_two_seeks_at_once_repeat_nothing(
    cluster: LocalCluster, producer: Producer, topic: str, group: str
) -> None:
    queue = await one_full_queue(producer, topic)
    async with LitePullConsumer(group, cluster.namesrv, start_from="earliest") as consumer:
        await consumer.assign([queue])
        await read(consumer, 10)
        await asyncio.gather(*[consumer.seek(queue, 0) for _ in range(5)])
        assert len(pull_tasks()) == 1
        found = await read(consumer, COUNT)
        assert [message.queue_offset for message in found] == list(range(COUNT))
        assert await consumer.poll(timeout=0.05) == []
    assert pull_tasks() == []


async def test_a_seek_that_meets_the_end_starts_nothing(
    cluster: LocalCluster, producer: Producer, topic: str, group: str
) -> None:
    queue = await one_full_queue(producer, topic)
    consumer = LitePullConsumer(group, cluster.namesrv, start_from="earliest")
    await consumer.start()
    await consumer.assign([queue])
    await read(consumer, 10)

    async def seek() -> None:
        with suppress(ClientError, RemotingError):  # it is not open any more
            await consumer.seek(queue, 0)

    async def assign() -> None:
        with suppress(ClientError, RemotingError):
            await consumer.assign(await consumer.queues(topic))

    others = [asyncio.create_task(seek()), asyncio.create_task(assign())]
    await asyncio.sleep(0)
    await consumer.close()
    await asyncio.gather(*others)
    assert pull_tasks() == []
