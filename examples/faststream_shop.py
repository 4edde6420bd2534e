"""A FastStream service on PyroMQ, and its test without a network.

pip install 'pyromq[faststream]'
pyromq up                             # in another terminal
python examples/faststream_shop.py    # or with the name server's address; `faststream run` works too
"""

from __future__ import annotations

import asyncio
import os
import sys

from faststream import FastStream
from pydantic import BaseModel

from pyromq.faststream import PyroMQBroker, PyroMQMessage, TestPyroMQBroker

broker = PyroMQBroker(group="example-faststream-shop")  # at NAMESRV_ADDR, or 127.0.0.1:9876
app = FastStream(broker)


class Order(BaseModel):
    id: str
    cents: int


class Paid(BaseModel):
    id: str


@broker.subscriber("example-faststream-orders", "example-faststream-billing", tags="created", start_from="earliest")
@broker.publisher("example-faststream-paid")
async def bill(order: Order) -> Paid:
    """Charge an order. If this raises, the message is redelivered later."""
    return Paid(id=order.id)


@broker.subscriber("example-faststream-paid", "example-faststream-shipping", start_from="earliest")
async def ship(paid: Paid, message: PyroMQMessage) -> None:
    """Ship a paid order, and end the program."""
    print("received", paid.id, "at", message.raw_message.queue_offset)
    app.exit()


async def test_a_new_order_is_billed_and_shipped() -> None:
    async with TestPyroMQBroker(broker) as test:
        await test.publish(Order(id="o-1", cents=1250), "example-faststream-orders", tags="created")
        ship.mock.assert_called_once_with({"id": "o-1"})


@app.after_startup
async def place_an_order() -> None:
    await broker.publish(Order(id="o-2", cents=999), "example-faststream-orders", tags="created", keys="o-2")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        os.environ["NAMESRV_ADDR"] = sys.argv[1]
    asyncio.run(app.run())
