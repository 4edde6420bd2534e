"""WriteSide: what a broker has while it is master. It takes messages, delivers delayed ones, and ends transactions."""

from __future__ import annotations

from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Final, Self

from pyromq.broker.cleaning import Cleaning, StoreHandlers
from pyromq.broker.delay.levels.schedule import Schedule
from pyromq.broker.delay.timer.timer_service import TimerService
from pyromq.broker.messages.acknowledgements import Acknowledgements
from pyromq.broker.messages.dead_letter_watch import DeadLetterWatch
from pyromq.broker.messages.deferred_messages import DeferredMessages, DelayedMessages
from pyromq.broker.messages.durability import Durability, Replicas
from pyromq.broker.messages.flow_control import SendFlowControl
from pyromq.broker.messages.new_queue_sends import NewQueueSends
from pyromq.broker.messages.new_topic_sends import NewTopicSends
from pyromq.broker.messages.plain_sends import PlainSends
from pyromq.broker.messages.reply import ReplyHandler
from pyromq.broker.messages.send import SendHandler
from pyromq.broker.messages.send_back import SendBackHandler
from pyromq.broker.parts import Parts, Writing
from pyromq.broker.pulls.offset_moved_events import OffsetMovedEvents
from pyromq.broker.transactions.transaction_service import TransactionService
from pyromq.figures import BoundFigures
from pyromq.remoting.requests import Handler
from pyromq.remoting.round import PlainLane
from pyromq.store.message_store import MessageStore


class WriteSide:
    """Built over the parts of a broker and its store; an async context manager that works while it is open.

    It finds in the log what it has to go on with: delayed messages, timers and open transactions. `handlers` answer the
    requests that write. Whoever closes it has them refused first; the answers that still wait for the disk then leave.
    """

    def __init__(self, parts: Parts, store: MessageStore, cleaning: Cleaning, replicas: Replicas | None = None) -> None:
        """`replicas` if sends wait for slaves."""
        config = parts.config
        self._parts = parts
        durability = Durability(store, parts.signals, replicas)
        self._acknowledgements = Acknowledgements(
            store,
            durability,
            parts.round,
            parts.clock,
            flush_timeout=config.sync_flush_timeout,
            slave_timeout=config.slave_timeout,
        )
        self._new_topics = NewTopicSends(parts.topics)
        self._new_queues = NewQueueSends(store.new_queues, parts.clock)
        writing = Writing(
            store=store,
            durability=durability,
            acknowledgements=self._acknowledgements,
            new_topics=self._new_topics,
            new_queues=self._new_queues,
        )
        self._flow = SendFlowControl(
            parts.round,
            store,
            wait_limit=config.send_wait_limit if config.fast_failure else None,
            write_limit=config.slow_write_limit,
        )
        self._flow.configure(config)
        self._offset_events = OffsetMovedEvents(parts, writing)
        self._schedule = Schedule(parts, writing)
        self._timer = TimerService(parts, writing)
        delayed = DelayedMessages(self._schedule.place, self._timer.timer.place)
        self._transactions = TransactionService(parts, writing, delayed)
        deferred = DeferredMessages(self._transactions.transactions.prepare, delayed)
        self._sends = SendHandler(parts, writing, deferred, self._flow)
        self._plain_sends = PlainSends(parts, writing, self._flow)
        self._send_backs = SendBackHandler(parts, writing, delayed)
        self._replies = ReplyHandler(parts, writing, self._sends)
        self._dead_letters = DeadLetterWatch(
            store, parts.reads, parts.topics, parts.clock, lambda: parts.config.store.file_reserved_hours
        )
        self.handlers: Final[list[object]] = [
            self._sends,
            self._send_backs,
            self._replies,
            self._transactions.requests,
            self._timer.requests,
            StoreHandlers(parts, store.cleaner, cleaning),
        ]

    @property
    def lanes(self) -> dict[Handler, PlainLane]:
        """What takes plain messages in the place of a handler."""
        return {self._sends.send: self._plain_sends.lane} if self._plain_sends.is_usable else {}

    def figures(self) -> list[BoundFigures[Any]]:
        """Return the figures of all that writes."""
        return [
            self._transactions.figures(),
            self._timer.figures(),
            self._flow.figures(),
            self._schedule.figures(),
        ]

    async def __aenter__(self) -> Self:
        """Start to deliver what waits; raise StoreError or ConfigError."""
        async with AsyncExitStack() as stack:
            stack.callback(self._flow.close)
            stack.callback(self._acknowledgements.close)
            self._schedule.load()
            stack.push_async_callback(self._schedule.close)
            stack.push_async_callback(self._acknowledgements.drained)
            stack.push_async_callback(self._new_queues.drained)
            stack.push_async_callback(self._new_topics.drained)
            self._follow_settings(stack)
            stack.callback(self._parts.offset_moved.subscribe(self._offset_events.moved))
            self._start(stack)
            self._exit = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._exit.aclose()

    def _start(self, stack: AsyncExitStack) -> None:
        self._dead_letters.start()
        stack.callback(self._dead_letters.stop)
        self._schedule.start()
        stack.callback(self._schedule.stop)
        self._timer.start()
        stack.push_async_callback(self._timer.stop)
        self._transactions.start()
        stack.push_async_callback(self._transactions.stop)

    def _follow_settings(self, stack: AsyncExitStack) -> None:
        for part in (self._flow, self._sends, self._send_backs, self._replies, self._transactions):
            stack.callback(self._parts.settings.changed.subscribe(part.configure))
