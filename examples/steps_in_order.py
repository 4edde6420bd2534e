"""Ten steps of three orders: each order's steps are handled in their order, different orders beside each other.

Start a broker with `pyromq up`, then: python examples/steps_in_order.py [NAMESRV]
"""

from __future__ import annotations

import asyncio
import os
import sys

from msgspec import Struct

from pyromq import App

TOPIC, ORDERS, STEPS = "example-steps", ("o-1", "o-2", "o-3"), 10
app = App("example-steps")
done = asyncio.Event()
handled: dict[str, list[int]] = {order: [] for order in ORDERS}


class Step(Struct):
    order: str
    number: int


@app.on(TOPIC, group="example-history", orderly=True, start_from="earliest")  # one message of a queue at a time
async def follow(step: Step) -> None:
    """Note a step; if this raised, the later steps of the same queue would wait for it."""
    await asyncio.sleep(0.001 * (STEPS - step.number))  # early steps take longer, and are not overtaken
    handled[step.order].append(step.number)
    if all(len(steps) == STEPS for steps in handled.values()):
        done.set()


async def main() -> None:
    async with app:
        for number in range(STEPS):
            for order in ORDERS:
                await app.producer.send(TOPIC, Step(order, number), keys=order, order_key=order)  # one queue each
        await asyncio.wait_for(done.wait(), 50)
    for order, steps in handled.items():
        print("received", order, *steps)
        assert steps == [*range(STEPS)]


if __name__ == "__main__":
    app.use_cluster(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876"))
    asyncio.run(main())
