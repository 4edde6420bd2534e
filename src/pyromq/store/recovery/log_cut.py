"""Cutting an open store: it then ends earlier, as if what stood behind had never been written.

    plan      find where each queue ends then, and make sure that a record ends there
    note      write position, checkpoint and queue ends first, so that a start after a crash finds no damage
    end       as recovery does at a start: quarantine what is cut off, then let log, index and queues end

The flusher notes the new end between plan and cut. After a crash in between the tail is still there, and whole: the
next start takes it, and the store is as it was before the cut.
"""

from __future__ import annotations

from pyromq.errors import OffsetOutOfRange, StoreError
from pyromq.store.consume_queue import ConsumeQueue, ConsumeQueueEntry
from pyromq.store.flush import Flusher, LogEnd
from pyromq.store.read.log_walk import LogWalk
from pyromq.store.recovery.recovery import StoreParts, end_log
from pyromq.store.small_files.queue_ends import EndsByTopic
from pyromq.store.write.appender import Appender
from pyromq.store.write.visibility import Visibility


class LogCut:
    """One cut of an open store whose records are all flushed; planned when it is made."""

    def __init__(self, parts: StoreParts, end: int, visible: LogEnd) -> None:
        """Plan to let the log end at an offset; raise OffsetOutOfRange or StoreError if no record ends there.

        `visible` is up to where messages are visible, and when the last of them was stored.
        """
        log, queues = parts.log, parts.queues
        if not log.start <= end <= log.end:
            raise OffsetOutOfRange(f"cannot cut the log at {end}: it begins at {log.start} and ends at {log.end}")
        self.end = end
        self.last_timestamp_ms = 0
        """When the last record before the end was stored; 0 if none is left."""
        self._parts = parts
        self._ends: dict[ConsumeQueue, int] = {queue: queue.end_before(end) for queue in queues}
        self._check_boundary(self._last_entry())
        self.visible = min(visible, LogEnd(end, self.last_timestamp_ms))
        """Up to where messages are visible then."""

    def _queue_ends(self) -> EndsByTopic:
        ends: EndsByTopic = {}
        for queue, end in self._ends.items():
            if end:
                ends.setdefault(queue.topic, {})[queue.queue_id] = end
        return ends

    def run(self, flusher: Flusher, appender: Appender, visibility: Visibility) -> None:
        """Cut; raises StoreError or OSError, after which nothing may be written any more."""
        with flusher.held():
            flusher.go_back(LogEnd(self.end, self.last_timestamp_ms), self.visible, self._queue_ends())
            self._cut()
        flusher.checkpoint()
        appender.begin(self.visible.timestamp_ms)
        visibility.go_back(self.end, *self.visible)

    def _cut(self) -> None:
        end_log(self._parts, self.end, visible_end=self.visible.end, sync_from=self.end, is_in_use=True)
        index = self._parts.message_index
        index.flushed_timestamp_ms = min(index.flushed_timestamp_ms, self.visible.timestamp_ms)
        for queue, end in self._ends.items():
            if end < queue.next_offset:
                queue.cut(end)
                queue.find_start(self._parts.log.start)

    def _last_entry(self) -> ConsumeQueueEntry | None:
        """Return the entry of the last queued record that ends before the cut."""
        entries = (queue.entry(end - 1) for queue, end in self._ends.items() if end > queue.min_offset)
        log_start = self._parts.log.start
        kept = (
            entry
            for entry in entries
            if entry.is_message and log_start <= entry.physical_offset <= self.end - entry.size
        )
        return max(kept, default=None, key=lambda entry: entry.physical_offset)

    def _check_boundary(self, last: ConsumeQueueEntry | None) -> None:
        """Walk up to the cut from the nearest place at which a record is known to end."""
        log, fences = self._parts.log, self._parts.fences
        known = max(log.start, log.segments.file_start(self.end))
        if last is not None:
            self.last_timestamp_ms = log.store_timestamp_ms(last.physical_offset) or 0
            known = max(known, last.physical_offset + last.size)
        walk = LogWalk(log.segments, known)
        while walk.position < self.end:
            for record in walk.records(self.end):
                self.last_timestamp_ms = record[5]
            behind_damage = fences.end_at(walk.position)
            if walk.position >= self.end or behind_damage is None:
                break
            walk.position = behind_damage
        if walk.position != self.end:
            raise StoreError(f"cannot cut the log at {self.end}: no record ends there")
