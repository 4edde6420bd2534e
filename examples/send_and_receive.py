"""Send ten orders and read them back.

Start a broker with `pyromq up`, then: python examples/send_and_receive.py [NAMESRV]
"""

from __future__ import annotations

import asyncio
import os
import sys

from pyromq import LitePullConsumer, Message, Producer


async def main(namesrv: str) -> None:
    async with Producer(group="example-shop", namesrv=namesrv) as producer:
        for number in range(10):
            order = Message(topic="example-orders", body=b"order %d" % number, tags="created", keys=[f"o-{number}"])
            result = await producer.send(order, order_key=f"o-{number}")
            print("sent", result.message_id, "to queue", result.queue.queue_id)

    async with LitePullConsumer(
        group="example-audit",
        namesrv=namesrv,
        subscriptions={"example-orders": "created || paid"},
        start_from="earliest",
    ) as consumer:
        received = 0
        async for message in consumer:
            received += 1
            print("received", message.keys[0], message.body.decode())
            if received == 10:
                break


if __name__ == "__main__":
    default = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else default))
