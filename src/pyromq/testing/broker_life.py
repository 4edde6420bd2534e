"""What one server of a LocalCluster lives on: time that can be stopped for it alone, and files that can fail."""

from __future__ import annotations

import asyncio
import errno
import os
import time
from collections.abc import Callable
from typing import Any, Final

from pyromq.clock import TimerHandle
from pyromq.store.files import DiskUsage, OsFiles
from pyromq.testing.clock import TestClock

FULLEST_DISK: Final = 0.98
"""How full a disk is at most, however full this machine's is, unless a test says so."""
_NO_TIME: Final = 0.001


class BrokerClock:
    """The cluster's clock, for one broker: while it is paused none of its timers fires, though time goes on.

    When the broker was killed every wait is over at once: nothing that is left of it has to be waited for.
    """

    def __init__(self, clock: TestClock) -> None:
        self.is_over = False
        self._clock = clock
        self._is_paused = False
        self._due: list[tuple[_Timer, Callable[..., object], tuple[Any, ...]]] = []

    def now(self) -> float:
        return self._clock.now()

    def now_ms(self) -> int:
        return self._clock.now_ms()

    def monotonic(self) -> float:
        return self._clock.monotonic()

    async def sleep(self, seconds: float) -> None:
        slept: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        timer = self.call_later(seconds, _finish, slept)
        try:
            await slept
        finally:
            timer.cancel()

    def call_later(self, seconds: float, callback: Callable[..., object], *args: Any) -> TimerHandle:
        timer = _Timer()
        timer.inner = self._clock.call_later(
            min(seconds, _NO_TIME) if self.is_over else seconds, self._fire, timer, callback, args
        )
        return timer

    def pause(self) -> None:
        """Fire no timer."""
        self._is_paused = True

    def resume(self) -> None:
        """Fire those that are due by now, in their order."""
        self._is_paused = False
        due, self._due = self._due, []
        for timer, callback, args in due:
            asyncio.get_running_loop().call_soon(self._fire, timer, callback, args)

    def _fire(self, timer: _Timer, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        if timer.is_cancelled:
            return
        if self._is_paused:
            self._due.append((timer, callback, args))
        else:
            callback(*args)


class _Timer:
    """A timer that may be due and wait."""

    def __init__(self) -> None:
        self.inner: TimerHandle | None = None
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True
        if self.inner is not None:
            self.inner.cancel()


class BreakableFiles(OsFiles):
    """The system's files until `freeze`: from then on nothing is written, renamed or removed.

    So they stay as a process leaves them that is killed: what was written is there, and nobody tidies up. A disk may
    also be full, so that no new space is to be had, or slow.
    """

    def __init__(self) -> None:
        self.is_full = False
        self.flush_delay = 0.0
        """Seconds that each flush takes longer."""
        self._is_frozen = False

    def freeze(self) -> None:
        """Change nothing any more, without a complaint."""
        self._is_frozen = True

    def open(self, path: str, *, create: bool = False) -> int:
        if self._is_frozen and create and not os.path.exists(path):
            return super().open(os.devnull)
        if create:
            self._check_space()
        return super().open(path, create=create)

    def pwrite(self, descriptor: int, data: bytes | memoryview, position: int) -> int:
        return len(data) if self._is_frozen else super().pwrite(descriptor, data, position)

    def ftruncate(self, descriptor: int, length: int) -> None:
        if not self._is_frozen:
            super().ftruncate(descriptor, length)

    def fallocate(self, descriptor: int, position: int, length: int) -> None:
        if not self._is_frozen:
            self._check_space()
            super().fallocate(descriptor, position, length)

    def disk_usage(self, path: str) -> DiskUsage:
        found = super().disk_usage(path)
        total = found.used + found.usable
        used = total if self.is_full else min(found.used, int(total * FULLEST_DISK))
        return DiskUsage(used, total - used)

    def fdatasync(self, descriptor: int) -> None:
        if not self._is_frozen:
            time.sleep(self.flush_delay)
            super().fdatasync(descriptor)

    def rename(self, source: str, target: str) -> None:
        if not self._is_frozen:
            super().rename(source, target)

    def link(self, source: str, target: str) -> None:
        if not self._is_frozen:
            super().link(source, target)

    def unlink(self, path: str) -> None:
        if not self._is_frozen:
            super().unlink(path)

    def rmdir(self, path: str) -> None:
        if not self._is_frozen:
            super().rmdir(path)

    def makedirs(self, path: str) -> None:
        if not self._is_frozen:
            super().makedirs(path)

    def sync_directory(self, path: str) -> None:
        if not self._is_frozen:
            super().sync_directory(path)

    def sync_file_system(self, path: str) -> None:
        if not self._is_frozen:
            super().sync_file_system(path)

    def _check_space(self) -> None:
        if self.is_full and not self._is_frozen:
            raise OSError(errno.ENOSPC, "No space left on device")


def _finish(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
