"""Consumption: calls the listener with some messages of a queue and acts on the outcome."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from time import perf_counter

from msgspec import Struct

from pyromq.client.background import is_being_cancelled, log_failure
from pyromq.client.consume.consumer_stats import ConsumerStats
from pyromq.client.consume.process_queue import ProcessQueue
from pyromq.client.consume.stall_report import blocked_by
from pyromq.client.hooks import ConsumeContext, ConsumeHook, run_hooks
from pyromq.client.listener.listener import ListenerCall
from pyromq.client.listener.outcomes import (
    COMMIT,
    Ack,
    Action,
    DeadLetter,
    RetryLater,
    Suspend,
    Verdict,
    judge,
)
from pyromq.client.push.send_back import SendBack
from pyromq.client.push.workers import Job
from pyromq.clock import Clock
from pyromq.protocol.messages.message import MessageExt

logger = logging.getLogger(__name__)

RETRY_FROM_MEMORY = 5.0  # seconds until a message that could not be sent back is consumed again
_SHORTEST_REST = 0.01
_MANY_CAUSES = 1000

SUCCESS, FAILED, EXCEPTION, TIME_OUT = "SUCCESS", "FAILED", "EXCEPTION", "TIME_OUT"


class ConsumeSettings(Struct, frozen=True, kw_only=True):
    """The settings of a consumer that concern its listener."""

    group: str
    timeout: float
    max_reconsume: int | None = None
    """How often an orderly queue retries a message before it gives the message up; None: forever."""
    rest: float = 1.0
    """Seconds that an orderly queue rests after a failure, unless the listener sets another delay."""
    needs_lock: bool = False
    """Whether only the holder of a queue's lock may consume it."""


class Consumption(ABC):
    """Calls the listener and acts on the outcome; without `send_back`, in broadcasting, failed messages are dropped."""

    def __init__(
        self,
        settings: ConsumeSettings,
        call: ListenerCall,
        clock: Clock,
        *,
        send_back: SendBack | None,
        stats: ConsumerStats,
        hooks: Sequence[ConsumeHook],
        offer: Callable[[ProcessQueue], None],
    ) -> None:
        self._settings = settings
        self._call = call
        self._clock = clock
        self._send_back = send_back
        self._stats = stats
        self._before = [hook.before for hook in hooks]
        self._after = [hook.after for hook in hooks]
        self._offer = offer
        self._causes: set[str] = set()
        self._odd_returns = False

    async def consume(self, job: Job) -> float:
        """Consume the messages of a job; return when that ended, by perf_counter()."""
        held, messages = job.held, job.messages
        started = perf_counter()
        outcome: object = job.failure
        if outcome is None and self._before:
            outcome = await self._listen_with_hooks(job)
        elif outcome is None:  # as listen() does, without a coroutine of its own: this is every message's way
            job.listening = True
            try:
                outcome = await self._call(messages)
            except BaseException as error:
                outcome = self._raised(job, error)
            finally:
                job.listening = False
            if job.timed_out or isinstance(outcome, asyncio.CancelledError):
                outcome = self._after_cancelling(job, outcome)
        ended = perf_counter()
        if outcome is None or outcome is COMMIT:  # nearly always
            held.finish(messages)
            self._stats.count_job(held.queue.topic, ended - started, len(messages), 0)
        else:
            await self._act_on(job, outcome, ended - started)
        held.consumed_at = self._clock.now()
        return ended

    async def _act_on(self, job: Job, outcome: object, seconds: float) -> None:
        held, messages = job.held, job.messages
        verdict = self._judge(job, outcome)
        self._stats.count_job(held.queue.topic, seconds, verdict.acknowledged, len(messages) - verdict.acknowledged)
        held.finish(messages[: verdict.acknowledged])
        if verdict.action is not Action.NOTHING and not held.released:
            await self._settle(held, messages[verdict.acknowledged :], verdict)

    async def listen(self, job: Job) -> object:
        """Return what the listener returned or raised; raise CancelledError only if this task has to stop."""
        job.listening = True
        outcome: object
        try:
            outcome = await self._call(job.messages)
        except BaseException as error:
            outcome = self._raised(job, error)
        finally:
            job.listening = False
        if job.timed_out or isinstance(outcome, asyncio.CancelledError):
            return self._after_cancelling(job, outcome)
        return outcome

    def _raised(self, job: Job, error: BaseException) -> object:
        """Return what the listener raised as its outcome; raise it again if it has to end the task."""
        if isinstance(error, Exception | asyncio.CancelledError | SystemExit):  # sys.exit() would end the loop of all
            return error
        job.failure = error
        raise error

    def _after_cancelling(self, job: Job, outcome: object) -> object:
        task = asyncio.current_task()
        if job.timed_out and task is not None:
            task.uncancel()
        if not isinstance(outcome, asyncio.CancelledError):  # the listener returned all the same
            return outcome
        if is_being_cancelled():
            job.failure = outcome
            raise outcome
        return (
            TimeoutError(f"the listener did not return within {self._settings.timeout:g} s")
            if job.timed_out
            else outcome
        )

    async def _listen_with_hooks(self, job: Job) -> object:
        context = ConsumeContext(group=self._settings.group, queue=job.held.queue, messages=list(job.messages))
        run_hooks(self._before, context)
        try:
            outcome = await self.listen(job)
        except BaseException as error:  # cancelled because the consumer closes: the message is redelivered
            context.error, context.status = error, EXCEPTION
            raise
        else:
            context.error = outcome if isinstance(outcome, BaseException) else None
            context.status = _status(job, outcome)
            return outcome
        finally:
            run_hooks(self._after, context)

    def _judge(self, job: Job, outcome: object) -> Verdict:
        verdict = judge(len(job.messages), outcome)
        if verdict.action is Action.NOTHING:
            if not isinstance(outcome, Ack) and not self._odd_returns:
                self._odd_returns = True
                logger.warning(
                    "the listener of group=%s returned %s: that acknowledges", self._settings.group, _shown(outcome)
                )
        elif verdict.error is not None and not isinstance(verdict.error, RetryLater | DeadLetter | Suspend):
            self._log_failure(job.messages[0], verdict)
        return verdict

    def _log_failure(self, message: MessageExt, verdict: Verdict) -> None:
        """Log a failure, with its traceback if it is the first of its kind."""
        is_new = verdict.cause not in self._causes
        if len(self._causes) >= _MANY_CAUSES:
            self._causes.clear()
        self._causes.add(verdict.cause)
        log_failure(
            logger, logging.WARNING, "the listener of group=%s failed message=%s topic=%s times=%d: %s",
            self._settings.group, message.message_id, message.topic, message.reconsume_times + 1, verdict.cause,
            error=verdict.error if is_new else None,
        )  # fmt: skip

    def _drop(self, held: ProcessQueue, messages: Sequence[MessageExt], verdict: Verdict) -> None:
        for message in messages:
            logger.warning(
                "message=%s dropped: group=%s is broadcasting, where nothing is redelivered (%s)",
                message.message_id, self._settings.group, verdict.cause,
            )  # fmt: skip
        held.finish(messages)

    @abstractmethod
    def put_off(self, held: ProcessQueue, messages: Sequence[MessageExt]) -> None:
        """Consume messages again from memory after some seconds, because something other than the listener failed."""

    @abstractmethod
    async def _settle(self, held: ProcessQueue, rest: list[MessageExt], verdict: Verdict) -> None:
        """Act on the verdict for the messages that were not acknowledged."""


def _shown(value: object) -> str:
    try:
        return f"{value!r:.100}"
    except Exception:  # users' values may do anything
        return f"a {type(value).__name__}"


def _status(job: Job, outcome: object) -> str:
    if job.timed_out:
        return TIME_OUT
    if isinstance(outcome, RetryLater | DeadLetter | Suspend):
        return FAILED
    if isinstance(outcome, BaseException):
        return EXCEPTION
    return SUCCESS if judge(len(job.messages), outcome).action is Action.NOTHING else FAILED


class ConcurrentConsumption(Consumption):
    """Sends failed messages back to the broker; those that cannot be sent back are consumed again from memory."""

    async def _settle(self, held: ProcessQueue, rest: list[MessageExt], verdict: Verdict) -> None:
        if self._send_back is None:
            self._drop(held, rest, verdict)
            return
        sent = await asyncio.gather(*[self._send_back.send(message, held.queue, verdict) for message in rest])
        held.finish([message for message, done in zip(rest, sent, strict=True) if done])
        kept = [message for message, done in zip(rest, sent, strict=True) if not done]
        if kept:
            for message in kept:
                message.reconsume_times += 1
            self.put_off(held, kept)

    def put_off(self, held: ProcessQueue, messages: Sequence[MessageExt]) -> None:
        """Consume messages again after 5 s; the offset before them is not committed until then."""
        self._clock.call_later(RETRY_FROM_MEMORY, self._again, held, messages)

    def _again(self, held: ProcessQueue, messages: Sequence[MessageExt]) -> None:
        held.put_back(messages)
        self._offer(held)


class OrderlyConsumption(Consumption):
    """Consumes failed messages again after the queue has rested, before all others: nothing overtakes them."""

    async def consume(self, job: Job) -> float:
        """Consume the messages of a job, unless the lock of the queue is lost."""
        held = job.held
        if self._settings.needs_lock and self._clock.monotonic() >= held.lock_expires:
            held.locked = False  # set again when the lock is renewed
            held.put_back(job.messages)
            return perf_counter()
        return await super().consume(job)

    async def _settle(self, held: ProcessQueue, rest: list[MessageExt], verdict: Verdict) -> None:
        tried, untried = rest[: verdict.tried], rest[verdict.tried :]
        kept = await self._give_up(held, tried, verdict)
        for message in kept:
            message.reconsume_times += 1
        if again := kept + untried:
            held.blocked = blocked_by(again[0], held.queue, verdict.cause, self._clock.now(), held.blocked)
            self._rest(held, again, self._settings.rest if verdict.delay is None else verdict.delay)

    async def _give_up(self, held: ProcessQueue, tried: list[MessageExt], verdict: Verdict) -> list[MessageExt]:
        """Make dead letters of the messages that have no retries left; return the others."""
        limit = self._settings.max_reconsume
        lost = [
            message
            for message in tried
            if verdict.action is Action.GIVE_UP or (limit is not None and message.reconsume_times >= limit)
        ]
        if self._send_back is None:
            self._drop(held, lost, verdict)
            return [message for message in tried if message not in lost]
        gone = [message for message in lost if await self._send_back.bury(message, held.queue, verdict.cause)]
        held.finish(gone)
        return [message for message in tried if message not in gone]

    def put_off(self, held: ProcessQueue, messages: Sequence[MessageExt]) -> None:
        """Consume messages again after 5 s, and nothing else of their queue before."""
        self._rest(held, messages, RETRY_FROM_MEMORY)

    def _rest(self, held: ProcessQueue, messages: Sequence[MessageExt], delay: float) -> None:
        held.put_back(messages)
        held.resting = True
        self._clock.call_later(max(delay, _SHORTEST_REST), self._wake, held)

    def _wake(self, held: ProcessQueue) -> None:
        held.resting = False
        self._offer(held)
