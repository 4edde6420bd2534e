"""PullLoop: keeps the buffer of one queue filled by one long poll after another, and survives every failure."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from pyromq.client.background import FailureLog, is_being_cancelled
from pyromq.client.config import FlowControl
from pyromq.client.consume.assigned_queue import AssignedQueue
from pyromq.client.consume.fetch import Fetched, Fetcher
from pyromq.clock import Clock
from pyromq.errors import PyroMQError

logger = logging.getLogger(__name__)

_BACK_OFF = (0.1, 0.2, 0.5, 1.0, 2.0)
_TOO_SOON = 0.05  # an empty answer that came without waiting must not lead to a tight loop
_IDLE_PAUSE = 0.2

Q = TypeVar("Q", bound=AssignedQueue)


class PullLoop(Generic[Q]):
    """The task that pulls one queue; it calls `on_messages` when the queue has something to hand out."""

    def __init__(
        self,
        held: Q,
        fetcher: Fetcher,
        flow: FlowControl,
        clock: Clock,
        *,
        start_queue: Callable[[Q], Awaitable[None]],
        on_messages: Callable[[Q], object],
        on_failure: Callable[[BaseException], None],
        interval: float = 0.0,
    ) -> None:
        self.held = held
        self._fetcher = fetcher
        self._flow = flow
        self._clock = clock
        self._start_queue = start_queue
        self._on_messages = on_messages
        self._on_failure = on_failure
        self._interval = interval
        self._failures = 0
        self._log = FailureLog(logger, f"pulling from {held.queue}")
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start to pull."""
        self._task = asyncio.create_task(self._run(), name=f"pyromq pull {self.held.queue}")

    async def stop(self) -> None:
        """Stop; the answer to a pull that is under way is discarded."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def restart_at(self, offset: int) -> None:
        """Forget all messages and pull from another offset."""
        await self.stop()
        self.held.start_at(offset)
        self.start()

    async def _run(self) -> None:
        while True:
            await self._wait_for_room()
            try:
                await self._pull()
            except PyroMQError as error:
                await self._back_off(error)
            except asyncio.CancelledError as error:
                if is_being_cancelled():
                    raise
                await self._back_off(error)
            except Exception as error:
                logger.exception("pulling from queue=%s failed unexpectedly", self.held.queue)
                await self._back_off(error)

    async def _wait_for_room(self) -> None:
        while self.held.paused or self.held.is_full(self._flow):
            self.held.room.clear()
            await self.held.room.wait()

    async def _pull(self) -> None:
        if self.held.pull_offset is None:
            await self._start_queue(self.held)
        offset = self.held.pull_offset
        assert offset is not None, "start_queue() sets it"
        asked_at = self.held.pulled_at = self._clock.monotonic()
        fetched = await self._fetcher.fetch(self.held, offset)
        self._failures = 0
        self._log.worked()
        self._keep(fetched, offset)
        if fetched.next_offset == offset and self._clock.monotonic() - asked_at < _TOO_SOON:
            await self._clock.sleep(_IDLE_PAUSE)
        elif self._interval and fetched.messages:
            await self._clock.sleep(self._interval)

    def _keep(self, fetched: Fetched, offset: int) -> None:
        if fetched.moved:
            logger.warning(
                "queue=%s no longer has offset=%d, reading continues at offset=%d",
                self.held.queue,
                offset,
                fetched.next_offset,
            )
        self.held.add(fetched.messages, fetched.next_offset)
        if fetched.messages:
            self._on_messages(self.held)

    async def _back_off(self, error: BaseException) -> None:
        self._log.failed(error)
        delay = _BACK_OFF[min(self._failures, len(_BACK_OFF) - 1)]
        self._failures += 1
        self._on_failure(error)
        await self._clock.sleep(delay)
