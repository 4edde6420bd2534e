"""Broadcast: a changed price reaches the cache of every server, not of one.

Start a broker with `pyromq up`, then: python examples/cache_refresh.py [NAMESRV]
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from pyromq import LocalOffsets, MessageExt, Producer, PushConsumer

TOPIC = "example-prices"


class Server:
    """One of the servers of a shop, with its own copy of the prices."""

    def __init__(self, name: str, namesrv: str, directory: str) -> None:
        self.name = name
        loaded_at = datetime.now(UTC)
        self.prices = {"tea": "2.50"}  # a shop reads its database here; what changes from now on comes as messages
        self.refreshed = asyncio.Event()
        self.consumer = PushConsumer(
            "example-price-caches",
            namesrv,
            {TOPIC: "*"},
            self.refresh,
            start_from=loaded_at,
            broadcasting=True,  # each member gets every message; nothing is redelivered
            offset_store=LocalOffsets(Path(directory) / name),
            instance_name=name,  # both servers live in one process here
        )

    async def refresh(self, message: MessageExt) -> None:
        self.prices[message.keys[0]] = message.body.decode()
        print(self.name, "received", self.prices)
        self.refreshed.set()


async def main(namesrv: str, directory: str) -> None:
    north, south = Server("north", namesrv, directory), Server("south", namesrv, directory)
    async with Producer("example-office", namesrv) as producer, north.consumer, south.consumer:
        await producer.send(TOPIC, "2.80", keys="tea")
        await asyncio.wait_for(asyncio.gather(north.refreshed.wait(), south.refreshed.wait()), 30)


if __name__ == "__main__":
    default = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")
    with tempfile.TemporaryDirectory() as place:
        asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else default, place))
