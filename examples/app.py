"""An App: two handlers with typed payloads, and its test without a network.

python examples/app.py 127.0.0.1:9876          # or: pyromq run app:app, in this directory
"""

from __future__ import annotations

import asyncio
import sys

from msgspec import Struct

from pyromq import App, MessageExt, Producer
from pyromq.testing import TestApp

app = App("example-shop")  # the name servers are those of NAMESRV_ADDR, or 127.0.0.1:9876
shipped = asyncio.Event()


class Order(Struct):
    id: str
    cents: int


class Paid(Struct):
    id: str


@app.on("example-app-orders", group="example-app-billing", tags="created", start_from="earliest")
@app.publishes("example-app-paid")
def bill(order: Order) -> Paid:
    """Charge an order: a plain function, on a thread."""
    return Paid(order.id)


@app.on("example-app-paid", group="example-app-shipping", start_from="earliest")
async def ship(paid: Paid, message: MessageExt) -> None:
    """Ship a paid order."""
    print("received", paid.id, "for", *message.keys)
    shipped.set()


def test_a_new_order_is_billed_and_shipped() -> None:
    with TestApp(app) as test:
        test.send("example-app-orders", Order("o-1", 1250), tags="created", keys="customer-7")
        assert test.sent("example-app-paid", Paid) == [Paid("o-1")]
        assert [each.handler for each in test.handled] == ["bill", "ship"]


async def main() -> None:
    async with app:
        producer: Producer = app.producer
        await producer.send("example-app-orders", Order("o-2", 999), tags="created", keys="customer-8")
        await asyncio.wait_for(shipped.wait(), 30)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        app.use_cluster(sys.argv[1])
    asyncio.run(main())
