"""A FastAPI service: an HTTP request sends a message, and a handler in the same process receives it.

pip install 'pyromq[fastapi]' uvicorn
uvicorn fastapi_service:api                   # in this directory, with NAMESRV_ADDR or a broker on 127.0.0.1:9876
python examples/fastapi_service.py [NAMESRV]  # starts it without a port, and sends it one request
"""

from __future__ import annotations

import asyncio
import os
import sys

import httpx
from fastapi import FastAPI
from pydantic import BaseModel

from pyromq import App
from pyromq.fastapi import AppProducer, lifespan

app = App("example-fastapi")
api = FastAPI(lifespan=lifespan(app))
billed = asyncio.Event()


class Order(BaseModel):
    id: str
    cents: int


@api.post("/orders", status_code=202)
async def place(order: Order, producer: AppProducer) -> dict[str, str]:
    """Accept an order; it is billed later, however many come at once."""
    sent = await producer.send("example-fastapi-orders", order, keys=order.id)
    return {"message_id": sent.message_id}


@app.on("example-fastapi-orders", group="example-fastapi-billing", start_from="earliest", rate=100)
async def bill(order: Order) -> None:
    print("received", order.id, order.cents)
    billed.set()


async def main() -> None:
    client = httpx.AsyncClient(transport=httpx.ASGITransport(api), base_url="http://service")
    async with api.router.lifespan_context(api), client:
        answer = await client.post("/orders", json={"id": "o-1", "cents": 1250})
        answer.raise_for_status()
        await asyncio.wait_for(billed.wait(), 30)


if __name__ == "__main__":
    app.use_cluster(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876"))
    asyncio.run(main())
