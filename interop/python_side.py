"""What the tests of our client share: what it sends."""

from __future__ import annotations

import asyncio

from interop.conftest import Cluster
from pyromq import Message, Producer

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
    """Send them."""
    async with Producer("python-producers", cluster.namesrv) as producer:
        await asyncio.gather(*(producer.send(one) for one in messages(topic, text)))
