"""Send ten orders and receive them with a listener.

Start a broker with `pyromq up`, then: python examples/push_consumer.py [NAMESRV]
"""

from __future__ import annotations

import asyncio
import os
import sys

from pyromq import Message, MessageExt, Producer, PushConsumer


async def main(namesrv: str) -> None:
    done = asyncio.Event()
    received = 0

    async def bill(message: MessageExt) -> None:
        nonlocal received
        received += 1
        print("received", message.keys[0], message.body.decode())
        if received == 10:
            done.set()

    async with (
        Producer(group="example-shop", namesrv=namesrv) as producer,
        PushConsumer(
            group="example-billing",
            namesrv=namesrv,
            subscriptions={"example-bills": "created || paid"},
            listener=bill,  # returning acknowledges; if it raises, the message is redelivered later
            start_from="earliest",
        ),
    ):
        for number in range(10):
            order = Message(topic="example-bills", body=b"order %d" % number, tags="created", keys=[f"o-{number}"])
            await producer.send(order)
        await done.wait()  # a service would `await consumer.run()` until it is cancelled


if __name__ == "__main__":
    default = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else default))
