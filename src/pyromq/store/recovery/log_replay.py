"""Recovery's way from the log to queues and index: a record gets its entry where that is missing or differs."""

from __future__ import annotations

import logging
from typing import Final

from pyromq.errors import StoreError
from pyromq.protocol.messages.record import SMALLEST_RECORD, TRANSACTION_MASK
from pyromq.store.consume_queue import ENTRY, ENTRY_SIZE, ConsumeQueue
from pyromq.store.dispatch import is_indexed, is_queued, stored_tags_code
from pyromq.store.index.message_index import MessageIndex
from pyromq.store.queue_table import ConsumeQueues
from pyromq.store.read.log_walk import WalkedRecord
from pyromq.store.retention.deletions import Deletions
from pyromq.store.small_files.fences import Fences

logger = logging.getLogger(__name__)

_MAX_BUFFERED: Final = 4 << 20
_MAY_BE_MOVED: Final = 100_000


class _ReplayedQueue:
    """A queue that was met in the log, and the entries that wait to be compared with its own."""

    __slots__ = ("entries", "first_offset", "last_physical", "last_timestamp_ms", "next_offset", "queue", "run_offset")

    def __init__(self, queue: ConsumeQueue, offset: int) -> None:
        self.queue = queue
        self.first_offset = self.next_offset = self.run_offset = offset
        self.entries: list[bytes] = []
        self.last_physical = self.last_timestamp_ms = 0

    def write(self) -> None:
        if self.entries:
            self.queue.restore(self.run_offset, b"".join(self.entries))
        self.entries = []
        self.run_offset = self.next_offset


class Replay:
    """Takes the records of a log, in its order."""

    def __init__(
        self,
        queues: ConsumeQueues,
        index: MessageIndex,
        deletions: Deletions,
        fences: Fences,
        delay_levels_ms: tuple[int, ...],
        *,
        is_whole: bool,
    ) -> None:
        """`is_whole` if all of the log comes: what a queue has before the first record that is met has expired."""
        self.records = 0
        self.last_timestamp_ms = 0
        self.rejected: list[tuple[int, int]] = []
        """Where records begin and end that are in no queue's order: damaged where no checksum covers them."""
        self._queues = queues
        self._index = index
        self._deletions = deletions
        self._fences = fences
        self._levels_ms = delay_levels_ms
        self._met: dict[tuple[bytes, int], _ReplayedQueue] = {}
        self._is_whole = is_whole
        self._buffered = 0

    def add(self, record: WalkedRecord) -> None:
        """Meet one record."""
        physical, size, queue_id, queue_offset, sys_flag, stored_ms, topic, properties = record
        self.records += 1
        self.last_timestamp_ms = stored_ms
        if self._fences and self._fences.end_at(physical) is not None:
            return  # sound but for what no checksum covers: its place is fenced
        if sys_flag & TRANSACTION_MASK and not is_queued(sys_flag):
            if is_indexed(sys_flag):
                self._index.replay(topic.decode("utf-8", "replace"), properties, physical, stored_ms)
            return
        met = self._met.get((topic, queue_id)) or self._meet(record)
        if met is None or (queue_offset != met.next_offset and not self._jumps(met, record)):
            return
        name = met.queue.topic
        met.entries.append(ENTRY.pack(physical, size, stored_tags_code(name, properties, stored_ms, self._levels_ms)))
        met.next_offset = queue_offset + 1
        met.last_physical = physical
        met.last_timestamp_ms = stored_ms
        self._index.replay(name, properties, physical, stored_ms)
        self._buffered += ENTRY_SIZE
        if self._buffered >= _MAX_BUFFERED:
            self.write()

    def write(self) -> None:
        """Write what was gathered."""
        for met in self._met.values():
            met.write()
        self._buffered = 0

    def range_of(self, queue: ConsumeQueue) -> tuple[int, int] | None:
        """Return the first offset at which a queue was met, and where it ends now; None if it was not met."""
        met = self._met.get((queue.topic_name, queue.queue_id))
        return (met.first_offset, met.next_offset) if met else None

    def topics_since(self, physical_offset: int, timestamp_ms: int) -> dict[str, int]:
        """Return the topics met from an offset on and later than a time, each with the queues it needs at least."""
        found: dict[str, int] = {}
        for met in self._met.values():
            if met.last_physical >= physical_offset and met.last_timestamp_ms > timestamp_ms:
                found[met.queue.topic] = max(found.get(met.queue.topic, 0), met.queue.queue_id + 1)
        return found

    # --- the rarer cases

    def _meet(self, record: WalkedRecord) -> _ReplayedQueue | None:
        """Begin with the queue of a record; None if that gets no entry."""
        physical, _, queue_id, queue_offset, _, _, topic, _ = record
        name = topic.decode("utf-8", "replace")
        if self._deletions.covers(name, physical):
            return None
        if not is_plausible(queue_offset, physical):
            self._reject(record)
            return None
        try:
            queue = self._queues.get(name, queue_id)
        except StoreError as error:
            logger.warning("no queue for a record physical_offset=%d: %s", physical, error)
            return None
        if is_elsewhere(queue, record):
            self._reject(record)
            return None
        if self._is_whole:
            queue.fill_front(queue_offset)
        met = self._met[topic, queue_id] = _ReplayedQueue(queue, queue_offset)
        return met

    def _jumps(self, met: _ReplayedQueue, record: WalkedRecord) -> bool:
        """Tell whether a record may have an offset that does not follow: after damage, or in a topic made again."""
        physical, _, _, queue_offset, *_ = record
        is_wrong = not is_plausible(queue_offset, physical) or 0 < queue_offset < met.next_offset
        if is_wrong or is_elsewhere(met.queue, record):
            self._reject(record)
            return False
        logger.warning(
            "queue offsets are not contiguous topic=%s queue=%d expected=%d found=%d",
            met.queue.topic, met.queue.queue_id, met.next_offset, queue_offset,
        )  # fmt: skip
        met.write()
        met.run_offset = met.next_offset = queue_offset
        met.first_offset = min(met.first_offset, queue_offset)
        return True

    def _reject(self, record: WalkedRecord) -> None:
        self.rejected.append((record[0], record[0] + record[1]))


def is_elsewhere(queue: ConsumeQueue, record: WalkedRecord) -> bool:
    """Tell whether its queue has a record at another offset than it says: then the record is damaged."""
    physical, _, _, queue_offset, *_ = record
    if queue.entry(queue_offset).physical_offset == physical:
        return False
    return queue.find_offset(physical) is not None


def is_plausible(queue_offset: int, physical_offset: int) -> bool:
    """Tell whether so many records of a queue can stand before a place in the log, or in one that was moved here."""
    return 0 <= queue_offset <= physical_offset // SMALLEST_RECORD + _MAY_BE_MOVED
