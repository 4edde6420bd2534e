"""A good client: it sends and reads at a steady pace, and notes how long that takes and what fails."""

from __future__ import annotations

import asyncio
import time

from msgspec import Struct, field

from pyromq import Message, Producer, PyroMQError
from pyromq.client.net.calls.broker_api import BrokerApi

PACE = 0.01
"""Seconds between two sends; a send counts from when it was due."""
TOPIC = "good"


class Figures(Struct):
    """What a good client saw."""

    times_ms: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    @property
    def p99(self) -> float:
        """How long the slowest of a hundred sends took, in milliseconds."""
        ordered = sorted(self.times_ms)
        return round(ordered[int(len(ordered) * 0.99)], 2) if ordered else 0.0


class GoodClient:
    """An async context manager: connected, and with a topic to send to."""

    def __init__(self, namesrv: str) -> None:
        self._namesrv = namesrv
        self._producer = Producer(group="good", namesrv=namesrv, send_timeout=5.0, retries=0)

    async def __aenter__(self) -> GoodClient:
        await self._producer.__aenter__()
        for _ in range(50):
            await self._producer.send(Message(topic=TOPIC, body=b"begin"))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._producer.__aexit__(None, None, None)

    async def measure(self, seconds: float) -> Figures:
        """Send at a steady pace for so long."""
        figures = Figures()
        began = time.perf_counter()
        sends = []
        for number in range(int(seconds / PACE)):
            due = began + number * PACE
            await asyncio.sleep(max(due - time.perf_counter(), 0))
            sends.append(asyncio.ensure_future(self._send(due, figures)))
        await asyncio.gather(*sends)
        return figures

    async def _send(self, due: float, figures: Figures) -> None:
        try:
            await self._producer.send(Message(topic=TOPIC, body=bytes(200)))
        except PyroMQError as error:
            figures.errors.append(str(error)[:200])
        else:
            figures.times_ms.append((time.perf_counter() - due) * 1000)


async def newcomer(namesrv: str) -> str:
    """Connect as a new client, send and read; return what is wrong, or nothing."""
    try:
        async with Producer(group="newcomer", namesrv=namesrv, send_timeout=5.0) as producer:
            result = await producer.send(Message(topic=TOPIC, body=b"new"))
        async with await BrokerApi.connect(namesrv) as api:
            route = await api.route(TOPIC)
            end = await api.max_offset(route.broker_datas[0].broker_addrs[0], TOPIC, result.queue.queue_id)
    except PyroMQError as error:
        return f"a newcomer was not served: {error}"
    return "" if end > result.queue_offset else "what was acknowledged is not there"
