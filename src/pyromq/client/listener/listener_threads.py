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


class _Call(Struct, eq=False):
    """A call for a thread, and the future that waits for its outcome; changed only on the loop."""

    context: Context
    future: asyncio.Future[object]
    function: Callable[[Any], Any]
    argument: object
    ended: Callable[[], None]
    left_behind: bool = False


class ListenerThreads:
    """Runs functions on threads, each in a copy of its caller's context; the caller limits how many run at once.

    If a function does not return, its thread is left behind and the next call gets another one. They are daemon
    threads, unlike those of concurrent.futures, so that a stuck function does not keep the process from exiting.
    """

    def __init__(self) -> None:
        self.left_behind = 0
        """How many threads still run a call that was cancelled."""
        self._loop = asyncio.get_running_loop()
        self._work: SimpleQueue[_Call | None] = SimpleQueue()
        self._threads = 0
        self._unclaimed = 0
        self._lock = threading.Lock()
        self._idle = 0

    async def run(
        self, function: Callable[[Any], Any], argument: object, ended: Callable[[], None] = lambda: None
    ) -> object:
        """Return `function(argument)`, called on a thread; if this is cancelled, the call continues and is ignored.

        `ended` is called on the loop when the function has returned, also if nobody waits for it any more.
        """
        call = _Call(copy_context(), self._loop.create_future(), function, argument, ended)
        with self._lock:
            self._unclaimed += 1
            short = self._unclaimed > self._idle
        self._work.put(call)
        if short:
            self._threads += 1
            threading.Thread(target=self._serve, name=f"pyromq listener {self._threads}", daemon=True).start()
        try:
            outcome = await call.future
        except asyncio.CancelledError:
            call.left_behind = True
            self.left_behind += 1
            raise
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
            self._call(work)
            with self._lock:
                self._idle += 1

    def _call(self, call: _Call) -> None:
        outcome = None
        if not call.future.cancelled():  # that is, before a thread was free
            outcome = call.context.run(_outcome, call.function, call.argument)
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._settle, call, outcome)

    def _settle(self, call: _Call, outcome: object) -> None:
        if not call.future.done():
            call.future.set_result(outcome)
        if call.left_behind:
            self.left_behind -= 1
        call.ended()


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
