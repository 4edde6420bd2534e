"""Follow two orders from the send to the listener: message traces, and OpenTelemetry spans if the process records any.

Start a broker with `pyromq up`, then: python examples/traces.py [NAMESRV]
"""

from __future__ import annotations

import asyncio
import os
import sys

from pyromq import Message, MessageExt, Producer, PushConsumer
from pyromq.admin import AdminClient, ConsumeEvent

TOPIC = "example-traces"


async def send(namesrv: str) -> list[str]:
    """Send two orders; return their ids."""
    async with Producer("example-shop", namesrv, trace=True) as producer:
        orders = [Message(topic=TOPIC, body=b"order %d" % number, keys=[str(number)]) for number in range(2)]
        return [(await producer.send(order)).message_id for order in orders]


async def consume(namesrv: str, count: int) -> None:
    """Receive `count` orders."""
    left = asyncio.Semaphore(0)

    async def listen(message: MessageExt) -> None:
        print("received", message.body.decode())
        left.release()

    subscriptions = {TOPIC: "*"}
    async with PushConsumer("example-billing", namesrv, subscriptions, listen, start_from="earliest", trace=True):
        for _ in range(count):
            await left.acquire()


async def main(namesrv: str) -> None:
    ids = await send(namesrv)
    await consume(namesrv, len(ids))
    async with AdminClient(namesrv) as admin:  # or: pyromq message trace ID
        for message_id in ids:
            for event in (await admin.traces.of(message_id)).events:
                what = f"consumed: {event.status}" if isinstance(event, ConsumeEvent) else "sent"
                print(message_id, event.timestamp_ms, event.group, what)


if __name__ == "__main__":
    default = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else default))
