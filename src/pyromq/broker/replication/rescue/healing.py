"""Healing: damaged stretches of this broker's log are fetched from a broker that has the same log.

A slave asks its master, and a master a slave that has confirmed the stretch. The store names its damage by fences
(store/small_files/fences.py) and checks what it is given (store/recovery/log_healing.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final

from pyromq.broker.parts import Parts
from pyromq.broker.replication.master_calls import MasterCalls
from pyromq.errors import PyroMQError, StoreError
from pyromq.remoting.client import RemotingClient
from pyromq.remoting.ticker import Ticker
from pyromq.store.message_store import MessageStore
from pyromq.store.small_files.fences import FencedRange

logger = logging.getLogger(__name__)

PERIOD: Final = 5.0
"""Time between two looks at the fences."""
_PAUSE: Final = 60.0
"""Time until a stretch is tried again that could not be healed."""
_BLOCK: Final = 1 << 20
_LARGEST: Final = 64 << 20  # of a record: no request is a quarter of that

Copies = Callable[[int], Iterable[str]]
"""Returns the addresses of brokers whose logs are the same up to an offset, at least."""


class Healing:
    """Heals from `start` to `stop`, one stretch after the other."""

    def __init__(self, parts: Parts, store: MessageStore, remoting: RemotingClient, copies: Copies) -> None:
        self._clock = parts.clock
        self._arrived = parts.signals.arrived
        self._store = store
        self._remoting = remoting
        self._copies = copies
        self._tried: dict[FencedRange, float] = {}
        self._problems: dict[FencedRange, str] = {}
        self._ticker = Ticker(parts.clock, PERIOD, self._look)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Look at the fences now and then."""
        self._ticker.start()

    async def stop(self) -> None:
        """Stop looking; a stretch that is not whole yet stays fenced."""
        self._ticker.stop()
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    def _look(self) -> bool:
        if self._store.fences and (self._task is None or self._task.done()):
            self._task = asyncio.get_running_loop().create_task(self._heal_all())
        return True

    async def _heal_all(self) -> None:
        for fence in self._store.healing.ranges():
            addresses = [*self._copies(fence.end)]
            if addresses and self._clock.monotonic() >= self._tried.get(fence, 0.0):
                self._tried[fence] = self._clock.monotonic() + _PAUSE
                await self._heal(fence, addresses)

    async def _heal(self, fence: FencedRange, addresses: list[str]) -> None:
        problems = []
        for address in addresses:
            try:
                await self._heal_from(address, fence)
            except PyroMQError as error:
                problems.append(f"{address}: {error}")
                continue
            logger.warning(
                "healed a damaged stretch of the log with the copy at %s start=%d bytes=%d",
                *(address, fence.start, fence.end - fence.start),
            )
            return
        self._note_problem(fence, "; ".join(problems))

    async def _heal_from(self, address: str, fence: FencedRange) -> None:
        calls = MasterCalls(self._remoting, address)
        position, data = fence.start, b""
        while position < fence.end:
            at = position + len(data)
            more = await calls.read_log(at, min(_BLOCK, fence.end - at))
            if not more or len(data) > _LARGEST:
                raise StoreError(f"the copy has no whole record at {position}")
            position, data = self._take(position, data + more)

    def _take(self, start: int, data: bytes) -> tuple[int, bytes]:
        """Give the store what has come, and return where it wants to go on, with the bytes that are left."""
        end, arrivals = self._store.healing.heal(start, data)
        if arrivals:
            self._arrived(arrivals)
        return end, data[end - start :]

    def _note_problem(self, fence: FencedRange, problem: str) -> None:
        if self._problems.get(fence) != problem:  # one line, not one for every attempt
            self._problems[fence] = problem
            logger.error("a damaged stretch cannot be healed start=%d end=%d: %s", fence.start, fence.end, problem)
