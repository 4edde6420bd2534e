"""A cluster with traffic that looks like a small shop's: topics, groups, dead letters, delays."""

from __future__ import annotations

import asyncio
import json
import math
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from pyromq import UNKNOWN, DeadLetter, Message, Producer, PushConsumer, TransactionProducer
from pyromq.admin import AdminClient
from pyromq.clock import SystemClock
from pyromq.console.console import Console
from pyromq.console.monitoring.http_server import bind, serve
from pyromq.console.reading.history import FINE_POINTS, FINE_STEP, FigureHistory
from pyromq.console.web.settings import ConsoleSettings
from pyromq.protocol.messages.message import MessageExt
from pyromq.testing import LocalCluster

TOPICS = {"orders": 14, "payments": 9, "shipments": 5, "inventory-changes": 22, "emails": 3, "page-views": 60}
GROUPS = {
    "billing": ("orders", 0.0),
    "warehouse": ("orders", 0.0),
    "fraud-check": ("payments", 2.5),
    "courier": ("shipments", 0.0),
    "stock-levels": ("inventory-changes", 0.0),
    "mailer": ("emails", 0.0),
    "clickstream": ("page-views", 0.0),
}
PACE = 0.55
"""How much of TOPICS is really sent."""
UNREACHABLE = {b'"Tony"': "the mail server does not know this address", b'"Frances"': "no answer after 30 s"}
"""Customers to whom no mail goes through, and why."""
NAMES = ("Ada", "Grace", "Edsger", "Barbara", "Donald", "Margaret", "Tony", "Frances")
CITIES = ("Delft", "Zürich", "Kyoto", "Lisboa", "Hangzhou", "Tromsø")


def order(number: int) -> bytes:
    """Return the body of an order."""
    chance = random.Random(number)
    return json.dumps(
        {
            "order": f"o-{number:06d}",
            "customer": {"name": chance.choice(NAMES), "city": chance.choice(CITIES)},
            "items": [
                {"sku": f"sku-{chance.randrange(900) + 100}", "count": chance.randrange(1, 4)}
                for _ in range(chance.randrange(1, 3))
            ],
            "total": round(chance.uniform(4, 240), 2),
            "currency": "EUR",
        },
        ensure_ascii=False,
    ).encode()


async def traffic(producer: Producer, seconds: float = math.inf) -> None:
    """Send for some time, about as much to each topic as TOPICS says."""
    number, began = 0, time.monotonic()
    while time.monotonic() - began < seconds:
        for topic, rate in TOPICS.items():
            for _ in range(int(rate * PACE * random.uniform(0.7, 1.3) / 5 + random.random())):
                number += 1
                tags = random.choice(("created", "paid", "cancelled"))
                message = Message(topic=topic, body=order(number), keys=[f"o-{number:06d}"], tags=tags)
                await producer.send(message)
        await asyncio.sleep(0.2)


def _listener(topic: str, seconds: float) -> Callable[[MessageExt], Awaitable[None]]:
    async def handle(message: MessageExt) -> None:
        if topic == "emails":
            for name, cause in UNREACHABLE.items():
                if name in message.body:
                    raise DeadLetter(cause)
        await asyncio.sleep(seconds)

    return handle


def past(history: FigureHistory) -> None:
    """Fill the history with a quiet half hour, so that charts have something to show."""
    now = time.time()
    for index in range(FINE_POINTS):
        at = now - (FINE_POINTS - index) * FINE_STEP
        wave = 1 + 0.25 * math.sin(index / 9) + 0.08 * math.sin(index * 1.7)
        total = sum(TOPICS.values()) * PACE
        values = {"in": total * wave, "out": total * 1.35 * wave * (0.97 + 0.05 * math.sin(index))}
        backlog = max(0.0, index - 150.0) + 5 * abs(math.sin(index / 5))
        values |= {"lag": backlog}
        values |= {f"topic/{topic}/in": rate * PACE * wave for topic, rate in TOPICS.items()}
        for group, (topic, _) in GROUPS.items():
            values[f"group/{group}/out"] = TOPICS[topic] * PACE * wave
            values[f"group/{group}/lag"] = backlog if group == "fraud-check" else 4 * abs(math.sin(index / 3))
            values[f"group/{group}/behind"] = values[f"group/{group}/lag"] / 4
        history.add(at, values)


@asynccontextmanager
async def sample_shop(
    port: int = 0, *, login: bool = False, data: Path | None = None
) -> AsyncIterator[tuple[str, Console]]:
    """Run the cluster, its traffic and its console; yield the console's address."""
    async with AsyncExitStack() as stack:
        settings = {"enablePropertyFilter": "true"}
        cluster = await stack.enter_async_context(LocalCluster(brokers=2, slaves=1, settings=settings))
        admin = await stack.enter_async_context(AdminClient(cluster.namesrv))
        for topic in TOPICS:
            await admin.topics.create(topic, read_queues=4, write_queues=4)
        for group, (topic, seconds) in GROUPS.items():
            for _ in range(2):
                consumer = PushConsumer(
                    group, cluster.namesrv, {topic: "*"}, _listener(topic, seconds),
                    concurrency=2, start_from="earliest", max_reconsume=0 if topic == "emails" else None,
                )  # fmt: skip
                await stack.enter_async_context(consumer)
        producer = await stack.enter_async_context(Producer("shop", cluster.namesrv))
        async with PushConsumer("nightly-report", cluster.namesrv, {"orders": "*"}, _listener("orders", 0.0)):
            await traffic(producer, 4.0)
        for minutes in (2, 5, 5, 12, 25, 25, 26, 40, 58, 90):
            await producer.send(Message(topic="emails", body=order(minutes), keys=["reminder"]), delay=60 * minutes)
        ledger = TransactionProducer("ledger", cluster.namesrv, check=lambda message: UNKNOWN)
        await stack.enter_async_context(ledger)
        for number in range(3):
            half = Message(topic="payments", body=order(number), keys=[f"p-{number}"])
            await ledger.send_in_transaction(half, lambda message: UNKNOWN)
        sending = asyncio.create_task(traffic(producer))
        stack.callback(sending.cancel)
        console = Console(ConsoleSettings(login=login, data=data), SystemClock())
        console.load()
        past(console.parts.history)
        listener = stack.enter_context(bind("127.0.0.1", port))
        url = await stack.enter_async_context(serve(console.app(), listener))
        await console.connect(cluster.namesrv)
        stack.push_async_callback(console.disconnect)
        yield url, console
