"""Workers: tasks that take jobs from all queues that have messages, `concurrency` jobs at a time."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import Context
from time import perf_counter

from msgspec import Struct

from pyromq.client.background import log_failure
from pyromq.client.consume.fair_queue import FairQueue
from pyromq.client.consume.process_queue import ProcessQueue
from pyromq.client.consume.stall_report import MessageInProgress
from pyromq.client.rate_limit import RateLimit
from pyromq.clock import Clock, wait_for, wall_ms
from pyromq.protocol.messages.message import MessageExt

logger = logging.getLogger(__name__)

_AFTER_A_LOSS = 1.0  # seconds until a task that ended too early is replaced; not at once, as the loop may be ending
_AFTER_CANCELLING = 5.0
_TURN = 16  # jobs of one queue in a row, before the next queue has its turn
_LONGEST_STRETCH = 0.005  # seconds: a listener that never awaits must not starve pulls and heartbeats


class Job(Struct, eq=False):
    """Some messages of one queue that go to the listener together."""

    held: ProcessQueue
    messages: list[MessageExt]
    started: float
    """By the clock's monotonic time."""
    listening: bool = False
    """The listener has them now."""
    extended_until: float = 0.0
    """The listener has asked for time until then, by the clock's monotonic time."""
    overdue: bool = False
    timed_out: bool = False
    """It was cancelled because it was overdue."""
    failure: BaseException | None = None
    """What ended the task while the listener had them: another task continues from there."""


def _lowest_message(job: Job, clock: Clock) -> MessageInProgress | None:
    """Return the lowest unfinished message of the job's queue if the job has it."""
    held = job.held
    for message in job.messages:
        if message.queue_offset == held.consumed_offset:
            return MessageInProgress(
                **held.queue._asdict(),
                queue_offset=message.queue_offset,
                message_id=message.message_id,
                since_ms=wall_ms(clock, job.started),
            )
    return None


class Workers:
    """Tasks that take messages from the queues in turn and consume them; a task exists only while it has work.

    Only `close` stops a task. If anything else does, another one takes over its messages. `consume` returns when it
    ended, by perf_counter(). `put_off` keeps messages for later after an unexpected failure of `consume`.

    `left_behind` returns how many calls of the listener still run on a thread although they were cancelled; None if it
    needs no threads. Each of them takes the place of a task once there are more than `concurrency`, so that a listener
    that hangs cannot make threads without end.
    """

    def __init__(
        self,
        consume: Callable[[Job], Awaitable[float]],
        put_off: Callable[[ProcessQueue, list[MessageExt]], None],
        clock: Clock,
        context: Context,
        *,
        concurrency: int,
        batch_size: int,
        rate: float | None = None,
        left_behind: Callable[[], int] | None = None,
    ) -> None:
        self._consume = consume
        self._put_off = put_off
        self._clock = clock
        self._context = context
        self._concurrency = concurrency
        self._left_behind = left_behind
        self._is_stuck = False
        self._starting = False
        self._batch_size = batch_size
        self._rate_limit = RateLimit(rate, clock) if rate else None
        self._rate_lock = asyncio.Lock()
        self._ready: FairQueue[ProcessQueue] = FairQueue()
        self._interrupted: deque[Job] = deque()
        self._jobs: dict[asyncio.Task[None], Job] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False
        self._loop = asyncio.get_running_loop()

    @property
    def listening(self) -> int:
        """How many calls of the listener are under way."""
        return sum(job.listening for job in self._jobs.values())

    def in_progress(self) -> list[MessageInProgress]:
        """Return the messages with the listener that hold back the committed offset of their queue."""
        found = [_lowest_message(job, self._clock) for job in self._jobs.values() if job.listening]
        return [message for message in found if message is not None]

    def offer(self, held: ProcessQueue) -> None:
        """Note that a queue may have something to hand out."""
        if self._ready.join(held):
            self.start_more()

    def start_more(self) -> None:
        """Start another task if there is work and a place for it."""
        if self._closed or len(self._tasks) >= self._concurrency or not (len(self._ready) or self._interrupted):
            return
        if self._left_behind is None or len(self._tasks) < self._places(self._left_behind()):
            context = self._context.copy()
            self._tasks.add(asyncio.create_task(self._run(), name="pyromq listener", context=context))

    def _start_more_soon(self) -> None:
        """Start another task once this one waits: a listener that never does needs only one."""
        if len(self._ready) or self._interrupted:
            self._starting = True
            self._loop.call_soon(self._start_waiting)

    def _start_waiting(self) -> None:
        self._starting = False
        self.start_more()

    def _places(self, left_behind: int) -> int:
        places = self._concurrency - max(left_behind - self._concurrency, 0)
        if places <= 0 and not self._is_stuck:
            logger.error(
                "%d calls of the listener hang although they timed out: nothing is consumed until some return",
                left_behind,
            )
        self._is_stuck = places <= 0
        return places

    async def _run(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        since = perf_counter()
        turn: ProcessQueue | None = None  # the queue whose turn it is: the next job is one of its own
        left = 0
        limit = self._rate_limit
        try:
            while True:
                if turn is None or self._closed or self._interrupted or self._left_behind is not None:
                    job = self._take(turn) if limit is None else await self._take_limited(limit)
                    if job is None:
                        break
                else:  # as _take() would, without a call for every message
                    job = Job(turn, turn.take(self._batch_size), self._clock.monotonic())
                held = job.held
                if held is not turn:
                    left = _TURN
                if not self._starting:
                    self._start_more_soon()
                self._jobs[task] = job
                try:
                    now = await self._consume(job)
                except BaseException as error:
                    now = self._failed(job, error)
                held.end_job()
                left -= 1
                is_long = now - since > _LONGEST_STRETCH
                turn = held if left and limit is None and not is_long and held.ready else None
                if turn is None:
                    del self._jobs[task]
                    self._ready.join(held)
                if is_long:
                    await self._clock.sleep(0)
                    since = perf_counter()
        except BaseException as error:
            if not self._closed:
                logger.warning("a task that calls the listener was ended by %r: it is replaced", error)
                self._clock.call_later(_AFTER_A_LOSS, self.start_more)
            raise
        finally:
            self._jobs.pop(task, None)
            self._tasks.discard(task)

    def _take(self, turn: ProcessQueue | None = None) -> Job | None:
        """Return the next job: of the queue whose turn it is, if one is given, else of the next that is ready."""
        may_take = not self._closed and (
            self._left_behind is None or len(self._tasks) <= self._places(self._left_behind())
        )
        if turn is not None and (self._interrupted or not may_take):
            self._ready.join(turn)
        if not may_take:
            return None
        if self._interrupted:
            return self._interrupted.popleft()
        if turn is not None:  # it is still among the ready ones, unless it may have one job only
            return Job(turn, turn.take(self._batch_size), self._clock.monotonic())
        held = self._ready.next()
        if held is None:
            return None
        messages = held.take(self._batch_size)
        self._ready.join(held)
        return Job(held, messages, self._clock.monotonic())

    async def _take_limited(self, limit: RateLimit) -> Job | None:
        async with self._rate_lock:
            await limit.wait()
            job = self._take()
            if job is not None:
                limit.count(len(job.messages))
            return job

    def _failed(self, job: Job, error: BaseException) -> float:
        """Go on after a failure of `consume`, which is none of the listener; raise what has to end the task."""
        if isinstance(error, Exception):
            # Unfinished messages are not committed and are consumed again.
            log_failure(logger, logging.ERROR, "consuming from %s failed unexpectedly", job.held.queue, error=error)
            self._put_off(job.held, job.messages)
            return perf_counter()
        if self._closed:
            self._end(job)
        else:
            self._clock.call_later(_AFTER_A_LOSS, self._take_over, job)
        raise error

    def _end(self, job: Job) -> None:
        job.held.end_job()
        self._ready.join(job.held)

    def _take_over(self, job: Job) -> None:
        """Continue a job whose task was ended; until now it counted as running, so that nothing overtook it."""
        if job.failure is not None and not self._closed:
            self._interrupted.append(job)
        else:
            job.held.put_back(job.messages)
            self._end(job)
        self.start_more()

    def extend(self, message: MessageExt, seconds: float) -> None:
        """Let the listener that has a message go on for so long from now; callable from any thread."""
        self._loop.call_soon_threadsafe(self._extend, message, self._clock.monotonic() + seconds)

    def _extend(self, message: MessageExt, until: float) -> None:
        for job in self._jobs.values():
            if any(each is message for each in job.messages):
                job.extended_until = until

    def expire(self, age: float, *, cancel: bool) -> None:
        """Cancel, or only log, the jobs whose listener has been running for more than `age` seconds."""
        now = self._clock.monotonic()
        for task, job in list(self._jobs.items()):
            if not job.listening or job.overdue or now <= max(job.started + age, job.extended_until):
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
        self._ready.clear()
        for task in self._tasks - self._jobs.keys():
            task.cancel()  # it waits for the rate limit

    async def close(self, patience: float) -> None:
        """Wait for all jobs; cancel those that take longer than `patience`, and leave those that do not end then."""
        self.stop()
        running = await self._still_running(list(self._tasks), patience)
        if running:
            logger.warning("listeners still running after %g s are cancelled: their messages are redelivered", patience)
            for task in running:
                task.cancel()
            left = await self._still_running(running, _AFTER_CANCELLING)
            if left:
                logger.error("%d listeners are still running although they were cancelled: left behind", len(left))

    async def _still_running(self, tasks: list[asyncio.Task[None]], patience: float) -> list[asyncio.Task[None]]:
        done = asyncio.gather(*tasks, return_exceptions=True)
        with suppress(TimeoutError):
            await wait_for(self._clock, asyncio.shield(done), patience)
        return [task for task in tasks if not task.done()]
