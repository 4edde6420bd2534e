"""A producer waits for a broker that restarts, within send_timeout."""

from __future__ import annotations

import asyncio
import time

import pytest

from pyromq.client.send.producer import Producer
from pyromq.client.send_result import SendStatus
from pyromq.errors import PyroMQError
from pyromq.protocol.messages.message import Message, MessageQueue
from pyromq.testing import LocalCluster


@pytest.mark.parametrize("chosen", [False, True])
@pytest.mark.parametrize("killed", [False, True])
async def test_a_send_waits_for_a_broker_that_restarts(
    cluster: LocalCluster, topic: str, chosen: bool, killed: bool
) -> None:
    async with Producer("p", cluster.namesrv, send_timeout=60) as producer:
        stored = await producer.send(Message(topic, b"x"))
        queue: MessageQueue | None = stored.queue if chosen else None
        await asyncio.to_thread(cluster.kill if killed else cluster.stop_broker)
        sending = asyncio.create_task(producer.send(Message(topic, b"y"), queue=queue))
        done, _ = await asyncio.wait([sending], timeout=0.5)
        assert not done, "it waits"
        await asyncio.to_thread(cluster.start_broker)
        assert (await sending).status is SendStatus.SEND_OK


async def test_it_gives_up_in_time(cluster: LocalCluster, topic: str) -> None:
    async with Producer("p", cluster.namesrv, send_timeout=0.5) as producer:
        await producer.send(Message(topic, b"x"))
        await asyncio.to_thread(cluster.kill)
        began = time.perf_counter()
        with pytest.raises(PyroMQError):
            await producer.send(Message(topic, b"y"))
        assert 0.3 < time.perf_counter() - began < 20
        await asyncio.to_thread(cluster.start_broker)
