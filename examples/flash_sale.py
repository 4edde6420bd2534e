"""Peak shaving: a flash sale sends 40 purchases at once, and the warehouse takes 20 a second.

The broker keeps what waits. Start one with `pyromq up`, then: python examples/flash_sale.py [NAMESRV]
"""

from __future__ import annotations

import asyncio
import os
import sys
import time

from msgspec import Struct

from pyromq import App, Producer

TOPIC, COUNT, RATE = "example-flash-sale", 40, 20
app = App("example-flash-sale")
done = asyncio.Event()
times: list[float] = []


class Purchase(Struct):
    number: int


@app.on(TOPIC, group="example-warehouse", rate=RATE, start_from="earliest")
async def reserve(purchase: Purchase) -> None:
    """Take one article off the shelf; the warehouse would break at more than RATE a second."""
    times.append(time.monotonic())
    if len(times) == COUNT:
        done.set()


async def main() -> None:
    async with app:
        producer: Producer = app.producer
        began = time.monotonic()
        pending = [await producer.send_soon(TOPIC, Purchase(n)) for n in range(COUNT)]  # waits only for room
        await asyncio.gather(*pending)
        print(f"sent {COUNT} in {time.monotonic() - began:.2f} s")
        await asyncio.wait_for(done.wait(), 50)
        print(f"received {COUNT} in {times[-1] - times[0]:.2f} s")
        assert times[-1] - times[0] > 0.9 * (COUNT - 1) / RATE, "the peak reached the warehouse"


if __name__ == "__main__":
    app.use_cluster(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876"))
    asyncio.run(main())
