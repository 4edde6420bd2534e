"""Send a request and receive the reply: one program asks, another answers, both through the broker.

pyromq up                          # in another terminal
python examples/request_reply.py   # or with the name server's address
"""

from __future__ import annotations

import asyncio
import os
import sys

from pyromq import Message, MessageExt, Producer, PushConsumer


async def quote(message: MessageExt) -> None:
    """Answer a request; a plain function may call `message.reply` without `await`."""
    await message.reply(b"42 EUR for " + message.body)


async def main(namesrv: str) -> None:
    async with (
        PushConsumer("quotes", namesrv, {"quote-requests": "*"}, quote, start_from="earliest"),
        Producer("shop", namesrv) as producer,
    ):
        for article in (b"a lamp", b"a table"):
            reply = await producer.request(Message(topic="quote-requests", body=article), timeout=10)
            print(f"received {reply.body.decode()!r}")


if __name__ == "__main__":
    address = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")
    asyncio.run(main(address))
