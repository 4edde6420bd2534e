"""Collect log lines: they are sent one-way, because a service must never wait for its log.

A line may be lost if a broker dies at that moment, and nobody is told. Start a broker with `pyromq up`, then:
python examples/log_collection.py [NAMESRV]
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections import Counter

from pyromq import MessageExt, Producer, PushConsumer

TOPIC, LINES = "example-logs", 200
LEVELS = ("INFO", "INFO", "INFO", "WARNING", "ERROR")
levels: Counter[str] = Counter()
all_there = asyncio.Event()


async def write(producer: Producer, service: str, number: int) -> None:
    """Send a line; this returns as soon as it is on its way."""
    level = LEVELS[number % len(LEVELS)]
    await producer.send_oneway(TOPIC, f"{service} {level} request {number}", tags=level)


async def collect(messages: list[MessageExt]) -> None:
    """Write many lines at once, as a search engine or a file likes them."""
    levels.update(message.tags or "?" for message in messages)
    if levels.total() >= LINES:
        all_there.set()


async def main(namesrv: str) -> None:
    consumer = PushConsumer("example-collectors", namesrv, {TOPIC: "*"}, collect, batch_size=50, start_from="earliest")
    async with Producer("example-services", namesrv) as producer, consumer:
        for number in range(LINES):
            await write(producer, "checkout", number)
        await asyncio.wait_for(all_there.wait(), 30)
    print("received", *(f"{count} × {level}" for level, count in sorted(levels.items())))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")))
