"""A listener that asks for more time, and a producer that waits for its broker."""

from __future__ import annotations

import asyncio

import pytest

from pyromq.client.push.push_consumer import PushConsumer
from pyromq.client.send.producer import Producer
from pyromq.errors import ClientError
from pyromq.protocol.messages.message import Message, MessageExt
from pyromq.testing import LocalCluster, eventually


@pytest.mark.parametrize("on_a_thread", [False, True])
async def test_a_listener_that_asks_is_not_cancelled(cluster: LocalCluster, topic: str, on_a_thread: bool) -> None:
    begun, outcomes = [], []
    end = asyncio.Event()

    async def listen(message: MessageExt) -> None:
        begun.append(message.body)
        if message.body == b"asks":
            if on_a_thread:
                await asyncio.to_thread(message.extend, 3600)
            else:
                message.extend(3600)
        try:
            await end.wait()
            outcomes.append((message.body, "done"))
        except asyncio.CancelledError:
            outcomes.append((message.body, "cancelled"))
            raise

    async with (
        Producer("p", cluster.namesrv) as producer,
        PushConsumer(
            "g", cluster.namesrv, {topic: "*"}, listen, start_from="earliest", consume_timeout=60, clock=cluster.clock
        ),
    ):
        for body in (b"asks", b"does not"):
            await producer.send(Message(topic, body))
        await eventually(lambda: len(begun) == 2, seconds=20)
        await asyncio.to_thread(cluster.clock.advance, minutes=5)
        await eventually(lambda: (b"does not", "cancelled") in outcomes, seconds=20)
        assert (b"asks", "cancelled") not in outcomes
        end.set()
        await eventually(lambda: (b"asks", "done") in outcomes, seconds=20)


def test_only_a_listener_may_ask() -> None:
    with pytest.raises(ClientError, match="works only inside the listener"):
        MessageExt(topic="t", stored_body=b"x").extend(5)
