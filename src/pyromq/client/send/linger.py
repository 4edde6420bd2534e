"""Linger: messages sent within a few milliseconds of each other travel as one batch."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import NamedTuple

from pyromq.client.lifecycle import ForkGuard
from pyromq.client.send.batch_delivery import BatchDelivery, GatheredBatch
from pyromq.client.send.in_flight import InFlightLimit
from pyromq.client.send.prepare import MessagePreparer, body_size, plain_keys
from pyromq.client.send_result import PendingResult, Promise, SendResult, SharedOutcome
from pyromq.clock import Clock, TimerHandle
from pyromq.lane.batches import Element
from pyromq.protocol.messages.batch import ELEMENT_OVERHEAD, element_parts
from pyromq.protocol.messages.message import Message, MessageQueue
from pyromq.protocol.messages.message_id import IdRun

_MOST_BYTES = 256 * 1024
_MOST_MESSAGES = 1000
_RESERVED = 64
"""Places in flight that a batch takes at a time."""

_MAX_KINDS = 1000

_Key = tuple[str, bool, MessageQueue | None]


class _Kind(NamedTuple):
    """What plain messages of one topic and tag have in common."""

    stem: bytes
    """Their properties, up to a message's id."""
    extra: int
    """Bytes of one in a batch besides its body."""
    key: _Key
    """The batch that they join."""


class _OpenBatch:
    """What has been gathered; not a Struct, whose fields take longer to set, and every message sets one."""

    __slots__ = ("counted", "elements", "first", "most", "outcome", "places", "room", "sources", "timer")

    def __init__(self, first: Message, timer: TimerHandle) -> None:
        self.first = first
        self.timer = timer
        self.outcome = SharedOutcome()
        self.elements: list[Element] = []
        self.sources: list[Message] = []
        """The messages, if somebody watches."""
        self.room = _MOST_BYTES
        """Bytes that still fit."""
        self.places = 0
        """Places in flight: those of its messages, and some that are reserved for the next."""
        self.most = 0
        """With so many messages it needs more places, or is full."""
        self.counted = 0
        """Bytes of it that count as in flight already; the others do when it is sent."""

    def add_places(self, places: int) -> None:
        """Let it have more messages."""
        self.places += places
        self.most = min(self.places, _MOST_MESSAGES)

    @property
    def size(self) -> int:
        """Its bytes as they count towards what is in flight."""
        return _MOST_BYTES - self.room


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
        largest: int,
    ) -> None:
        self._seconds = seconds
        self._preparer = preparer
        self._in_flight = in_flight
        self._clock = clock
        self._largest = largest
        self._guard = guard
        self._batches = batches
        self._keeps_sources = batches.is_watched
        self._overhead = ELEMENT_OVERHEAD + len(preparer.new_id(clock.now_ms()))
        self._open: dict[_Key, _OpenBatch] = {}
        self._kinds: dict[tuple[str, str | None, bool], _Kind] = {}
        self._loop = asyncio.get_running_loop()

    def join(self, message: Message, promise: Promise | None = None) -> PendingResult | None:
        """Let a message travel with others, to any queue, and give its outcome to `promise`, if there is one.

        Return None if there is no room, or if it differs from all before it in more than its body and keys: then `add`
        has to look at it. After a cancellation it may still be sent.
        """
        try:
            kind = self._kinds.get((message.topic, message.tags, message.wait))
            body, keys = message.body, message.keys
        except (TypeError, AttributeError):  # a list of tags, or no message at all
            return None
        if kind is None or message.properties or message.flag or type(body) is not bytes or self._guard.forked:
            return None
        stem, extra, key = kind
        if keys:
            text = plain_keys(keys)
            if text is None:
                return None
            stem = text.encode() + stem
            extra += len(text)
        size = len(body)
        if not 0 < size <= self._largest:
            return None
        size += extra
        batch = self._open.get(key)
        if batch is None or size > batch.room or len(batch.elements) >= batch.most:
            batch = self._with_room(key, message, size)
            if batch is None:
                return None
        outcome, elements = batch.outcome, batch.elements
        number = len(elements)
        elements.append((0, body, stem))
        batch.room -= size
        if promise is not None:
            outcome.waiting.append((number, promise))
        if number + 1 >= batch.most:
            self._go_on(key, batch)
        return PendingResult(outcome, number)

    async def add(
        self,
        message: Message,
        order_key: str | None = None,
        choose: Callable[[], Awaitable[MessageQueue]] | None = None,
    ) -> PendingResult:
        """Let a message travel with others as soon as there is room for it, to any queue or to the chosen one."""
        self._guard.check()
        size = body_size(message)
        if not self._in_flight.try_enter(size):
            self.flush()  # whoever waits for room cannot join
            await self._in_flight.enter(size)
            self._loop.call_soon(self._flush_for_waiting)  # behind those who were admitted together with this one
        try:
            return self._add(message, None, order_key, None if choose is None else await choose())
        except BaseException:
            self._in_flight.leave(size)
            raise

    def start(self, message: Message, promise: Promise) -> bool:
        """Send a message with others and give `promise` the outcome; return False if there is no room now."""
        if self.join(message, promise) is not None:
            return True
        size = body_size(message)
        if not self._in_flight.try_enter(size):
            self.flush()
            return False
        try:
            self._add(message, promise)
        except BaseException:
            self._in_flight.leave(size)
            raise
        return True

    def _add(
        self, message: Message, promise: Promise | None, order_key: str | None = None, queue: MessageQueue | None = None
    ) -> PendingResult:
        message_id, properties = self._preparer.element(message, order_key)
        element_parts(message.flag, message.body, properties)  # raises if it does not fit
        key = (message.topic, message.wait, queue)
        stem = self._preparer.known_stem(message)
        if stem is not None and queue is None and not self._keeps_sources:
            if len(self._kinds) >= _MAX_KINDS:
                self._kinds.clear()
            self._kinds[message.topic, message.tags, message.wait] = _Kind(stem, len(stem) + self._overhead, key)
        stem = properties.removesuffix(message_id.encode())
        return self._append(key, message, (message.flag, bytes(message.body), stem), promise)

    def _append(self, key: _Key, message: Message, element: Element, promise: Promise | None) -> PendingResult:
        """Add a message that is in flight, with the bytes of its body."""
        _, body, stem = element
        size = len(body) + len(stem) + self._overhead
        batch = self._open.get(key)
        if batch is None or size > batch.room:
            batch = self._begin(key, message)
        batch.add_places(1)
        batch.counted += len(body)
        outcome, elements = batch.outcome, batch.elements
        number = len(elements)
        elements.append(element)
        batch.room -= size
        if promise is not None:
            outcome.waiting.append((number, promise))
        if self._keeps_sources:
            batch.sources.append(message)
        if number + 1 >= _MOST_MESSAGES:
            self._flush(key)
        self._flush_if_full()
        return PendingResult(outcome, number)

    def _begin(self, key: _Key, message: Message) -> _OpenBatch:
        """Begin a batch, after sending the one that is full."""
        if key in self._open:
            self._flush(key)
        timer = self._clock.call_later(self._seconds, self._flush, key)
        batch = self._open[key] = _OpenBatch(message, timer)
        return batch

    def _with_room(self, key: _Key, message: Message, size: int) -> _OpenBatch | None:
        """Return the batch that a message of some bytes may join, a new one if need be; None if there is no place."""
        batch = self._open.get(key)
        if batch is not None and size > batch.room:
            self._flush(key)
            batch = None
        places = self._in_flight.reserve(_RESERVED)
        if not places:
            return None
        batch = batch or self._begin(key, message)
        batch.add_places(places)
        return batch

    def _go_on(self, key: _Key, batch: _OpenBatch) -> None:
        """Let more messages join a batch; if it is full, or nothing else may be in flight, send it."""
        if len(batch.elements) >= _MOST_MESSAGES:
            self._flush(key)
        elif places := self._in_flight.reserve(_RESERVED, leave=1):  # the last one is for whoever comes next
            batch.add_places(places)
        else:
            self._flush_if_full()

    def _flush_if_full(self) -> None:
        if self._in_flight.count >= self._in_flight.most:  # nobody can join any more
            self.flush()

    def flush(self) -> None:
        """Send all waiting messages now."""
        for key in list(self._open):
            self._flush(key)

    def _flush_for_waiting(self) -> None:
        if self._in_flight.has_waiting:
            self.flush()

    def _flush(self, key: _Key) -> None:
        batch = self._open.pop(key)
        batch.timer.cancel()
        count, size = len(batch.elements), batch.size
        ids = self._preparer.new_ids(count, self._clock.now_ms())
        settle = partial(self._settle, batch.outcome, size, ids)
        self._in_flight.use_reserved(batch.places - count, size - batch.counted)
        try:
            prepared = self._preparer.encoded_batch(batch.first, b"", (), batch.sources)
            self._batches.send(GatheredBatch(prepared, batch.elements, ids, key[2]), settle)
        except Exception as error:
            settle(error)

    def _settle(self, messages: SharedOutcome, size: int, ids: IdRun, outcome: SendResult | BaseException) -> None:
        """Give everybody the outcome: a result with the ids of the batch, or its error."""
        self._in_flight.leave_together(ids.size, size)
        if isinstance(outcome, BaseException):
            messages.set_exception(outcome)
        else:
            messages.set_stored(outcome, ids)
