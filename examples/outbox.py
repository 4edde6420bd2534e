"""A transactional outbox: an order and its message are written together, and a relay sends what was committed.

Needs `pip install 'pyromq[idempotent]'`. Start a broker with `pyromq up`, then: python examples/outbox.py [NAMESRV]
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile

from sqlalchemy import Column, Engine, MetaData, String, Table, create_engine, insert

from pyromq import App, Message, MessageExt
from pyromq.outbox import Outbox

TOPIC = "example-outbox-orders"
tables = MetaData()
orders = Table("orders", tables, Column("id", String(64), primary_key=True))
app = App("example-outbox")
shipped = asyncio.Semaphore(0)


def place_order(engine: Engine, outbox: Outbox, name: str, *, paid: bool = True) -> None:
    """Write the order and its message: both are there after the commit, or neither."""
    with engine.begin() as connection:
        connection.execute(insert(orders).values(id=name))
        outbox.add(connection, Message(topic=TOPIC, body=b"...", keys=[name]))
        if not paid:
            raise ValueError(f"{name} is not paid")  # rolls back the message too


@app.on(TOPIC, group="example-outbox-shipping", start_from="earliest")
async def ship(message: MessageExt) -> None:
    print("received", message.keys[0])
    shipped.release()


async def main(directory: str) -> None:
    engine = create_engine(f"sqlite:///{directory}/shop.db")
    outbox = Outbox(engine)
    tables.create_all(engine)
    outbox.metadata.create_all(engine)
    async with app:
        relay = asyncio.create_task(outbox.run(app.producer))  # in one process or in many, beside the service
        await asyncio.to_thread(place_order, engine, outbox, "o-1")
        try:
            await asyncio.to_thread(place_order, engine, outbox, "o-2", paid=False)
        except ValueError as error:
            print("not placed:", error)
        await asyncio.to_thread(place_order, engine, outbox, "o-3")
        for _ in range(2):
            await asyncio.wait_for(shipped.acquire(), 30)
        relay.cancel()
        await asyncio.wait([relay])


if __name__ == "__main__":
    app.use_cluster(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876"))
    with tempfile.TemporaryDirectory() as here:
        asyncio.run(main(here))
