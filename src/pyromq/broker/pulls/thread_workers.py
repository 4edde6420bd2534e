"""ThreadWorkers: a few threads for slow calls of one kind, so that calls of another kind never wait behind them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from pyromq.errors import SystemBusy

T = TypeVar("T")


class ThreadWorkers:
    """Runs plain functions in threads of its own, a few at a time; the others wait for a free thread, in order."""

    def __init__(self, name: str, threads: int, most_waiting: int | None = None) -> None:
        """`most_waiting` is how many calls may run and wait together; None for any number."""
        self.name = name
        self.unfinished = 0
        """How many calls run or wait."""
        self._most = most_waiting
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix=name)

    async def run(self, function: Callable[..., T], *args: object) -> T:
        """Call a function in a thread and return what it returns; raise SystemBusy if too many calls wait already.

        A caller that is cancelled does not wait for it. A call that has begun then goes on to its end.
        """
        return await self.start(function, *args)

    def start(self, function: Callable[..., T], *args: object) -> asyncio.Future[T]:
        """Have a function called in a thread, and do not wait for it; raise SystemBusy as run() does."""
        if self._most is not None and self.unfinished >= self._most:
            raise SystemBusy(f"{self.unfinished} calls wait for the threads {self.name}, the most that is allowed")
        self.unfinished += 1
        future = asyncio.get_running_loop().run_in_executor(self._executor, function, *args)
        future.add_done_callback(self._finished)
        return future

    def _finished(self, future: asyncio.Future[T]) -> None:
        self.unfinished -= 1

    def close(self) -> None:
        """Take no more calls; those that wait are dropped, and those that run are not waited for."""
        self._executor.shutdown(wait=False, cancel_futures=True)
