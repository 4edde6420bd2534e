"""Threads for listeners that are not async: as many as run at once, and none that keeps the process from exiting."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context, copy_context
from queue import SimpleQueue
from typing import Any

from msgspec import Struct

_Work = tuple[Context, asyncio.Future[object], Callable[[Any], Any], object]


class ListenerThreads:
    """Runs functions on threads, each in a copy of its caller's context; the caller limits how many run at once.

    If a function never returns, its thread is left behind and the next call gets another one. They are daemon threads,
    unlike those of concurrent.futures, so that a stuck function does not keep the process from exiting.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._work: SimpleQueue[_Work | None] = SimpleQueue()
        self._threads = 0
        self._unclaimed = 0
        self._lock = threading.Lock()
        self._idle = 0

    async def run(self, function: Callable[[Any], Any], argument: object) -> object:
        """Return `function(argument)`, called on a thread; if this is cancelled, the call continues and is ignored."""
        future: asyncio.Future[object] = self._loop.create_future()
        with self._lock:
            self._unclaimed += 1
            short = self._unclaimed > self._idle
        self._work.put((copy_context(), future, function, argument))
        if short:
            self._threads += 1
            threading.Thread(target=self._serve, name=f"pyromq listener {self._threads}", daemon=True).start()
        outcome = await future
        if isinstance(outcome, _Raised):
            raise outcome.error
        return outcome

    def close(self) -> None:
        """Let each thread end when its function returns."""
        for _ in range(self._threads):
            self._work.put(None)

    def _serve(self) -> None:
        with self._lock:
            self._idle += 1
        while True:
            work = self._work.get()
            if work is None:
                return
            with self._lock:
                self._idle -= 1
                self._unclaimed -= 1
            self._call(*work)
            with self._lock:
                self._idle += 1

    def _call(
        self, context: Context, future: asyncio.Future[object], function: Callable[[Any], Any], argument: object
    ) -> None:
        if future.cancelled():  # cancelled before a thread was free
            return
        outcome = context.run(_outcome, function, argument)
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(_settle, future, outcome)


class _Raised(Struct, frozen=True):
    """What a function raised; a future does not accept every exception as one, such as StopIteration."""

    error: Exception


def _outcome(function: Callable[[Any], Any], argument: object) -> object:
    try:
        return function(argument)
    except Exception as error:
        return _Raised(error)
    except BaseException as error:  # sys.exit() on a thread would end only the thread
        return _Raised(RuntimeError(f"the listener raised {error!r}"))


def _settle(future: asyncio.Future[object], outcome: object) -> None:
    if not future.done():
        future.set_result(outcome)
