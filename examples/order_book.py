"""An order book of an exchange: all bids and offers in one global order, so that who came first trades first.

Global order needs a topic with one queue on one broker, which is also all the parallelism that it has. Start a broker
with `pyromq up`, then: python examples/order_book.py [NAMESRV]
"""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress

from msgspec import Struct

from pyromq import App
from pyromq.admin import AdminClient
from pyromq.errors import ClientError

TOPIC = "example-order-book"
app = App("example-exchange")
finished = asyncio.Event()


class Limit(Struct):
    trader: str
    side: str
    price: int


bids: list[Limit] = []
offers: list[Limit] = []


@app.on(TOPIC, group="example-matching", orderly=True, start_from="earliest")
async def match(limit: Limit) -> None:
    """Trade with the best price of the other side, and with whoever came first among equals."""
    mine, others = (bids, offers) if limit.side == "buy" else (offers, bids)
    sign = 1 if limit.side == "buy" else -1
    fitting = [other for other in others if sign * other.price <= sign * limit.price]
    if not fitting:
        mine.append(limit)
        return
    best = min(fitting, key=lambda other: sign * other.price)  # the first of equals
    others.remove(best)
    print("received", limit.trader, limit.side, "from" if limit.side == "buy" else "to", best.trader, "at", best.price)
    if not bids and not offers:
        finished.set()


async def create_topic(namesrv: str) -> None:
    """Create a topic with one queue, on the first broker."""
    async with AdminClient(namesrv) as admin:
        first, *_ = sorted(await admin.masters())
        with suppress(ClientError):  # it exists
            await admin.topics.create(TOPIC, brokers=[first], read_queues=1, write_queues=1)


async def main(namesrv: str) -> None:
    await create_topic(namesrv)
    app.use_cluster(namesrv)
    async with app:
        for trader, side, price in (
            ("Ada", "buy", 100),
            ("Bob", "buy", 100),
            ("Cleo", "buy", 99),
            ("Dan", "sell", 100),  # to Ada, who came before Bob
            ("Eve", "sell", 99),  # to Bob, whose price is better than Cleo's
            ("Finn", "sell", 98),
        ):
            await app.producer.send(TOPIC, Limit(trader, side, price), keys=trader, order_key="book")
        await asyncio.wait_for(finished.wait(), 30)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")))
