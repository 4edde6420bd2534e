"""TimerFollower: keeps the ledger in step with the log.

It reads the timer's queue all the time, for sends, cancellations and moves. It walks the log for deliveries only after
a start, from where the saved table ends: a few seconds of it, or everything since the first waiting message if the
table is lost.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from itertools import chain, islice
from typing import Final

from pyromq.broker.delay.timer.timer_ledger import TimerLedger
from pyromq.broker.delay.timer.timer_records import (
    TIMER_QUEUE,
    delivered_origin,
    due_of,
    is_delivery,
    meaning,
    read_waiting,
)
from pyromq.protocol.messages.record import decode_messages, read_head, read_properties
from pyromq.protocol.names import TIMER_TOPIC
from pyromq.store.consume_queue import ENTRY
from pyromq.store.index.pending_table import Pending, PendingProgress
from pyromq.store.message_store import MessageStore
from pyromq.store.read.disk.disk_access import need_all
from pyromq.store.read.log_walk import WalkedRecord

logger = logging.getLogger(__name__)

_MESSAGES_AT_ONCE: Final = 256
_BYTES_AT_ONCE: Final = 1 << 20
_WALKED_AT_ONCE: Final = 2000


def first_progress(store: MessageStore, saved: PendingProgress | None = None) -> PendingProgress:
    """Return where to begin if no waiting message is known: at the queue's next message, or at the log's end."""
    first = max(store.min_offset(TIMER_TOPIC, TIMER_QUEUE), saved.queue_offset if saved is not None else 0)
    if first >= store.max_offset(TIMER_TOPIC, TIMER_QUEUE):
        return PendingProgress(first, store.max_physical_offset)
    (position, _, _) = ENTRY.unpack(store.raw_entries(TIMER_TOPIC, TIMER_QUEUE, first, first + 1))
    return PendingProgress(first, max(position, store.min_physical_offset))


def fits(progress: PendingProgress, store: MessageStore) -> bool:
    """Return True if a table can belong to this log; it cannot if it is ahead of the log."""
    return (
        progress.queue_offset <= store.max_offset(TIMER_TOPIC, TIMER_QUEUE)
        and progress.position <= store.max_physical_offset
    )


class TimerFollower:
    """Reads what the timer needs to know, a few milliseconds at a time, on the store's thread."""

    def __init__(
        self,
        store: MessageStore,
        ledger: TimerLedger,
        progress: PendingProgress,
        *,
        on_begin: Callable[[Pending], None],
        on_end: Callable[[Pending], None],
    ) -> None:
        self.queue_offset = progress.queue_offset
        """Messages of the timer's queue before this one are in the ledger."""
        self.walked_to: int | None = progress.position
        """Deliveries before this place of the log are in the ledger; None when all are."""
        self._store = store
        self._ledger = ledger
        self._on_begin = on_begin
        self._on_end = on_end
        self._walk: Iterator[WalkedRecord] | None = None
        self._found = 0

    # --- the queue

    def follow(self) -> bool:
        """Read the next messages of the queue; return True if there may be more."""
        if self.queue_offset >= self._store.max_offset(TIMER_TOPIC, TIMER_QUEUE):
            return False
        found = self._store.get(
            TIMER_TOPIC, TIMER_QUEUE, self.queue_offset, _MESSAGES_AT_ONCE, max_bytes=_BYTES_AT_ONCE
        )
        for view in found.views:
            self._take_in(bytes(view))
        self.queue_offset = found.next_offset
        return True

    def _take_in(self, records: bytes) -> None:
        for physical_offset, properties in _records(records):
            begins, ends = meaning(physical_offset, properties)
            if begins is not None:
                self._ledger.begin(begins)
                self._on_begin(begins)
            if ends is not None:
                self._ledger.end(ends)
                self._on_end(ends)

    # --- the log

    def walk(self) -> bool:
        """Search the next records of the log for deliveries unknown to the table; return True if records are left.

        Call `follow` until it returns False first.
        """
        if self.walked_to is None:
            return False
        walk, self._walk = self._walk or self._store.walk(self.walked_to), None  # if it fails, a new walk is begun
        records = list(islice(walk, _WALKED_AT_ONCE))
        origins = [(record[0], delivered_origin(*record[-2:])) for record in records]
        deliveries = [(place, origin) for place, origin in origins if origin is not None]
        need_all(self._store.read, chain.from_iterable(deliveries), _BYTES_AT_ONCE)
        for place, origin in deliveries:
            self._note_delivery(place, origin)
        if records:
            self._walk = walk
            self.walked_to = records[-1][0]
            return True
        if self._found:
            logger.info("found deliveries of timed messages that the table did not have count=%d", self._found)
        self.walked_to = None
        return False

    def _note_delivery(self, physical_offset: int, origin: int) -> None:
        waiting, stored = read_waiting(self._store.read(origin)), self._store.read(physical_offset)
        if waiting is None or stored is None:
            return  # the waiting message was deleted; the table drops it when it is due
        (record,) = decode_messages(stored, check_crc=False)
        if is_delivery(record, waiting) and self._ledger.end_if_waiting(due_of(waiting)):
            self._found += 1


def _records(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield place and properties of consecutive records."""
    start = 0
    while start < len(data):
        head = read_head(data, start)
        yield head.physical_offset, read_properties(data, head.body_position + head.body_length)
        start += head.total_size
