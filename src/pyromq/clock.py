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
    """Reads the time and waits: `SystemClock` in production, a clock that the test moves in tests.

    `now` and `now_ms` are points in time, to store or to show. Administrators and NTP set them forward and back.
    Durations, deadlines and expiries within one process use `monotonic`, which nobody sets.
    """

    def now(self) -> float:
        """Return seconds since the epoch."""

    def now_ms(self) -> int:
        """Return whole milliseconds since the epoch, as RocketMQ stores them."""

    def monotonic(self) -> float:
        """Return seconds since some unknown point, which never jump; only differences have a meaning."""

    async def sleep(self, seconds: float) -> None:
        """Wait for this time."""

    def call_later(self, seconds: float, callback: Callable[..., object], *args: Any) -> TimerHandle:
        """Run `callback(*args)` on the calling loop after `seconds`."""


class SystemClock:
    """The machine's clock and the timers of the running event loop."""

    now = staticmethod(time.time)  # no function of ours around it: every send and pull reads the time
    monotonic = staticmethod(time.monotonic)

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def call_later(self, seconds: float, callback: Callable[..., object], *args: Any) -> TimerHandle:
        return asyncio.get_running_loop().call_later(seconds, callback, *args)


def wall_ms(clock: Clock, at: float) -> int:
    """Return when `clock.monotonic()` was `at`, in milliseconds since the epoch, for people and tools."""
    return clock.now_ms() - round((clock.monotonic() - at) * 1000)


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
