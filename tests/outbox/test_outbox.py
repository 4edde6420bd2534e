"""Messages of the outbox are sent once, in order, whatever happens to the process that sends."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from itertools import chain, count
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, event
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from pyromq import Message, Producer, RequestTimeout
from pyromq.admin import AdminClient
from pyromq.errors import ClientError, InvalidMessage
from pyromq.outbox import Outbox
from pyromq.testing import LocalCluster, TestClock, eventually
from tests.database_servers import DATABASES, database
from tests.shared_cluster import SharedCluster

TOPIC = ""
_numbers = count()


@pytest.fixture(scope="module", params=DATABASES)
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with database(request.param, tmp_path_factory.mktemp(request.param)) as address:
        yield address


@pytest.fixture
def engine(url: str) -> Iterator[Engine]:
    made = create_engine(url)
    outbox = Outbox(made)
    outbox.metadata.create_all(made)
    yield made
    outbox.metadata.drop_all(made)
    made.dispose()


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[Engine]:
    made = create_engine(f"sqlite:///{tmp_path}/shop.db")
    Outbox(made).metadata.create_all(made)
    yield made
    made.dispose()


@pytest.fixture
def cluster(shared_cluster: SharedCluster) -> Iterator[LocalCluster]:
    with shared_cluster.lend() as running:
        yield running


@pytest.fixture
async def producer(cluster: LocalCluster) -> AsyncIterator[Producer]:
    async with Producer("shop", cluster.namesrv) as opened:
        yield opened


def order(number: int, key: str = "o-1") -> Message:
    return Message(
        topic=TOPIC, body=str(number).encode(), tags="created", keys=[key, f"n-{number}"], properties={"a": "é"}
    )


@pytest.fixture(autouse=True)
def topic(monkeypatch: pytest.MonkeyPatch) -> str:
    """A topic of its own for each test."""
    name = f"orders-{next(_numbers)}"
    monkeypatch.setattr(f"{__name__}.TOPIC", name)
    return name


async def stored(cluster: LocalCluster) -> dict[int, list[int]]:
    """Return the numbers that each queue holds."""
    queues: dict[int, list[int]] = defaultdict(list)
    async with AdminClient(cluster.namesrv) as admin:
        async for message in admin.read(TOPIC):
            assert message.tags == "created"
            assert message.properties["a"] == "é"
            queues[message.queue_id].append(int(message.body))
    return queues


async def test_what_was_committed_is_sent_in_order_and_what_was_not_is_not(
    engine: Engine, cluster: LocalCluster, producer: Producer
) -> None:
    outbox = Outbox(engine, batch=7)
    for start in range(0, 40, 4):
        with engine.connect() as connection:
            for number in range(start, start + 4):
                outbox.add(connection, order(number, f"o-{number % 3}"), order_key=f"o-{number % 3}")
            if start % 8:
                connection.rollback()
            else:
                connection.commit()
    committed = [number for number in range(40) if number // 4 % 2 == 0]
    assert await outbox.waiting() == len(committed)
    assert await outbox.send_waiting(producer) == len(committed)
    assert await outbox.waiting() == 0
    queues = await stored(cluster)
    assert sorted(number for numbers in queues.values() for number in numbers) == committed
    for numbers in queues.values():
        for key in range(3):
            of_key = [number for number in numbers if number % 3 == key]
            assert of_key == sorted(of_key)


async def test_rows_that_were_sent_and_not_deleted_are_not_sent_again(
    engine: Engine, cluster: LocalCluster, producer: Producer
) -> None:
    outbox = Outbox(engine)
    with Session(engine) as session, session.begin():
        for number in range(20):
            outbox.add(session, order(number), order_key="o-1" if number % 2 else None)
    fails = True

    def fail(connection: Any, cursor: Any, statement: str, *rest: Any) -> None:
        if fails and statement.startswith("DELETE"):
            raise OSError("the database went away")

    event.listen(engine, "before_cursor_execute", fail)
    with pytest.raises(OSError, match="went away"):
        await outbox.send_waiting(producer)
    fails = False
    assert await outbox.waiting() == 20
    assert await outbox.send_waiting(producer) == 20
    assert sorted(chain(*(await stored(cluster)).values())) == list(range(20))


async def test_a_send_whose_answer_is_lost_is_looked_up_before_it_is_tried_again(
    sqlite: Engine, cluster: LocalCluster, producer: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    outbox = Outbox(sqlite)
    with sqlite.begin() as connection:
        for number in range(3):
            outbox.add(connection, order(number), order_key="o-1")
    send = producer.send

    async def lose_the_answer(message: Message, **options: Any) -> None:
        await send(message, **options)
        raise RequestTimeout("no answer")

    monkeypatch.setattr(producer, "send", lose_the_answer)
    for left in (3, 0):
        await outbox.send_waiting(producer)  # finds what was sent before, and sends the next
        assert await outbox.waiting() == left
    assert [*chain(*(await stored(cluster)).values())] == [0, 1, 2]


async def test_one_of_two_processes_sends_and_the_other_takes_over(
    sqlite: Engine, cluster: LocalCluster, producer: Producer
) -> None:
    clock = TestClock()
    first, second = Outbox(sqlite, clock=clock), Outbox(sqlite, clock=clock)
    with sqlite.begin() as connection:
        first.add(connection, order(0))
    assert await first.send_waiting(producer) == 1
    with sqlite.begin() as connection:
        first.add(connection, order(1))
    assert await second.send_waiting(producer) == 0
    clock.advance(seconds=13)
    assert await second.send_waiting(producer) == 1
    with sqlite.begin() as connection:
        first.add(connection, order(2))
    assert await first.send_waiting(producer) == 0
    running = asyncio.create_task(second.run(producer))
    await eventually(lambda: _is_empty(second))
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    with sqlite.begin() as connection:
        first.add(connection, order(3))
    assert await first.send_waiting(producer) == 1  # the other gave the lease back when it stopped


async def _is_empty(outbox: Outbox) -> bool:
    return not await outbox.waiting()


async def test_an_async_session_adds_through_run_sync(
    tmp_path: Path, cluster: LocalCluster, producer: Producer
) -> None:
    engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path}/shop.db")
    outbox = Outbox(engine)
    await outbox.create_tables()
    async with AsyncSession(engine) as session, session.begin():
        await session.run_sync(outbox.add, order(1))
    assert await outbox.send_waiting(producer) == 1
    await engine.dispose()


def test_what_no_broker_would_take_is_refused_when_it_is_added(sqlite: Engine) -> None:
    outbox = Outbox(sqlite)
    with sqlite.begin() as connection, pytest.raises(InvalidMessage, match="empty"):
        outbox.add(connection, Message(topic=TOPIC, body=b""))
    with pytest.raises(ClientError, match="create_engine"):
        Outbox("sqlite://")  # type: ignore[arg-type]
