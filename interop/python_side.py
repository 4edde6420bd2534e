"""Shared by the tests of our client: what it sends, and how it polls."""

from __future__ import annotations

import asyncio

from interop.conftest import Cluster
from pyromq import LitePullConsumer, Message, MessageExt, Producer
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.testing import eventually

COUNT = 20
BODIES = {b"body %d" % number for number in range(COUNT)}
EVEN = {b"body %d" % number for number in range(0, COUNT, 2)}


def messages(topic: str, text: bytes = b"body") -> list[Message]:
    """Return the usual messages."""
    return [
        Message(
            topic=topic,
            body=b"%s %d" % (text, number),
            tags="odd" if number % 2 else "even",
            keys=[f"k-{number}"],
            properties={"number": str(number)},
        )
        for number in range(COUNT)
    ]


async def send(cluster: Cluster, topic: str, text: bytes = b"body") -> None:
    """Send the usual messages; on return the name server knows the topic."""
    async with Producer("python-producers", cluster.namesrv) as producer:
        await asyncio.gather(*(producer.send(one) for one in messages(topic, text)))
    async with await BrokerApi.connect(cluster.namesrv) as api:

        async def is_registered() -> bool:
            return topic in await api.topic_list()

        # Apache's broker acknowledges first and registers the topic afterwards.
        await eventually(is_registered, "the topic is registered", pause=0.05)


async def poll(consumer: LitePullConsumer, count: int) -> list[MessageExt]:
    """Poll until `count` messages have arrived."""
    found: list[MessageExt] = []
    while len(found) < count:
        more = await consumer.poll(timeout=20.0)
        assert more, f"only {len(found)} of {count} came"
        found += more
    return found
