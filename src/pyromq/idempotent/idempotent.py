"""Idempotent: wraps a handler so that a message that arrives twice takes effect once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final, Literal, cast

from sqlalchemy import Connection, Engine, MetaData
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession
from sqlalchemy.orm import Session

from pyromq.client.listener.outcomes import ROLLBACK
from pyromq.clock import Clock, SystemClock
from pyromq.errors import ClientError
from pyromq.idempotent.caches import MemoryCache, TokenCache
from pyromq.idempotent.handler import Handler, Wants, check_handler
from pyromq.idempotent.tokens import TokenFunction, TokenTable, business_key, token_of
from pyromq.protocol.messages.message import MessageExt

_CLEAN_EVERY: Final = 60.0


class _Duplicate(Exception):
    """The message took effect before; leaves the transaction."""


class _RolledBack(Exception):
    """The handler returned ROLLBACK; leaves the transaction."""


class Idempotent:
    """Makes listeners of handlers; the handler's writes and the message's token are one transaction.

    >>> once = Idempotent(create_engine("sqlite:///shop.db"), group="billing")
    >>> @once
    ... def bill(message: MessageExt, connection: Connection) -> None:
    ...     connection.execute(insert(bills).values(order_id=message.keys[0]))
    >>> consumer = PushConsumer("billing", "127.0.0.1:9876", {"orders": "created"}, bill)

    With an AsyncEngine, handlers are coroutine functions and get an AsyncConnection. A second parameter annotated
    Session or AsyncSession gets a session. Only what is written through it is exactly once: a handler that calls
    another service must be ready to call it again.

    `token` returns the text that a message is known by: topic, tag and first key by default. It is never the message
    id, because a sender that tries again makes a new one. After `expires` a token is forgotten, and the message would
    be handled again. `cache` is a MemoryCache of its own by default; with None the database is asked each time.
    """

    def __init__(
        self,
        engine: Engine | AsyncEngine,
        group: str,
        *,
        token: TokenFunction = business_key,
        cache: TokenCache | Literal["memory"] | None = "memory",
        expires: timedelta = timedelta(days=30),
        clock: Clock | None = None,
    ) -> None:
        if not isinstance(engine, Engine | AsyncEngine):
            raise ClientError(f"Idempotent needs SQLAlchemy's engine, create_engine(url), not {type(engine).__name__}")
        self._engine = engine
        self._group = group
        self._token = token
        self._cache = MemoryCache() if cache == "memory" else cache
        self._expires_ms = int(expires.total_seconds() * 1000)
        self._clock = clock or SystemClock()
        self._table = TokenTable()
        self._cleaned_at = self._clock.monotonic()

    @property
    def metadata(self) -> MetaData:
        """The table of tokens, for migrations; `metadata.create_all(engine)` creates it."""
        return self._table.metadata

    async def create_table(self) -> None:
        """Create the table of tokens if it does not exist."""
        if isinstance(self._engine, AsyncEngine):
            async with self._engine.begin() as connection:
                await connection.run_sync(self.metadata.create_all)
        else:
            await asyncio.to_thread(self.metadata.create_all, self._engine)

    def __call__(self, handler: Handler) -> Callable[[MessageExt], Any]:
        """Return a listener that runs the handler once for each token; raise ClientError if it cannot."""
        wants = check_handler(handler, engine_is_async=isinstance(self._engine, AsyncEngine))

        def handle(message: MessageExt) -> Any:
            return self._handle(handler, wants, message)

        async def handle_async(message: MessageExt) -> Any:
            return await self._handle_async(handler, wants, message)

        listener: Any = handle_async if isinstance(self._engine, AsyncEngine) else handle
        listener.__name__ = getattr(handler, "__name__", listener.__name__)
        listener.__qualname__ = getattr(handler, "__qualname__", listener.__qualname__)
        listener.__module__ = handler.__module__
        listener.__doc__ = handler.__doc__
        return cast(Callable[[MessageExt], Any], listener)

    # --- one message

    def _handle(self, handler: Handler, wants: Wants, message: MessageExt) -> Any:
        label = self._token(message)
        token = token_of(self._group, label)
        if self._cache is not None and self._cache.has(token):
            return None
        returned = None
        try:
            with cast(Engine, self._engine).begin() as connection:
                self._claim(connection, token, label)
                returned = _committable(_call(handler, wants, message, connection))
        except _RolledBack:
            return ROLLBACK
        except _Duplicate:
            pass
        if self._cache is not None:
            self._cache.add(token)
        if self._is_time_to_clean():
            with cast(Engine, self._engine).begin() as connection:
                self._clean(connection)
        return returned

    async def _handle_async(self, handler: Handler, wants: Wants, message: MessageExt) -> Any:
        label = self._token(message)
        token = token_of(self._group, label)
        if self._cache is not None and await _asked(self._cache.waits, self._cache.has, token):
            return None
        returned = None
        try:
            async with cast(AsyncEngine, self._engine).begin() as connection:
                await connection.run_sync(self._claim, token, label)
                returned = _committable(await _call_async(handler, wants, message, connection))
        except _RolledBack:
            return ROLLBACK
        except _Duplicate:
            pass
        if self._cache is not None:
            await _asked(self._cache.waits, self._cache.add, token)
        if self._is_time_to_clean():
            async with cast(AsyncEngine, self._engine).begin() as connection:
                await connection.run_sync(self._clean)
        return returned

    def _claim(self, connection: Connection, token: str, label: str) -> None:
        if not self._table.insert(connection, token, self._group, label, self._clock.now_ms()):
            raise _Duplicate

    def _is_time_to_clean(self) -> bool:
        now = self._clock.monotonic()
        if now - self._cleaned_at < _CLEAN_EVERY:
            return False
        self._cleaned_at = now
        return True

    def _clean(self, connection: Connection) -> None:
        self._table.remove_before(connection, self._clock.now_ms() - self._expires_ms)


def _committable(returned: Any) -> Any:
    """Return what the handler returned; raise what it returned if that is no success, so that nothing commits."""
    if returned is ROLLBACK:
        raise _RolledBack
    if isinstance(returned, BaseException):  # RetryLater, DeadLetter and Suspend may be returned
        raise returned
    return returned


def _call(handler: Handler, wants: Wants, message: MessageExt, connection: Connection) -> Any:
    if wants is Wants.NOTHING:
        return handler(message)
    if wants is Wants.CONNECTION:
        return handler(message, connection)
    with Session(connection) as session:
        returned = handler(message, session)
        session.flush()
        return returned


async def _call_async(handler: Handler, wants: Wants, message: MessageExt, connection: AsyncConnection) -> Any:
    if wants is Wants.NOTHING:
        return await handler(message)
    if wants is Wants.CONNECTION:
        return await handler(message, connection)
    async with AsyncSession(connection) as session:
        returned = await handler(message, session)
        await session.flush()
        return returned


async def _asked(waits: bool, method: Callable[[str], Any], token: str) -> Any:
    return await asyncio.to_thread(method, token) if waits else method(token)
