"""Records of a log, its own or another's, on their way to queues and index: each says itself where it belongs.

Usually that is the next offset of its queue. Where it is not, recovery's rules decide: after damage, or in a topic made
again, the record gets its entry at the offset that it names, once everything before it is visible.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from pyromq.errors import StoreError
from pyromq.lane.copies import Run
from pyromq.store.consume_queue import ENTRY, ConsumeQueue
from pyromq.store.dispatch import WriteGroup, is_indexed, is_queued, stored_tags_code
from pyromq.store.read.log_walk import WalkedRecord, walk_log
from pyromq.store.recovery.log_replay import is_elsewhere, is_plausible
from pyromq.store.recovery.recovery import StoreParts
from pyromq.store.results import Arrival
from pyromq.store.write.appender import Appender

logger = logging.getLogger(__name__)

_GROUP: Final = 1024  # records of the log's own tail that become visible by one call


class StoredRecords:
    """Lets records join the open group at the places that they name."""

    def __init__(
        self, parts: StoreParts, appender: Appender, delay_levels_ms: tuple[int, ...], finish: Callable[[int], None]
    ) -> None:
        """`finish` ends the open group at a place in the log."""
        self._log, self._queues, _, self._deletions, self._fences, _ = parts
        self._appender = appender
        self._delay_levels_ms = delay_levels_ms
        self._finish = finish

    def join(self, record: WalkedRecord, data: bytes | None) -> None:
        """Let a record join; `data` are its bytes, None if the log has them. Raises DiskFull or another StoreError."""
        sys_flag, queue_offset = record[4], record[3]
        if not is_queued(sys_flag):
            self._appender.join_stored(record, data, None, has_keys=is_indexed(sys_flag))
            return
        queue = self._queue_of(record)
        if queue is None:
            self._appender.join_stored(record, data, None, has_keys=False)
        elif queue_offset == queue.next_offset:
            self._appender.join_stored(record, data, queue, has_keys=True)
        else:
            self._join_out_of_order(record, data, queue)

    def join_run(self, run: Run, start: int, data: bytes) -> bool:
        """Let the records of a run, which begins at a place of the log, join as one; `data` are their bytes.

        Returns False, with nothing changed, if they have to join one by one: a queue is new, does not end where they
        begin, or was deleted; or there is not room for all.
        """
        _, last_ms, by_queue, keys = run
        found: list[tuple[ConsumeQueue, list[bytes]]] = []
        for topic, queue_id, first, entries in by_queue:
            queue = self._queues.find(topic, queue_id)
            if queue is None or queue.next_offset != first or self._deletions.covers(topic, start):
                return False
            found.append((queue, entries))
        try:
            self._appender.join_run(data, found, keys, last_ms)
        except StoreError:
            return False
        return True

    def _queue_of(self, record: WalkedRecord) -> ConsumeQueue | None:
        """Return the queue of a record, from that record on if it has no entry yet; None if the record gets none."""
        physical_offset, _, queue_id, queue_offset, _, _, topic, _ = record
        name = topic.decode("utf-8", "replace")
        if self._deletions.covers(name, physical_offset):
            return None
        try:
            queue = self._queues.get(name, queue_id)
        except StoreError as error:
            logger.warning("no queue for a record physical_offset=%d: %s", physical_offset, error)
            return None
        is_new = queue.next_offset == 0 and queue.segments.start == queue.segments.stop
        if is_new and queue_offset > 0 and is_plausible(queue_offset, physical_offset):
            queue.extend(queue_offset)  # the log from which this one is copied has lost the records before
            queue.find_start(self._log.start)
        return queue

    def _join_out_of_order(self, record: WalkedRecord, data: bytes | None, queue: ConsumeQueue) -> None:
        """Take a record whose offset does not follow, in a group of its own."""
        physical_offset, size, _, queue_offset, _, stored_ms, _, properties = record
        end = physical_offset + size
        self._finish(physical_offset)
        is_wrong = not is_plausible(queue_offset, physical_offset) or 0 < queue_offset < queue.next_offset
        if is_wrong or is_elsewhere(queue, record):
            self._appender.join_stored(record, data, None, has_keys=False)
            self._finish(end)
            segments = self._log.segments
            self._fences.add(physical_offset, end, segments.path(segments.file_start(physical_offset)))
            self._fences.save()
            return
        logger.warning(
            "queue offsets are not contiguous topic=%s queue=%d expected=%d found=%d",
            queue.topic, queue.queue_id, queue.next_offset, queue_offset,
        )  # fmt: skip
        code = stored_tags_code(queue.topic, properties, stored_ms, self._delay_levels_ms)
        self._appender.join_stored(record, data, None, has_keys=True)
        group = self._appender.group
        group.restored.append(Arrival(queue.topic, queue.queue_id, queue_offset, code))
        group.restore = lambda: self._restore(queue, queue_offset, ENTRY.pack(physical_offset, size, code))
        queue.next_offset = queue_offset + 1
        self._finish(end)

    def _restore(self, queue: ConsumeQueue, queue_offset: int, entry: bytes) -> None:
        if queue.is_removed:
            return
        next_offset = queue.next_offset  # others may wait behind it
        queue.restore(queue_offset, entry)
        queue.cut(queue_offset + 1)
        queue.checked_offset = queue_offset  # entries that fill a gap name no record of theirs: reads have to check
        queue.find_start(self._log.start)
        queue.next_offset = next_offset
        queue.make_room(0)


def unseen_groups(
    parts: StoreParts, appender: Appender, delay_levels_ms: tuple[int, ...], start: int
) -> list[WriteGroup]:
    """Return what the log has from a place on, as groups that wait to be seen; their offsets are taken.

    Raises StoreError or OSError.
    """
    groups: list[WriteGroup] = []

    def finish(end: int) -> None:
        begin = groups[-1].end if groups else start
        if begin < end:
            groups.append(appender.take_stored(begin, end))

    records = StoredRecords(parts, appender, delay_levels_ms, finish)
    for number, record in enumerate(walk_log(parts.log, start), 1):
        if parts.fences.end_at(record[0]) is None:
            records.join(record, None)
        if number % _GROUP == 0:
            finish(record[0] + record[1])
    finish(parts.log.end)
    return groups
