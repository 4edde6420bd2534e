"""One delay level: its queue of SCHEDULE_TOPIC_XXXX, and the timer that waits for its first message.

All messages of a level wait equally long, so they are due in the order of the queue. All that are due go into the open
group, one batch in each round of the loop. Under SYNC_FLUSH the next batch does not wait until the batch before it is
durable, else every message would be late by a flush. Progress does wait.

Times are those of the machine's clock, as in RocketMQ. The level reads it every few seconds, so that no message is very
late if the clock is set forward. If the clock is set back, entries appear to be due later than this level allows. Such
an entry, and all others then in the queue, wait for the level's delay again. They are late; RocketMQ delivers them at
once and perhaps early.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Collection
from functools import partial
from typing import Final, NamedTuple

from pyromq.broker.delay.deliveries import Deliveries
from pyromq.broker.delay.levels.schedule_queue import ScheduleQueue
from pyromq.broker.messages.acknowledgements import Acknowledgements
from pyromq.broker.messages.durability import Durability
from pyromq.broker.pulls.disk_reads import DiskReads
from pyromq.clock import Clock, TimerHandle
from pyromq.errors import CorruptRecord, MalformedHeader, StoreError
from pyromq.protocol.messages.message import MessageExt
from pyromq.protocol.messages.record import read_head
from pyromq.store.consume_queue import ConsumeQueueEntry
from pyromq.store.message_store import MessageStore, PutResult
from pyromq.store.segments import NotInMemory

logger = logging.getLogger(__name__)

BATCH: Final = 64
_BATCH_BYTES: Final = 256 * 1024
_MOST_PENDING: Final = 2000  # messages waiting for their flush, as in RocketMQ's asynchronous delivery
_PAUSE: Final = 0.001
_LONGEST_WAIT: Final = 10.0
_RETRY: Final = 1.0


class _DeliveryBatch(NamedTuple):
    """Deliveries on their way into the log: their start there, and the next entry to deliver."""

    start: int
    next_offset: int


class DelayLevel:
    """Delivers the messages of one level; `offset` is the first one not yet stored in its own topic."""

    def __init__(
        self,
        level: int,
        delay_ms: int | None,
        *,
        store: MessageStore,
        reads: DiskReads,
        deliveries: Deliveries,
        durability: Durability,
        acknowledgements: Acknowledgements,
        clock: Clock,
    ) -> None:
        """`delay_ms` is None for a level that is no longer configured: its messages keep their time."""
        self.level = level
        self.offset = 0
        self.max_late_ms = 0
        """The greatest lateness of a delivery since the start."""
        self._queue = ScheduleQueue(store, level)
        self._delay_ms = delay_ms
        self._store = store
        self._reads = reads
        self._deliveries = deliveries
        self._durability = durability
        self._acknowledgements = acknowledgements
        self._clock = clock
        self._next = 0  # the next entry to put; all before `offset` are stored
        self._delivered: frozenset[int] = frozenset()  # entries after `offset` that were delivered before a restart
        self._delivered_from, self._delivered_end = 0, 0  # from where on the log has them, and behind the last of them
        self._timer: TimerHandle | None = None
        self._batches: deque[_DeliveryBatch] = deque()
        self._most_pending = _MOST_PENDING if durability.waits else 1
        self._is_running = self._is_expecting = self._is_failing = self._awaits_disk = False
        self._set_back_offset, self._set_back_due_ms = 0, 0

    def restore(self, offset: int, delivered: Collection[int], log_offset: int) -> None:
        """Begin at an offset; `delivered` are later messages that the log has already, from `log_offset` on."""
        self._delivered = frozenset(delivered)
        self._delivered_from, self._delivered_end = log_offset, max(delivered, default=-1) + 1
        while offset in self._delivered:
            offset += 1
        self.offset = self._next = offset

    def start(self) -> None:
        """Start to deliver."""
        self._is_running = True
        self._look()

    def stop(self) -> None:
        """Stop delivering. Messages already put are still counted when they are stored."""
        self._is_running = False
        self._cancel_timer()

    def expect(self) -> None:
        """Look again when the message that is being put into this level is stored."""
        if not self._is_expecting:
            self._is_expecting = True
            self._acknowledgements.then(self._arrived)

    @property
    def waiting(self) -> int:
        """How many messages wait here."""
        return max(self._queue.max_offset - self.offset, 0)

    def first_place(self, offset: int) -> int | None:
        """Return where in the log the first message from a queue offset on is; None if there is none."""
        places = (entry.physical_offset for _, entry in self._queue.entries_from(offset) if entry.is_message)
        return next((place for place in places if place >= self._store.min_physical_offset), None)

    @property
    def uncounted_from(self) -> int | None:
        """From where on the log may hold deliveries that `offset` does not count; None if there are none."""
        starts = [self._batches[0].start] if self._batches else []
        if self.offset < self._delivered_end:  # one before them was not delivered, or has no key by which to know it
            starts.append(self._delivered_from)
        return min(starts, default=None)

    def _arrived(self, stored: bool) -> None:
        self._is_expecting = False
        if self._timer is None:  # else it waits for a message that is due earlier
            self._look()

    def _look(self) -> None:
        """Deliver what is due, or wait for the first message."""
        if not self._awaits_disk:
            self._reads.call(self._look_now)

    def _look_now(self) -> None:
        self._awaits_disk = False
        try:
            self._deliver_or_wait()
        except NotInMemory:
            self._awaits_disk = True
            raise

    def _deliver_or_wait(self) -> None:
        self._cancel_timer()
        if not self._is_running or (self._batches and self._next - self.offset >= self._most_pending):
            return
        try:
            wait = self._deliver()
        except NotInMemory:
            raise
        except StoreError as error:
            wait = self._fail(error)
        except Exception:
            logger.exception("delivery failed and will be tried again level=%d offset=%d", self.level, self._next)
            wait = _LONGEST_WAIT
        if wait is not None:
            self._timer = self._clock.call_later(min(wait, _LONGEST_WAIT), self._look)

    def _deliver(self) -> float | None:
        """Put a batch of due messages; return how long to wait, None if a callback looks again."""
        self._stay_within_queue()
        entries = self._queue.entries(self._next, BATCH)
        now_ms = self._clock.now_ms()
        count = 0
        for entry in entries:
            due_ms = self._due_ms(self._next + count, entry, now_ms)
            if due_ms > now_ms:
                break
            self.max_late_ms = max(self.max_late_ms, now_ms - due_ms)
            count += 1
        if count:
            return self._put(count)
        return (due_ms - now_ms) / 1000 if entries else None

    def _stay_within_queue(self) -> None:
        offset = min(max(self._next, self._queue.min_offset), self._queue.max_offset)
        if offset != self._next:
            logger.warning(
                "delay progress corrected: its messages were deleted or lost in a crash level=%d from=%d to=%d",
                *(self.level, self._next, offset),
            )
            self._pass_over(offset)

    def _due_ms(self, offset: int, entry: ConsumeQueueEntry, now_ms: int) -> int:
        due_ms = entry.tags_code if entry.tags_code > 0 else self._due_by_record(entry)
        if self._delay_ms is None:
            return due_ms
        if offset < self._set_back_offset:
            return min(due_ms, self._set_back_due_ms)
        if due_ms <= now_ms + self._delay_ms:
            return due_ms
        self._set_back_offset = self._queue.max_offset
        self._set_back_due_ms = now_ms + self._delay_ms
        logger.warning("the clock was set back or the delay of the level was reduced level=%d", self.level)
        return self._set_back_due_ms

    def _due_by_record(self, entry: ConsumeQueueEntry) -> int:
        """Return when an entry is due that does not say so: it is damaged, or was written with an extension file."""
        record = self._store.read(entry.physical_offset) if entry.is_message else None
        return read_head(record).store_timestamp_ms + (self._delay_ms or 0) if record else 0

    def _put(self, count: int) -> float | None:
        try:
            messages, next_offset = self._queue.messages(self._next, count, _BATCH_BYTES)
        except (CorruptRecord, MalformedHeader) as error:
            if count > 1:
                return self._put(1)
            logger.error("a delayed message is damaged level=%d offset=%d: %s", self.level, self._next, error)
            messages, next_offset = [], self._next + 1
        places, next_offset = self._put_all(messages, next_offset)
        if not places:
            self._pass_over(next_offset)
            return 0.0
        batch = _DeliveryBatch(places[0].physical_offset, next_offset)
        self._batches.append(batch)
        self._next = next_offset
        self._acknowledgements.then(partial(self._batch_stored, batch.start))
        return _PAUSE if self._durability.waits else None

    def _pass_over(self, offset: int) -> None:
        """Continue at another offset without a delivery; it counts as soon as earlier ones are stored."""
        self._next = offset
        if self._batches:
            self._batches[-1] = self._batches[-1]._replace(next_offset=offset)
        else:
            self.offset = offset

    def _put_all(self, messages: list[MessageExt], next_offset: int) -> tuple[list[PutResult], int]:
        """Put as many as the store accepts; return their places and the next entry to deliver."""
        places: list[PutResult] = []
        for message in messages:
            if message.queue_offset in self._delivered:
                continue
            try:
                place = self._deliveries.put(message)
            except StoreError:
                if not places:
                    raise
                return places, message.queue_offset
            if place is not None:
                places.append(place)
        return places, next_offset

    def _batch_stored(self, start: int, stored: bool) -> None:
        """Count a batch that is in the log, or go back to its first message."""
        if not self._batches or self._batches[0].start != start:
            return  # dropped when an earlier batch failed
        batch = self._batches.popleft()
        if stored:
            self._is_failing = False
            self.offset = batch.next_offset
            self._look()
            return
        self._batches.clear()
        self._next = self.offset
        self._cancel_timer()
        if self._is_running:
            self._timer = self._clock.call_later(self._fail(self._store.refusal()), self._look)

    def _fail(self, error: StoreError) -> float:
        if not self._is_failing:  # log it once, not every second
            logger.error("delayed messages wait until the store accepts them level=%d reason=%s", self.level, error)
        self._is_failing = True
        return _RETRY

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
