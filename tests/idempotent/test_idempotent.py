"""A message that arrives twice takes effect once, on real databases."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Column, Connection, Engine, MetaData, String, Table, create_engine, func, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from pyromq import ROLLBACK, DeadLetter, MessageExt, Producer, PushConsumer, RetryLater
from pyromq.errors import ClientError
from pyromq.idempotent import Idempotent, MemoryCache
from pyromq.protocol.messages.properties import encode_properties
from pyromq.testing import LocalCluster, TestClock, eventually
from tests.database_servers import DATABASES, database

_METADATA = MetaData()
BILLS = Table("bills", _METADATA, Column("order_id", String(64)))


@pytest.fixture(scope="module", params=DATABASES)
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with database(request.param, tmp_path_factory.mktemp(request.param)) as address:
        yield address


@pytest.fixture
def engine(url: str) -> Iterator[Engine]:
    made = create_engine(url)
    _METADATA.create_all(made)
    Idempotent(made, "billing").metadata.create_all(made)
    yield made
    _METADATA.drop_all(made)
    Idempotent(made, "billing").metadata.drop_all(made)
    made.dispose()


def message(key: str = "o-1", tag: str = "created", topic: str = "orders") -> MessageExt:
    properties = {"UNIQ_KEY": "0" * 32} | ({"KEYS": key} if key else {}) | ({"TAGS": tag} if tag else {})
    return MessageExt(topic=topic, stored_body=b"...", raw_properties=encode_properties(properties).encode())


def count(engine: Engine) -> int:
    with engine.begin() as connection:
        return connection.execute(select(func.count()).select_from(BILLS)).scalar_one()


def bill(message: MessageExt, connection: Connection) -> None:
    connection.execute(insert(BILLS).values(order_id=message.keys[0]))


@pytest.mark.parametrize("cache", ["memory", None])
def test_a_message_that_comes_twice_takes_effect_once(engine: Engine, cache: Any) -> None:
    listener = Idempotent(engine, "billing", cache=cache)(bill)
    for _ in range(3):
        assert listener(message()) is None
    assert count(engine) == 1


def test_messages_with_other_keys_tags_topics_and_groups_are_others(engine: Engine) -> None:
    listener = Idempotent(engine, "billing")(bill)
    for one in (message(), message("o-2"), message("O-1"), message(tag="paid"), message(topic="refunds")):
        listener(one)
    Idempotent(engine, "stock")(bill)(message())
    assert count(engine) == 6


def test_a_handler_that_fails_leaves_nothing_and_is_called_again(engine: Engine) -> None:
    fails = True

    def handle(message: MessageExt, connection: Connection) -> object:
        bill(message, connection)
        if fails:
            raise ValueError("no funds")
        return "done"

    listener = Idempotent(engine, "billing")(handle)
    with pytest.raises(ValueError, match="no funds"):
        listener(message())
    assert count(engine) == 0
    fails = False
    assert listener(message()) == "done"
    assert count(engine) == 1


def test_what_is_returned_instead_of_raised_rolls_back_too(engine: Engine) -> None:
    answers: list[object] = [ROLLBACK, RetryLater(1.0), None]

    def handle(message: MessageExt, connection: Connection) -> object:
        bill(message, connection)
        return answers.pop(0)

    listener = Idempotent(engine, "billing")(handle)
    assert listener(message()) is ROLLBACK
    with pytest.raises(RetryLater):
        listener(message())
    assert count(engine) == 0
    assert listener(message()) is None
    assert count(engine) == 1


def test_two_deliveries_at_once_take_effect_once(engine: Engine) -> None:
    calls: list[int] = []
    both = threading.Barrier(2)

    def handle(message: MessageExt, connection: Connection) -> None:
        calls.append(1)
        bill(message, connection)

    def deliver() -> None:
        both.wait()
        Idempotent(engine, "billing", cache=None)(handle)(message())

    threads = [threading.Thread(target=deliver) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(calls), count(engine)) == (1, 1)


def test_the_cache_learns_a_token_only_after_the_commit(engine: Engine) -> None:
    cache = MemoryCache()
    seen: list[bool] = []

    class Watched(MemoryCache):
        def add(self, token: str) -> None:
            seen.append(count(engine) == 1)
            cache.add(token)

    Idempotent(engine, "billing", cache=Watched())(bill)(message())
    assert seen == [True]


def test_a_token_that_expired_is_forgotten(engine: Engine) -> None:
    clock = TestClock()
    listener = Idempotent(engine, "billing", cache=None, expires=timedelta(hours=1), clock=clock)(bill)
    listener(message())
    clock.advance(hours=2)
    listener(message("o-2"))  # makes it look
    listener(message())
    assert count(engine) == 3


def test_a_session_is_flushed_and_commits_with_the_token(engine: Engine) -> None:
    def handle(message: MessageExt, session: Session) -> None:
        session.execute(insert(BILLS).values(order_id=message.keys[0]))

    listener = Idempotent(engine, "billing")(handle)
    listener(message())
    listener(message())
    assert count(engine) == 1


async def test_coroutine_functions_write_through_an_async_engine(engine: Engine, url: str) -> None:
    if "pymysql" in url:
        pytest.skip("PyMySQL has no async form")
    aio = create_async_engine(url.replace("sqlite:", "sqlite+aiosqlite:"))
    once = Idempotent(aio, "billing")
    await once.create_table()

    @once
    async def by_connection(message: MessageExt, connection: AsyncConnection) -> None:
        await connection.execute(insert(BILLS).values(order_id=message.keys[0]))

    @once
    async def by_session(message: MessageExt, session: AsyncSession) -> None:
        await session.execute(insert(BILLS).values(order_id=message.keys[0]))

    await asyncio.gather(by_connection(message()), by_connection(message()))
    await by_session(message("o-2"))
    await by_session(message("o-2"))
    await aio.dispose()
    assert count(engine) == 2


# --- without a database server


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[Engine]:
    made = create_engine(f"sqlite:///{tmp_path}/shop.db")
    _METADATA.create_all(made)
    Idempotent(made, "billing").metadata.create_all(made)
    yield made
    made.dispose()


def test_a_message_without_a_key_becomes_a_dead_letter(sqlite: Engine) -> None:
    with pytest.raises(DeadLetter, match="keys="):
        Idempotent(sqlite, "billing")(bill)(message(key=""))


def test_a_token_of_ones_own(sqlite: Engine) -> None:
    listener = Idempotent(sqlite, "billing", token=lambda message: message.topic)(bill)
    listener(message())
    listener(message("o-2"))
    assert count(sqlite) == 1


def test_handlers_that_cannot_work_are_refused(sqlite: Engine) -> None:
    once = Idempotent(sqlite, "billing")

    async def asynchronous(message: MessageExt, connection: Connection) -> None: ...
    def batch(messages: list[MessageExt], connection: Connection) -> None: ...
    def wrong(message: MessageExt, connection: int) -> None: ...
    def many(message: MessageExt, connection: Connection, more: int) -> None: ...

    for handler in (asynchronous, batch, wrong, many):
        with pytest.raises(ClientError, match=r"write `def handle\(message: MessageExt, connection: Connection\)`"):
            once(handler)
    with pytest.raises(ClientError, match="create_engine"):
        Idempotent("sqlite://", "billing")  # type: ignore[arg-type]


def test_a_small_cache_forgets_the_oldest() -> None:
    cache = MemoryCache(2)
    for token in "abc":
        cache.add(token)
    assert [cache.has(token) for token in "abc"] == [False, True, True]


async def test_a_consumer_that_gets_a_message_again_bills_it_once(sqlite: Engine, pyromq_cluster: LocalCluster) -> None:
    cluster, failures = pyromq_cluster, 2
    done: list[str] = []

    def handle(message: MessageExt, connection: Connection) -> None:
        nonlocal failures
        bill(message, connection)
        if failures:
            failures -= 1
            raise OSError("the bank is away")
        done.append(message.keys[0])

    listener = Idempotent(sqlite, "billing", cache=None)(handle)
    subscriptions = {"orders": "*"}
    async with (
        Producer("shop", cluster.namesrv) as producer,
        PushConsumer("billing", cluster.namesrv, subscriptions, listener, start_from="earliest", clock=cluster.clock),
    ):
        for key in ("o-1", "o-1", "o-2"):
            await producer.send("orders", {"id": key}, tags="created", keys=key)

        async def billed() -> bool:
            await cluster.clock.advance_async(seconds=15)
            return sorted(done) == ["o-1", "o-2"]

        await eventually(billed)
    assert count(sqlite) == 2
