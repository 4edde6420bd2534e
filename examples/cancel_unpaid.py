"""An order that is not paid in time is cancelled: each new order sends itself a delayed message.

A shop would wait for half an hour, this one for one second. Start a broker with `pyromq up`, then:
python examples/cancel_unpaid.py [NAMESRV]
"""

from __future__ import annotations

import asyncio
import os
import sys
from datetime import timedelta

from msgspec import Struct

from pyromq import App, Producer

TIME_TO_PAY = timedelta(seconds=1)
app = App("example-unpaid")
orders: dict[str, str] = {}  # a shop has a table
cancelled = asyncio.Event()


class Order(Struct):
    id: str


@app.on("example-unpaid-orders", group="example-unpaid-checks", start_from="earliest")
async def cancel_if_unpaid(order: Order) -> None:
    """Look at the order when its time is over; paying it meanwhile needs no other message."""
    if orders.get(order.id) == "waiting":
        orders[order.id] = "cancelled"
        print("received the end of", order.id)
        cancelled.set()


async def place(producer: Producer, name: str) -> None:
    """Write the order, and have it looked at later."""
    orders[name] = "waiting"
    await producer.send("example-unpaid-orders", Order(name), keys=name, delay=TIME_TO_PAY)


async def main() -> None:
    async with app:
        for name in ("o-1", "o-2"):
            await place(app.producer, name)
        orders["o-1"] = "paid"
        await asyncio.wait_for(cancelled.wait(), 30)
    print(orders)


if __name__ == "__main__":
    app.use_cluster(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876"))
    asyncio.run(main())
