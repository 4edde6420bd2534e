"""DirectConsumption: calls the listener with a message that an operator names, apart from all that is consumed anyway.

No offset moves, and a failure is only reported: the message is not sent back. In an orderly consumer the message waits
for its turn in its queue, since a listener there relies on having one message of a queue at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context
from time import perf_counter

from pyromq.client.consume.process_queue import ProcessQueue
from pyromq.client.listener.outcomes import COMMIT, ROLLBACK, Action, DeadLetter, RetryLater, Suspend, judge
from pyromq.client.push.consumption import Consumption
from pyromq.client.push.workers import Job
from pyromq.clock import Clock, wait_for
from pyromq.errors import BrokerError
from pyromq.protocol.bodies import ConsumeMessageDirectlyResult, ConsumeResult
from pyromq.protocol.messages.message import MessageExt, MessageQueue

LONGEST_WAIT = 5.0
"""Seconds for its turn; the broker waits for 10, and nothing may be handled after the operator was told otherwise."""


class DirectConsumption:
    """Hands single messages to the listener; `find` returns the queue of a message if this consumer has it."""

    def __init__(
        self,
        consumption: Consumption,
        find: Callable[[MessageQueue], ProcessQueue | None],
        offer: Callable[[ProcessQueue], None],
        clock: Clock,
        context: Context,
        *,
        orderly: bool,
        timeout: float,
    ) -> None:
        self._consumption = consumption
        self._find = find
        self._offer = offer
        self._clock = clock
        self._context = context
        self._orderly = orderly
        self._timeout = timeout
        self._tasks: set[asyncio.Task[object]] = set()
        self.waiting = 0
        """How many messages wait for their turn in an orderly queue."""
        self.closed = False

    async def consume(self, message: MessageExt, restore: Callable[[MessageExt], None]) -> ConsumeMessageDirectlyResult:
        """Call the listener and return RocketMQ's word for the outcome; `restore` shows the message as it was sent.

        Raises BrokerError if the message was not handled: the consumer closes, or an orderly queue is busy.
        """
        held = self._find(message.queue) if self._orderly else None
        if held is not None:
            await self._wait_for_turn(held)
        try:
            if self.closed:
                raise BrokerError("the consumer is closing, nothing was handled")
            restore(message)
            started = perf_counter()
            outcome = await self._listen(message)
            return direct_result(outcome, perf_counter() - started, orderly=self._orderly)
        finally:
            if held is not None:
                held.end_job()
                self._offer(held)

    async def _wait_for_turn(self, held: ProcessQueue) -> None:
        self.waiting += 1
        try:
            await wait_for(self._clock, held.begin_alone(), LONGEST_WAIT)
        except TimeoutError:
            raise BrokerError(
                f"the listener has had a message of the same orderly queue for {LONGEST_WAIT:g} s: nothing was handled"
            ) from None
        finally:
            self.waiting -= 1

    async def _listen(self, message: MessageExt) -> object:
        job = Job(ProcessQueue(message.queue), [message], self._clock.monotonic())
        task = asyncio.create_task(
            self._consumption.listen(job), name="pyromq direct listener", context=self._context.copy()
        )
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

        def expire() -> None:
            job.timed_out = task.cancel()

        timer = None if self._orderly else self._clock.call_later(self._timeout, expire)
        try:
            return await task
        finally:
            if timer is not None:
                timer.cancel()

    def stop(self) -> None:
        """Begin nothing more."""
        self.closed = True

    async def close(self, patience: float) -> None:
        """Wait for what the listener has; cancel it if it takes longer than `patience`."""
        self.stop()
        if self._tasks:
            with suppress(TimeoutError):  # it has cancelled them
                await wait_for(self._clock, asyncio.gather(*self._tasks, return_exceptions=True), patience)


def direct_result(outcome: object, seconds: float, *, orderly: bool) -> ConsumeMessageDirectlyResult:
    """Return RocketMQ's word for what a listener returned or raised."""
    verdict = judge(1, outcome)
    result = _result(outcome, verdict.action)
    return ConsumeMessageDirectlyResult(
        order=orderly,
        auto_commit=True,
        consume_result=result,
        remark=verdict.cause if result in (ConsumeResult.CR_LATER, ConsumeResult.CR_THROW_EXCEPTION) else None,
        spent_time_mills=int(seconds * 1000),
    )


def _result(outcome: object, action: Action) -> ConsumeResult:
    if outcome is COMMIT:
        return ConsumeResult.CR_COMMIT
    if outcome is ROLLBACK:
        return ConsumeResult.CR_ROLLBACK
    if isinstance(outcome, BaseException) and not isinstance(outcome, RetryLater | DeadLetter | Suspend):
        return ConsumeResult.CR_THROW_EXCEPTION
    return ConsumeResult.CR_SUCCESS if action is Action.NOTHING else ConsumeResult.CR_LATER
