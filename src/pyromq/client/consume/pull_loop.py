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
from pyromq.errors import TopicNotFound
from pyromq.protocol.codes import MASTER_ID

logger = logging.getLogger(__name__)

_BACK_OFF = (0.1, 0.2, 0.5, 1.0, 2.0)
_TOO_SOON = 0.05  # an empty answer that came without waiting must not lead to a tight loop
_IDLE_PAUSE = 0.2

Q = TypeVar("Q", bound=AssignedQueue)


class PullLoop(Generic[Q]):
    """The task that pulls one queue; it calls `on_messages` when the queue has something to hand out.

    A jump to another offset replaces the task. Between the jump and the new task nothing is awaited, and the old one
    touches the queue no more, even if a part of it ignores its cancellation: so only one pulls, whoever jumps at once.
    """

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
        self._tasks: set[asyncio.Task[None]] = set()  # the one that pulls, and cancelled ones that have not ended yet
        self._generation = 0
        self._stopped = False

    def start(self) -> None:
        """Start to pull, or start over; do nothing once the queue is given up or the loop is stopped."""
        self._interrupt()
        if self._stopped or self.held.dropped:
            return
        task = asyncio.create_task(self._run(self._generation), name=f"pyromq pull {self.held.queue}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def restart_at(self, offset: int) -> None:
        """Forget all messages and pull from another offset."""
        self.held.jump_to(offset)
        self.start()

    def follow_route(self) -> None:
        """Pull elsewhere at once if the broker that has the pull is no longer the master."""
        if self.held.pull_offset is not None and self.held.pull_address and self._fetcher.waits_in_vain(self.held):
            self.held.pull_address = ""
            self.start()

    async def stop(self) -> None:
        """Stop for good; the answer to a pull that is under way is discarded."""
        self._stopped = True
        self._interrupt()
        if self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _interrupt(self) -> None:
        self._generation += 1
        for task in self._tasks:
            task.cancel()

    async def _run(self, generation: int) -> None:
        while generation == self._generation:
            await self._wait_for_room()
            try:
                await self._pull(generation)
            except (Exception, asyncio.CancelledError) as error:
                if isinstance(error, asyncio.CancelledError) and is_being_cancelled():
                    raise
                await self._back_off(error)

    async def _wait_for_room(self) -> None:
        while self.held.paused or self.held.is_full(self._flow):
            self.held.room.clear()
            await self.held.room.wait()

    async def _pull(self, generation: int) -> None:
        if self.held.pull_offset is None:
            await self._start_queue(self.held)
        if generation != self._generation:
            return
        offset = self.held.pull_offset
        assert offset is not None, "start_queue() sets it"
        asked_at = self.held.pulled_at = self._clock.monotonic()
        fetched = await self._fetcher.fetch(self.held, offset)
        if generation != self._generation:
            return
        self._failures = 0
        self._log.worked()
        self._keep(fetched, offset)
        if fetched.next_offset == offset and self._clock.monotonic() - asked_at < _TOO_SOON:
            await self._clock.sleep(_IDLE_PAUSE)
        elif self._interval and fetched.messages:
            await self._clock.sleep(self._interval)

    def _keep(self, fetched: Fetched, offset: int) -> None:
        if fetched.moved:
            text = "has lost messages: it ends before" if fetched.next_offset < offset else "no longer has"
            logger.warning(
                "queue=%s %s offset=%d, reading continues at offset=%d",
                self.held.queue,
                text,
                offset,
                fetched.next_offset,
            )
        self.held.add(fetched.messages, fetched.next_offset)
        if fetched.messages:
            self.held.newest_ms = fetched.messages[-1].store_timestamp_ms
            self._on_messages(self.held)

    async def _back_off(self, error: BaseException) -> None:
        if isinstance(error, TopicNotFound):
            if self.held.pulls_from_master:
                self.held.start_over()
            self.held.broker_id = MASTER_ID  # a slave may not know yet what became of the topic
        self._log.failed(error)
        delay = _BACK_OFF[min(self._failures, len(_BACK_OFF) - 1)]
        self._failures += 1
        self._on_failure(error)
        await self._clock.sleep(delay)
