"""Workers: so many jobs at a time, over all queues that have something to hand out."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import Context
from time import perf_counter

from msgspec import Struct

from pyromq.client.consume.fair_queue import FairQueue
from pyromq.client.consume.process_queue import ProcessQueue
from pyromq.client.consume.stall_report import MessageInProgress
from pyromq.client.rate_limit import RateLimit
from pyromq.clock import Clock, wait_for
from pyromq.protocol.messages.message import MessageExt

logger = logging.getLogger(__name__)

_AFTER_A_FAULT = 5.0
_AFTER_CANCELLING = 5.0
_LONGEST_STRETCH = 0.005  # seconds: a listener that never waits must not keep pulls and heartbeats from the loop


class Job(Struct, eq=False):
    """Some messages of one queue, on their way through the listener."""

    held: ProcessQueue
    messages: list[MessageExt]
    started: float
    listening: bool = False
    """The listener has them now."""
    overdue: bool = False
    timed_out: bool = False
    """It was overdue and is cancelled."""


def _lowest_message(job: Job) -> MessageInProgress | None:
    """Return the lowest unfinished message of the job's queue if the job has it."""
    held = job.held
    for message in job.messages:
        if message.queue_offset == held.consumed_offset:
            return MessageInProgress(
                **held.queue._asdict(),
                queue_offset=message.queue_offset,
                message_id=message.message_id,
                since_ms=int(job.started * 1000),
            )
    return None


class Workers:
    """Tasks that take messages in turn from the queues and have them consumed; there is one only while it has work."""

    def __init__(
        self,
        consume: Callable[[Job], Awaitable[None]],
        clock: Clock,
        context: Context,
        *,
        concurrency: int,
        batch_size: int,
        rate: float | None = None,
    ) -> None:
        self._consume = consume
        self._clock = clock
        self._context = context
        self._concurrency = concurrency
        self._batch_size = batch_size
        self._pace = RateLimit(rate, clock) if rate else None
        self._pacing = asyncio.Lock()
        self._line: FairQueue[ProcessQueue] = FairQueue()
        self._jobs: dict[asyncio.Task[None], Job] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    def in_progress(self) -> list[MessageInProgress]:
        """Return the messages with the listener that hold back the committed offset of their queue."""
        found = [_lowest_message(job) for job in self._jobs.values() if job.listening]
        return [message for message in found if message is not None]

    def offer(self, held: ProcessQueue) -> None:
        """Hear that a queue may have something to hand out."""
        if self._line.join(held):
            self._start()

    def _start(self) -> None:
        if len(self._line) and len(self._tasks) < self._concurrency and not self._closed:
            context = self._context.copy()
            self._tasks.add(asyncio.create_task(self._run(), name="pyromq listener", context=context))

    async def _run(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        since = perf_counter()
        try:
            while job := self._take() if self._pace is None else await self._take_at(self._pace):
                self._start()  # another one, if there is more to do
                self._jobs[task] = job
                await self._work(job)
                del self._jobs[task]
                if perf_counter() - since > _LONGEST_STRETCH:
                    await self._clock.sleep(0)
                    since = perf_counter()
        finally:
            self._jobs.pop(task, None)
            self._tasks.discard(task)

    def _take(self) -> Job | None:
        held = None if self._closed else self._line.next()
        if held is None:
            return None
        messages = held.take(self._batch_size)
        self._line.join(held)
        return Job(held, messages, self._clock.now())

    async def _take_at(self, pace: RateLimit) -> Job | None:
        async with self._pacing:
            await pace.turn()
            job = self._take()
            if job is not None:
                pace.passed(len(job.messages))
            return job

    async def _work(self, job: Job) -> None:
        try:
            await self._consume(job)
        except Exception:
            # Not the listener's doing. What of the messages is unfinished is not committed, and comes again.
            logger.exception("consuming from %s failed unexpectedly", job.held.queue)
            self._clock.call_later(_AFTER_A_FAULT, self._again, job)
        finally:
            job.held.end_job()
            self._line.join(job.held)

    def _again(self, job: Job) -> None:
        job.held.put_back(job.messages)
        self.offer(job.held)

    def expire(self, age: float, *, cancel: bool) -> None:
        """Look for listeners that have been at work for longer than `age` seconds; log them, or cancel them."""
        now = self._clock.now()
        for task, job in list(self._jobs.items()):
            if not job.listening or job.overdue or now - job.started <= age:
                continue
            job.overdue = True
            if cancel:
                job.timed_out = True
                task.cancel()
            else:
                logger.warning("a listener has had a message of %s for %g s", job.held.queue, now - job.started)

    def stop(self) -> None:
        """Hand out nothing more."""
        self._closed = True
        self._line.clear()
        for task in self._tasks - self._jobs.keys():
            task.cancel()  # it waits for its turn

    async def close(self, patience: float) -> None:
        """Wait for what is in hand; what takes longer than `patience` is cancelled, and left behind if that fails."""
        self.stop()
        at_work = await self._still_at_work(list(self._tasks), patience)
        if at_work:
            logger.warning("listeners still at work after %g s are cancelled: their messages come again", patience)
            for task in at_work:
                task.cancel()
            left = await self._still_at_work(at_work, _AFTER_CANCELLING)
            if left:
                logger.error("%d listeners do not end although they were cancelled: left behind", len(left))

    async def _still_at_work(self, tasks: list[asyncio.Task[None]], patience: float) -> list[asyncio.Task[None]]:
        done = asyncio.gather(*tasks, return_exceptions=True)
        with suppress(TimeoutError):
            await wait_for(self._clock, asyncio.shield(done), patience)
        return [task for task in tasks if not task.done()]
