"""An App with a real cluster."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest
from msgspec import Struct

from pyromq import App, DeadLetter, MessageExt, Producer, RetryLater
from pyromq.admin import AdminClient
from pyromq.testing import LocalCluster, eventually
from tests.shared_cluster import SharedCluster


class Order(Struct):
    id: str
    cents: int = 0


class Paid(Struct):
    id: str


@pytest.fixture
def cluster(shared_cluster: SharedCluster) -> Iterator[LocalCluster]:
    with shared_cluster.lend() as running:
        yield running


async def test_orders_go_through_the_app(cluster: LocalCluster, topic: str) -> None:
    app = App("shop", cluster.namesrv, clock=cluster.clock)
    paid: list[tuple[str, ...]] = []
    tried: list[str] = []

    @app.on(topic, group=f"{topic}-billing", tags="created", start_from="earliest")
    @app.publishes(f"{topic}-paid")
    def bill(order: Order) -> Paid:
        tried.append(order.id)
        if order.id == "o-2" and tried.count("o-2") == 1:
            raise RetryLater
        return Paid(order.id)

    @app.on(topic, group=f"{topic}-billing", tags="bad")
    async def never(order: Order) -> None:
        raise DeadLetter("no such customer")

    @app.on(f"{topic}-paid", group=f"{topic}-ship", start_from="earliest")
    async def ship(order: Paid, message: MessageExt) -> None:
        paid.append((order.id, *message.keys))

    async with app:
        for number in range(3):
            await app.producer.send(topic, Order(f"o-{number}"), tags="created", keys=f"k-{number}")
        await app.producer.send(topic, Order("bad"), tags="bad")
        await app.producer.send(topic, b"{}", tags="created")
        await eventually(lambda: len(paid) == 2)
        await asyncio.to_thread(cluster.clock.advance, seconds=11)
        await eventually(lambda: len(paid) == 3)
    assert sorted(paid) == [("o-0", "k-0"), ("o-1", "k-1"), ("o-2", "k-2")]
    async with AdminClient(cluster.namesrv) as admin:
        letters = [letter async for letter in admin.dead_letters.read(f"{topic}-billing")]
    assert sorted(letter.message.body for letter in letters) == [b'{"id":"bad","cents":0}', b"{}"]
    assert any("field id: it is required and missing" in str(letter.message.properties) for letter in letters)


async def test_closing_finishes_what_is_in_hand_and_commits_it(cluster: LocalCluster, topic: str) -> None:
    app = App("shop", cluster.namesrv)
    events: list[str] = []
    begun, may_end = asyncio.Event(), asyncio.Event()

    @app.on(topic, start_from="earliest", concurrency=1)
    async def slow(order: Order) -> None:
        events.append(f"begin {order.id}")
        begun.set()
        await may_end.wait()
        events.append(f"end {order.id}")

    @app.on_shutdown
    async def stop(producer: Producer) -> None:
        events.append("stop")
        await producer.send(f"{topic}-stopped", "x")

    async with Producer("p", cluster.namesrv) as producer:
        await producer.send(topic, Order("o-1"))
        queue = (await producer.queues(topic))[0]
        for number in (2, 3):
            await producer.send(topic, Order(f"o-{number}"), queue=queue)
    await app.start()
    await begun.wait()
    consumer = app._session.consumers[0]._session
    closing = asyncio.create_task(app.close())
    await consumer.closing.wait()
    may_end.set()
    await closing
    first = events[0].split()[1]
    assert events == [f"begin {first}", f"end {first}", "stop"]
    got: list[str] = []

    again = App("shop", cluster.namesrv)

    @again.on(topic, start_from="earliest")
    async def rest(order: Order) -> None:
        got.append(order.id)

    async with again:
        await eventually(lambda: len(got) == 2)
    assert sorted([first, *got]) == ["o-1", "o-2", "o-3"]


async def test_a_start_that_fails_closes_what_was_opened(cluster: LocalCluster) -> None:
    app = App("shop", cluster.namesrv)
    threads = threading.active_count()

    @app.on_startup
    def fail() -> None:
        raise ValueError("no database")

    with pytest.raises(ValueError, match="no database"):
        await app.start()
    await eventually(lambda: threading.active_count() <= threads)
    with pytest.raises(Exception, match="not open"):
        app.stop()


async def test_run_returns_when_it_is_stopped(cluster: LocalCluster) -> None:
    async with App("shop", cluster.namesrv) as app:
        running = asyncio.create_task(app.run())
        app.stop()
        await running
