"""Orders leave through an outbox and are billed once each, although one of them is sent twice.

Needs `pip install 'pyromq[idempotent]'`. Start a broker with `pyromq up`, then:
python examples/idempotent_payment.py [NAMESRV]
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile

from sqlalchemy import Column, Connection, Engine, MetaData, String, Table, create_engine, insert, select

from pyromq import Message, MessageExt, Producer, PushConsumer
from pyromq.idempotent import Idempotent
from pyromq.outbox import Outbox

TOPIC = "example-purchases"
tables = MetaData()
orders = Table("orders", tables, Column("id", String(64)))
bills = Table("bills", tables, Column("order_id", String(64)))


def place_orders(engine: Engine, outbox: Outbox, names: list[str]) -> None:
    """Write each order and its message in one transaction."""
    for name in names:
        with engine.begin() as connection:
            connection.execute(insert(orders).values(id=name))
            outbox.add(connection, Message(topic=TOPIC, body=name.encode(), tags="created", keys=[name]))


async def main(namesrv: str, directory: str) -> None:
    engine = create_engine(f"sqlite:///{directory}/shop.db")
    outbox, once = Outbox(engine), Idempotent(engine, "example-billing")
    for metadata in (tables, outbox.metadata, once.metadata):
        metadata.create_all(engine)
    run = os.urandom(4).hex()
    names = [f"o-{run}-{number}" for number in range(3)]
    place_orders(engine, outbox, names)
    place_orders(engine, outbox, names[:1])  # a mistake: the first order once more
    handled = asyncio.Semaphore(0)

    @once
    def bill(message: MessageExt, connection: Connection) -> None:
        connection.execute(insert(bills).values(order_id=message.keys[0]))

    async def handle(message: MessageExt) -> None:
        await asyncio.to_thread(bill, message)
        if run in message.keys[0]:
            handled.release()

    async with (
        Producer("example-shop", namesrv) as producer,
        PushConsumer("example-billing", namesrv, {TOPIC: "*"}, handle, start_from="earliest"),
    ):
        print("sent", await outbox.send_waiting(producer))
        for _ in range(4):
            await handled.acquire()
    with engine.begin() as connection:
        for name in connection.execute(select(bills.c.order_id).order_by(bills.c.order_id)).scalars():
            print("received and billed", name[-1])
    engine.dispose()


if __name__ == "__main__":
    default = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")
    with tempfile.TemporaryDirectory() as place:
        asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else default, place))
