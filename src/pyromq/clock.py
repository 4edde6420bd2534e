"""Time: servers and clients read it and wait only through a Clock, so that tests can move it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class TimerHandle(Protocol):
    """A scheduled callback that can be cancelled."""

    def cancel(self) -> None: ...


class Clock(Protocol):
    """Reads the time and waits: `SystemClock` in production, a clock that the test moves in tests."""

    def now(self) -> float:
        """Return seconds since the epoch."""

    def now_ms(self) -> int:
        """Return whole milliseconds since the epoch, as RocketMQ stores them."""

    async def sleep(self, seconds: float) -> None:
        """Wait for this time."""

    def call_later(self, seconds: float, callback: Callable[..., object], *args: Any) -> TimerHandle:
        """Run `callback(*args)` on the calling loop after `seconds`."""


class SystemClock:
    """The machine's clock and the timers of the running event loop."""

    def now(self) -> float:
        return time.time()

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def call_later(self, seconds: float, callback: Callable[..., object], *args: Any) -> TimerHandle:
        return asyncio.get_running_loop().call_later(seconds, callback, *args)


async def wait_for(clock: Clock, awaitable: Awaitable[T], seconds: float) -> T:
    """Await `awaitable` for at most `seconds` of `clock`; after that cancel it and raise TimeoutError."""
    future = asyncio.ensure_future(awaitable)
    timed_out = False

    def expire() -> None:
        nonlocal timed_out
        timed_out = future.cancel()

    timer = clock.call_later(seconds, expire)
    try:
        return await future
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if timed_out and not (task and task.cancelling()):
            raise TimeoutError from None
        future.cancel()
        raise
    finally:
        timer.cancel()
