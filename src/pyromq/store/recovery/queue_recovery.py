"""Recovery's passes over the consume queues: which were deleted, which lost something, and where each ends."""

from __future__ import annotations

import logging
from typing import Final, NamedTuple

from pyromq.store.commit_log import CommitLog
from pyromq.store.consume_queue import ENTRY, ENTRY_SIZE, ConsumeQueue, ConsumeQueueEntry
from pyromq.store.queue_table import ConsumeQueues
from pyromq.store.read.record_match import named_record
from pyromq.store.recovery.log_replay import Replay
from pyromq.store.retention.deletions import Deletions
from pyromq.store.segments import is_zero
from pyromq.store.small_files.checkpoint import Position
from pyromq.store.small_files.queue_ends import EndsByTopic

logger = logging.getLogger(__name__)


class QueueRecovery:
    """Brings queues into agreement with the log; `position` and the ends noted with it say how they were left."""

    def __init__(
        self,
        log: CommitLog,
        queues: ConsumeQueues,
        deletions: Deletions,
        position: Position | None,
        noted_ends: EndsByTopic,
    ) -> None:
        self.lost: list[tuple[str, int]] = []
        """Queues that had more entries than are there, after find_lost()."""
        self._log = log
        self._queues = queues
        self._deletions = deletions
        self._position = position
        self._noted_ends = noted_ends
        self._looks: dict[ConsumeQueue, QueueEntries] = {}

    def forget_deleted(self) -> None:
        """Remove the queues of topics that were deleted, and whose directories have come back."""
        for queue in [queue for queue in self._queues if self._deletions.covers(queue.topic, 0)]:
            last = self._look_at(queue).last
            if last.is_message and self._deletions.covers(queue.topic, last.physical_offset):
                self._queues.remove(queue)

    def find_lost(self) -> None:
        """Look which queues end before the end that was noted."""
        self.lost = list(self._queues.unusable)
        if self._position is None:
            return
        for topic, ends in self._noted_ends.items():
            if self._deletions.covers(topic, self._position.dispatched - 1):
                continue
            self.lost += [(topic, queue_id) for queue_id, end in ends.items() if self._has_lost(topic, queue_id, end)]
        for topic, queue_id in self.lost:
            logger.warning("a queue has lost entries and is made anew topic=%s queue=%d", topic, queue_id)

    def furthest_end(self, known_end: int) -> int:
        """Return the end of the furthest record that an entry names, if one names any behind a known end."""
        return max((self._named_end(queue, known_end) for queue in self._queues), default=known_end)

    def settle(self, replay: Replay, start: int) -> None:
        """Let each queue end where the log says, which was walked from `start` on."""
        for queue in self._queues:
            met = replay.range_of(queue)
            if met is not None:
                queue.checked_offset, end = met
                self._end(queue, end, self._looks.get(queue))
                queue.find_start(self._log.start)
            else:
                look = self._look_at(queue)
                queue.checked_offset = end = self._end_of_right_ones(queue, look, start)
                is_as_it_was = self._end(queue, end, look) and queue.max_offset == look.end
                queue.find_start(self._log.start, look.first if is_as_it_was else None)

    # --- looking

    def _look_at(self, queue: ConsumeQueue) -> QueueEntries:
        """Return what a queue's files held when recovery began; they are read once."""
        if queue not in self._looks:
            self._looks[queue] = scan_queue(queue, self._noted_end(queue))
        return self._looks[queue]

    def _noted_end(self, queue: ConsumeQueue) -> int:
        return self._noted_ends.get(queue.topic, {}).get(queue.queue_id, 0)

    def _has_lost(self, topic: str, queue_id: int, end: int) -> bool:
        queue = self._queues.find(topic, queue_id)
        return (topic, queue_id) not in self.lost and (queue is None or self._look_at(queue).end < end)

    def _named_end(self, queue: ConsumeQueue, known_end: int) -> int:
        """Return the end of the last record that a queue names and that is there; at least the known end."""
        first, look = queue.segments.start // ENTRY_SIZE, self._look_at(queue)
        end, entry = look.end, look.last
        while end > first and entry.physical_offset + entry.size > known_end:
            if named_record(self._log, queue, end - 1, entry) is not None:
                return entry.physical_offset + entry.size
            if entry.is_written and not entry.is_message:
                break  # nothing but fillers stands before it
            end -= 1
            entry = queue.entry(end - 1)
        return known_end

    # --- ending

    def _end_of_right_ones(self, queue: ConsumeQueue, look: QueueEntries, start: int) -> int:
        """Return where a queue ends that the walk did not meet: entries that are ahead of the log do not count."""
        first, end, entry = queue.segments.start // ENTRY_SIZE, look.end, look.last
        while end > first and not self._is_right(queue, end - 1, entry, start):
            end -= 1
            entry = queue.entry(end - 1)
        return end

    def _is_right(self, queue: ConsumeQueue, offset: int, entry: ConsumeQueueEntry, start: int) -> bool:
        """Tell whether an entry of a queue that the walk did not meet names a record of the log."""
        end = entry.physical_offset + entry.size
        if not entry.is_message or end > self._log.end:
            return False
        if entry.physical_offset < self._log.start or (self._position is not None and end <= start):
            return True  # expired with its record; or flushed
        return named_record(self._log, queue, offset, entry) is not None

    def _end(self, queue: ConsumeQueue, end: int, look: QueueEntries | None) -> bool:
        """Let a queue end, with nothing behind; return whether there was nothing."""
        had_nothing = look is not None and not look.has_more and look.end <= end
        if had_nothing:
            queue.settle(end)
        else:
            queue.cut(end)
        self._keep_noted_end(queue)
        return had_nothing

    def _keep_noted_end(self, queue: ConsumeQueue) -> None:
        """Never give an offset twice: a queue whose last records are damaged ends where it ended before."""
        if self._position is None or self._deletions.covers(queue.topic, self._position.dispatched - 1):
            return
        end = self._noted_end(queue)
        if queue.max_offset < end:
            queue.extend(end)


_A_PAGE: Final = 204  # entries
_FEW: Final = 16


class QueueEntries(NamedTuple):
    """Where a queue ends, by its files, and its first and last entry."""

    end: int
    first: ConsumeQueueEntry
    last: ConsumeQueueEntry
    has_more: bool
    """Whether there may be something behind the end."""


def scan_queue(queue: ConsumeQueue, likely_end: int) -> QueueEntries:
    """Look at a queue; it is quick if the queue ends near the offset at which it did when that was noted last."""
    return _scan_near(queue, likely_end) or _scan_for_end(queue)


def _scan_near(queue: ConsumeQueue, noted_end: int) -> QueueEntries | None:
    """Look whether a queue ends at most a page behind an offset, in its last file, and with a page of zeros behind."""
    segments = queue.segments
    last_file = max(segments.start, segments.stop - segments.file_size)
    if not last_file < noted_end * ENTRY_SIZE <= segments.stop:
        return None
    first = segments.start // ENTRY_SIZE
    is_short = last_file == segments.start and noted_end - first <= _A_PAGE
    start = first if is_short else noted_end - 1
    data = segments.pread(start * ENTRY_SIZE, (noted_end - start + 2 * _A_PAGE) * ENTRY_SIZE)
    count = _count_entries(data, noted_end - start)
    noted, last = _entry(data, noted_end - start - 1), _entry(data, count - 1)
    if start + count > noted_end + _A_PAGE or not noted.is_written or not last.is_written:
        return None
    first_entry = _entry(data, 0) if start == first else queue.entry(first)
    return QueueEntries(start + count, first_entry, last, segments.has_data(start * ENTRY_SIZE + len(data)))


def _entry(data: bytes, index: int) -> ConsumeQueueEntry:
    return ConsumeQueueEntry(*ENTRY.unpack_from(data, index * ENTRY_SIZE))


def _count_entries(data: bytes, likely: int) -> int:
    """Return how many entries stand before the zeros at the end."""
    if is_zero(data[likely * ENTRY_SIZE :]):
        return likely
    few = data[: (likely + _FEW) * ENTRY_SIZE]
    kept = few if is_zero(data[len(few) :]) else data  # stripping thousands of zeros takes a while
    return -(-len(kept.rstrip(b"\0")) // ENTRY_SIZE)


def _scan_for_end(queue: ConsumeQueue) -> QueueEntries:
    end = queue.find_end()
    return QueueEntries(end, queue.entry(queue.segments.start // ENTRY_SIZE), queue.entry(end - 1), has_more=True)
