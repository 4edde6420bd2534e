"""The life cycle of every client, written once: start, close, `async with`, "not open", and forks."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from types import TracebackType
from typing import Generic, Never, Protocol, Self, TypeVar
from weakref import WeakSet

from pyromq.client.background import log_failure
from pyromq.errors import ClientError

logger = logging.getLogger(__name__)


class ForkGuard:
    """Recognizes a forked child of the process that made it: sockets, threads and event loops cannot be shared."""

    def __init__(self) -> None:
        self.forked = False
        """True in a child process; a plain attribute, because every send looks at it."""
        _guards.add(self)

    def check(self) -> None:
        """Raise ClientError in a forked child."""
        if self.forked:
            raise ClientError("this client was made before the process forked; make a new one in the child process")


_guards: WeakSet[ForkGuard] = WeakSet()


def _mark_forked() -> None:
    for guard in _guards:
        guard.forked = True


if hasattr(os, "register_at_fork"):  # Windows does not fork
    os.register_at_fork(after_in_child=_mark_forked)


_closings: set[asyncio.Task[None]] = set()
"""Sessions that are being closed; a loop keeps only weak references to its tasks."""


class Session(Protocol):
    """All that a client has while it is open: connections, groups, background tasks."""

    async def start(self) -> None:
        """Open it. After a failure or a cancellation `close` is called, whatever was opened so far."""

    async def close(self, *, failed: bool) -> None:
        """Close all that is open, whatever a part of it raises; `failed` if the start or the body of `async with` did.

        It runs in a task of its own, so that cancelling the caller leaves nothing half closed.
        """


S = TypeVar("S", bound=Session)


class ClientLifecycle(Generic[S]):
    """A client that is opened and closed, and may be opened again; each time it gets a new session."""

    def __init__(self, kind: str, new_session: Callable[[], S]) -> None:
        self._kind = kind  # the word for it in error texts
        self._new_session = new_session
        self._opened: S | None = None
        self._closing: asyncio.Task[None] | None = None
        self._guard: ForkGuard

    async def start(self) -> None:
        """Open it; `async with` does this for you. Raises ClientError if it is open already."""
        if self._opened is not None:
            raise ClientError(f"this {self._kind} is open already")
        await self._closed()
        session = self._opened = self._new_session()
        self._guard = ForkGuard()
        try:
            await session.start()
        except BaseException:
            await self._close(failed=True)
            raise

    async def close(self) -> None:
        """Close it; `async with` does this for you. Do nothing if it is not open, or in a forked child.

        If this call is cancelled, closing goes on in the background.
        """
        await self._close(failed=False)

    async def _close(self, *, failed: bool) -> None:
        session, self._opened = self._opened, None
        if session is not None and not self._guard.forked:
            closing = self._closing = asyncio.create_task(
                session.close(failed=failed), name=f"pyromq closing {self._kind}"
            )
            _closings.add(closing)
            closing.add_done_callback(_closings.discard)
            try:
                await asyncio.shield(closing)
            except asyncio.CancelledError:
                closing.add_done_callback(self._report)
                raise
        else:
            await self._closed()

    async def _closed(self) -> None:
        """Wait until an earlier session is closed, if its `close` was cancelled."""
        if self._closing is not None and not self._closing.done() and not self._guard.forked:
            await asyncio.wait([self._closing])

    def _report(self, closing: asyncio.Task[None]) -> None:
        """Log the failure of a `close` for which nobody waits any more."""
        if not closing.cancelled() and closing.exception() is not None:
            log_failure(logger, logging.WARNING, "closing the %s failed", self._kind, error=closing.exception())

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close(failed=error is not None)

    def __enter__(self) -> Never:
        raise ClientError(f"this {self._kind} is async: write `async with`, or use pyromq.blocking")

    def __exit__(self, *error: object) -> None:
        """Exist, so that `with` calls __enter__, which says what to write."""

    @property
    def _session(self) -> S:
        """The open session; raises ClientError if there is none, or in a forked child."""
        session = self._opened
        if session is None:
            raise ClientError(f"this {self._kind} is not open: use it inside `async with` (`with`, if it is blocking)")
        self._guard.check()
        return session
