"""A damaged stretch of the log, healed with the bytes of a copy of it.

    bytes received → whole records, each at its place → written over the damage, and flushed → queue entries → fence

Only what is fenced is written over. The fence is lifted last: after a crash in between the stretch is still fenced, and
is healed again. Keys are in the index since a message was stored; those that a recovery could not read, because the
damage was there first, are found again after `store repair`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import suppress

from pyromq.errors import CorruptRecord, StoreError
from pyromq.store.consume_queue import ENTRY, ENTRY_SIZE, ConsumeQueue
from pyromq.store.dispatch import is_queued, stored_tags_code
from pyromq.store.files import OsFiles, store_error, write_all
from pyromq.store.read.log_walk import LogWalk, WalkedRecord
from pyromq.store.read.record_match import named_record
from pyromq.store.recovery.log_replay import is_plausible
from pyromq.store.recovery.raw_log import ReceivedBytes
from pyromq.store.recovery.recovery import StoreParts
from pyromq.store.results import Arrival
from pyromq.store.small_files.fences import FencedRange

logger = logging.getLogger(__name__)


class LogHealing:
    """Mends the fenced parts of an open store's log; called by the loop's thread."""

    def __init__(self, parts: StoreParts, files: OsFiles, delay_levels_ms: tuple[int, ...]) -> None:
        self._log, self._queues, _, self._deletions, self._fences, _ = parts
        self._files = files
        self._delay_levels_ms = delay_levels_ms

    def ranges(self) -> list[FencedRange]:
        """Return what is fenced, of the log as it is now."""
        start, end = self._log.start, self._log.end
        return [fence for fence in self._fences.ranges() if start <= fence.start and fence.end <= end]

    def heal(self, start: int, data: bytes) -> tuple[int, list[Arrival]]:
        """Take bytes of a copy of the log, from the beginning of a fence on, as far as they are whole records.

        Returns where the fence begins now (at `start` if no whole record was among them), and messages that have become
        visible at the end of their queues. Durable on return. Raises CorruptRecord for bytes that do not fit, with
        nothing changed, or StoreError: the fence then stays.
        """
        fence = next((fence for fence in self.ranges() if fence.start == start), None)
        if fence is None:
            raise StoreError(f"nothing is fenced at {start}")
        walk = LogWalk(ReceivedBytes(start, data, self._log.file_size), start)
        records = list(walk.records(fence.end))
        end = walk.position
        if end > fence.end or (end == start and len(data) >= fence.end - start):
            raise CorruptRecord(f"the bytes received for {start} to {fence.end} are no records that fit there")
        if end == start:
            return start, []
        try:
            self._write(start, data[: end - start].ljust(end - start, b"\0"))  # a blank record is mostly zeros
            arrivals = [*self._give_entries(records)]
            self._fences.lift(start, end)
            self._fences.save()
        except OSError as error:
            raise store_error("heal", self._log.segments.directory, error) from error
        return end, arrivals

    def _write(self, start: int, data: bytes) -> None:
        """Write bytes over the damage, durably; they may go on in the next file."""
        segments = self._log.segments
        while data:
            file_start = segments.file_start(start)
            room = file_start + segments.file_size - start
            descriptor = self._files.open(segments.path(file_start))
            try:
                write_all(self._files, descriptor, data[:room], start - file_start)
                self._files.fdatasync(descriptor)
            finally:
                self._files.close(descriptor)
            start, data = start + room, data[room:]

    # --- queues

    def _give_entries(self, records: list[WalkedRecord]) -> Iterator[Arrival]:
        changed: dict[ConsumeQueue, int] = {}
        for record in records:
            queue = self._queue_of(record)
            if queue is None:
                continue
            physical_offset, size, _, offset, _, stored_ms, _, properties = record
            code = stored_tags_code(queue.topic, properties, stored_ms, self._delay_levels_ms)
            entry = ENTRY.pack(physical_offset, size, code)
            if offset == queue.max_offset == queue.next_offset:
                queue.make_room(1)
                queue.next_offset += 1
                queue.append([entry])
                yield Arrival(queue.topic, queue.queue_id, offset, code)
            elif not self._may_rewrite(queue, offset, entry):
                continue
            else:
                queue.rewrite(offset, entry)
            changed.setdefault(queue, offset)
        for queue, offset in changed.items():
            queue.segments.sync(offset * ENTRY_SIZE)
            queue.find_start(self._log.start)

    def _queue_of(self, record: WalkedRecord) -> ConsumeQueue | None:
        physical_offset, _, queue_id, queue_offset, sys_flag, _, topic, _ = record
        name = topic.decode("utf-8", "replace")
        if not is_queued(sys_flag) or self._deletions.covers(name, physical_offset):
            return None
        with suppress(StoreError):
            queue = self._queues.get(name, queue_id)
            if is_plausible(queue_offset, physical_offset) and queue_offset * ENTRY_SIZE >= queue.segments.start:
                return queue
        return None

    def _may_rewrite(self, queue: ConsumeQueue, offset: int, entry: bytes) -> bool:
        """Return True if an entry is missing, or names no record: it then stood for the one that is healed now."""
        if offset >= queue.max_offset:
            logger.warning(
                "a healed message gets no place in its queue, which ends before topic=%s queue=%d offset=%d end=%d",
                *(queue.topic, queue.queue_id, offset, queue.max_offset),
            )
            return False
        found = queue.entry(offset)
        if ENTRY.pack(*found) == entry:
            return False
        if named_record(self._log, queue, offset, found) is None:
            return True
        logger.warning(
            "a healed message gets no place in its queue, where another one is topic=%s queue=%d offset=%d",
            *(queue.topic, queue.queue_id, offset),
        )
        return False
