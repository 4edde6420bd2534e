"""Linger: messages sent within a few milliseconds of each other travel as one batch."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import NamedTuple

from msgspec import Struct, field

from pyromq.client.lifecycle import ForkGuard
from pyromq.client.send.batch_delivery import BatchDelivery, GatheredBatch
from pyromq.client.send.fast_send import Promise
from pyromq.client.send.in_flight import InFlightLimit
from pyromq.client.send.prepare import MessagePreparer, body_size, plain_keys
from pyromq.client.send_result import SendResult
from pyromq.clock import Clock, TimerHandle
from pyromq.lane.batches import Element, producer_lane
from pyromq.protocol.messages.batch import ELEMENT_OVERHEAD, element_parts
from pyromq.protocol.messages.message import Message, MessageQueue
from pyromq.protocol.messages.message_id import IdRun

_MOST_BYTES = 256 * 1024
_MOST_MESSAGES = 1000

_MAX_KINDS = 1000

_Key = tuple[str, bool, MessageQueue | None]


class _Kind(NamedTuple):
    """What plain messages of one topic and tag have in common."""

    stem: bytes
    """Their properties, up to a message's id."""
    key: _Key
    """The batch that they join."""


class _OpenBatch(Struct, eq=False):
    first: Message
    timer: TimerHandle
    elements: list[Element] = field(default_factory=list)
    waiting: list[Promise] = field(default_factory=list)
    sources: list[Message] = field(default_factory=list)
    """The messages, if somebody watches."""
    size: int = 0
    body_bytes: int = 0
    """As they count towards what is in flight."""


class Linger:
    """Gathers the messages of a topic, or of a queue, for `seconds`, then sends them together.

    A message is in flight from `send` to the answer to its batch, even if nobody waits for it any more.
    """

    def __init__(
        self,
        seconds: float,
        preparer: MessagePreparer,
        in_flight: InFlightLimit,
        clock: Clock,
        guard: ForkGuard,
        batches: BatchDelivery,
    ) -> None:
        self._seconds = seconds
        self._preparer = preparer
        self._in_flight = in_flight
        self._most_in_flight = in_flight.most
        self._clock = clock
        self._largest = preparer.max_message_size
        self._guard = guard
        self._batches = batches
        self._keeps_sources = batches.is_watched
        self._encode, self._spread = producer_lane()
        self._overhead = ELEMENT_OVERHEAD + len(preparer.new_id(clock.now_ms()))
        self._open: dict[_Key, _OpenBatch] = {}
        self._kinds: dict[tuple[str, str | None, bool], _Kind] = {}
        self._loop = asyncio.get_running_loop()

    def join(self, message: Message) -> asyncio.Future[SendResult] | None:
        """Let a plain message travel with others, to any queue; None if there is no room or `send` has to look at it.

        After a cancellation it may still be sent.
        """
        future: asyncio.Future[SendResult] = self._loop.create_future()
        return future if self._add_plain(message, future) else None

    async def send(
        self,
        message: Message,
        order_key: str | None = None,
        choose: Callable[[], Awaitable[MessageQueue]] | None = None,
    ) -> SendResult:
        """Send a message with others, to any queue or to the chosen one; after a cancellation it may still be sent."""
        self._guard.check()
        size = body_size(message)
        if not self._in_flight.try_enter(size):
            self.flush()  # whoever waits for room cannot join
            await self._in_flight.enter(size)
            self._loop.call_soon(self._flush_if_full)  # behind those who were admitted together with this one
        future: asyncio.Future[SendResult] = self._loop.create_future()
        try:
            self._add(message, future, order_key, None if choose is None else await choose())
        except BaseException:
            self._in_flight.leave(size)
            raise
        return await future

    def start(self, message: Message, promise: Promise) -> bool:
        """Send a message with others and give `promise` the outcome; return False if there is no room now."""
        if self._add_plain(message, promise):
            return True
        size = len(message.body)
        if not self._in_flight.try_enter(size):
            self.flush()
            return False
        try:
            self._add(message, promise, None, None)
        except BaseException:
            self._in_flight.leave(size)
            raise
        return True

    def _add_plain(self, message: Message, waiter: Promise) -> bool:
        """Let a message join that differs from one before only in its body and keys; return False if it is another."""
        try:
            kind = self._kinds.get((message.topic, message.tags, message.wait))
            body, keys = message.body, message.keys
        except (TypeError, AttributeError):  # a list of tags, or no message at all
            return False
        if kind is None or message.properties or message.flag or type(body) is not bytes or self._guard.forked:
            return False
        stem, key = kind
        if keys:
            text = plain_keys(keys)
            if text is None:
                return False
            stem = text.encode() + stem
        size = len(body)
        if not 0 < size <= self._largest or not self._in_flight.try_enter(size):
            return False
        self._append(key, message, (0, body, stem), size, waiter)
        return True

    def _add(self, message: Message, waiter: Promise, order_key: str | None, queue: MessageQueue | None) -> None:
        message_id, properties = self._preparer.element(message, order_key)
        element_parts(message.flag, message.body, properties)  # raises if it does not fit
        key = (message.topic, message.wait, queue)
        stem = self._preparer.known_stem(message)
        if stem is not None and queue is None:
            if len(self._kinds) >= _MAX_KINDS:
                self._kinds.clear()
            self._kinds[message.topic, message.tags, message.wait] = _Kind(stem, key)
        body = bytes(message.body)
        element = message.flag, body, properties.removesuffix(message_id.encode())
        self._append(key, message, element, len(body), waiter)

    def _append(self, key: _Key, message: Message, element: Element, body_size: int, waiter: Promise) -> None:
        size = body_size + len(element[2]) + self._overhead
        batch = self._open.get(key)
        if batch is None or batch.size + size > _MOST_BYTES:
            batch = self._begin(key, message)
        batch.elements.append(element)
        waiting = batch.waiting
        waiting.append(waiter)
        batch.size += size
        batch.body_bytes += body_size
        if self._keeps_sources:
            batch.sources.append(message)
        if len(waiting) >= _MOST_MESSAGES:
            self._flush(key)
        if self._in_flight.count >= self._most_in_flight:  # nobody can join any more
            self.flush()

    def _begin(self, key: _Key, message: Message) -> _OpenBatch:
        """Begin a batch, after sending the one that is full."""
        if key in self._open:
            self._flush(key)
        timer = self._clock.call_later(self._seconds, self._flush, key)
        batch = self._open[key] = _OpenBatch(message, timer)
        return batch

    def flush(self) -> None:
        """Send all waiting messages now."""
        for key in list(self._open):
            self._flush(key)

    def _flush_if_full(self) -> None:
        if self._in_flight.has_waiting:
            self.flush()

    def _flush(self, key: _Key) -> None:
        batch = self._open.pop(key)
        batch.timer.cancel()
        ids = self._preparer.new_ids(len(batch.waiting), self._clock.now_ms())
        settle = partial(self._settle, batch, ids)
        try:
            body = self._encode(batch.elements, ids.stem, ids.first)
            prepared = self._preparer.encoded_batch(batch.first, body, (), batch.sources)
            self._batches.send(GatheredBatch(prepared, ids, key[2]), settle)
        except Exception as error:
            settle(error)

    def _settle(self, batch: _OpenBatch, ids: IdRun, outcome: SendResult | BaseException) -> None:
        """Give everybody the outcome: a result with the ids of the batch, or its error."""
        self._in_flight.leave_together(len(batch.waiting), batch.body_bytes)
        if isinstance(outcome, BaseException):
            for waiter in batch.waiting:
                if not waiter.done():
                    waiter.set_exception(outcome)
            return
        place = outcome.offset_message_id, outcome.queue, outcome.queue_offset
        for waiter, result in zip(batch.waiting, self._spread(SendResult, outcome.status, *place, *ids), strict=True):
            if not waiter.done():
                waiter.set_result(result)
