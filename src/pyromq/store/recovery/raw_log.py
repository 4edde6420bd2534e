"""Bytes of another store's log, appended to this one: how a copy of a log is made, such as a slave's.

    bytes received → whole records → checked as recovery checks them → the open group → log, queues and index

Bytes come in pieces of any size. A record joins the log when its last byte is there; until then its first bytes wait in
memory. So the log always ends with a whole record, and a crash leaves nothing to cut off. Records say themselves at
which offset of which queue they stand. Usually that is the queue's next one; where it is not, recovery's rules decide.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable
from typing import Final

from pyromq.errors import CorruptRecord, OffsetOutOfRange, StoreError
from pyromq.protocol.messages.record import BLANK_MAGIC, MESSAGE_MAGIC
from pyromq.store.appender import Appender
from pyromq.store.commit_log import BLANK_SIZE
from pyromq.store.consume_queue import ENTRY, ConsumeQueue
from pyromq.store.dispatch import is_indexed, is_queued, stored_tags_code
from pyromq.store.read.log_walk import LogWalk, WalkedRecord
from pyromq.store.recovery.log_replay import is_elsewhere, is_plausible
from pyromq.store.recovery.recovery import StoreParts
from pyromq.store.results import Arrival

logger = logging.getLogger(__name__)

_SIZE_AND_MAGIC: Final = struct.Struct(">iI")
_SHORTEST: Final = 91


class _ReceivedBytes:
    """Bytes of a log in memory, for LogWalk."""

    def __init__(self, start: int, data: bytes, file_size: int) -> None:
        self.start = start
        self.stop = start + len(data)
        self.file_size = file_size
        self._data = data

    def file_start(self, position: int) -> int:
        return position - position % self.file_size

    def pread(self, position: int, length: int) -> bytes:
        at = position - self.start
        return self._data[at : at + min(length, self.file_start(position) + self.file_size - position)]


class RawLog:
    """Takes the bytes of another log in its order, and lets whole records join the open group."""

    def __init__(
        self, parts: StoreParts, appender: Appender, delay_levels_ms: tuple[int, ...], finish: Callable[[], None]
    ) -> None:
        """`finish` writes the open group and makes all that was written visible."""
        self._log, self._queues, _, self._deletions, self._fences, _ = parts
        self._appender = appender
        self._delay_levels_ms = delay_levels_ms
        self._finish = finish
        self._rest = bytearray()  # the first bytes of a record that is not whole yet
        self._rest_start = 0
        self._rest_follows = 0  # where the log ended then: if it ends elsewhere now, the rest belongs nowhere

    @property
    def offset(self) -> int:
        """The place in the log at which the next bytes must begin."""
        has_rest = self._rest and self._rest_follows == self._log.end
        return self._rest_start + len(self._rest) if has_rest else self._log.end

    def forget(self) -> None:
        """Drop the bytes of a record that is not whole yet."""
        self._rest.clear()

    def append(self, physical_offset: int, data: bytes) -> None:
        """Take the bytes that stand at an offset of the other log; records that are whole now join the open group.

        Raises OffsetOutOfRange for a gap or an overlap, CorruptRecord for bytes that are no records: nothing has
        changed then. Raises DiskFull or StoreError when a record finds no room; those before it have joined.
        """
        self._check_place(physical_offset)
        self._rest += data
        try:
            whole = bytes(self._rest[: self._whole_length()])
            if whole:
                self._join(self._checked_records(whole), self._rest_start, whole)
        except StoreError:
            self.forget()
            raise
        del self._rest[: len(whole)]
        self._rest_start += len(whole)

    def written(self) -> None:
        """Note that the open group was written: what waits here follows it."""
        self._rest_follows = self._log.end

    def _check_place(self, physical_offset: int) -> None:
        log, expected = self._log, self.offset
        may_begin = log.segments.start == log.segments.stop and expected == log.end
        if may_begin and physical_offset % log.file_size == 0:
            expected = physical_offset
        if physical_offset != expected:
            what = "a gap" if physical_offset > expected else "an overlap"
            hint = f" and may begin with any file of {log.file_size} bytes" if may_begin else ""
            raise OffsetOutOfRange(f"{what}: bytes from {physical_offset} on, but the log ends at {expected}{hint}")
        if expected != self._rest_start + len(self._rest) or self._rest_follows != log.end:
            self._rest.clear()
            self._rest_start = physical_offset
            self._rest_follows = log.end

    # --- checking

    def _whole_length(self) -> int:
        """Return how many of the bytes received are whole records; raise CorruptRecord if one is none."""
        at, length = 0, len(self._rest)
        while length - at >= _SIZE_AND_MAGIC.size:
            size = self._checked_size(at)
            if at + size > length:
                break
            at += size
        return at

    def _checked_size(self, at: int) -> int:
        size, magic = _SIZE_AND_MAGIC.unpack_from(self._rest, at)
        position = self._rest_start + at
        room = self._log.file_size - position % self._log.file_size
        is_message = magic == MESSAGE_MAGIC and _SHORTEST <= size <= room - BLANK_SIZE
        if not (is_message or (magic == BLANK_MAGIC and size == room)):
            raise CorruptRecord(f"no record begins at {position} in the bytes received")
        return int(size)

    def _checked_records(self, data: bytes) -> list[WalkedRecord]:
        walk = LogWalk(_ReceivedBytes(self._rest_start, data, self._log.file_size), self._rest_start)
        end = self._rest_start + len(data)
        records = list(walk.records(end))
        if walk.position != end:
            raise CorruptRecord(f"no sound record at {walk.position} in the bytes received")
        return records

    # --- joining the group

    def _join(self, records: list[WalkedRecord], start: int, data: bytes) -> None:
        log = self._log
        if start != log.end:
            log.begin_at(start)
        for record in records:
            physical_offset, size = record[:2]
            if log.position < physical_offset:
                log.end_file(data[log.position - start : physical_offset - start])
            self._join_record(record, data[physical_offset - start : physical_offset - start + size])
        if log.position < start + len(data):
            log.end_file(data[log.position - start :])

    def _join_record(self, record: WalkedRecord, data: bytes) -> None:
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

    def _join_out_of_order(self, record: WalkedRecord, data: bytes, queue: ConsumeQueue) -> None:
        """Take a record whose offset does not follow, by recovery's rules: after damage, or in a topic made again."""
        physical_offset, size, _, queue_offset, _, stored_ms, _, properties = record
        self._finish()  # what came before must be in the queue's file
        is_wrong = not is_plausible(queue_offset, physical_offset) or 0 < queue_offset < queue.next_offset
        if is_wrong or is_elsewhere(queue, record):
            self._appender.join_stored(record, data, None, has_keys=False)
            self._finish()
            segments = self._log.segments
            path = segments.path(segments.file_start(physical_offset))
            self._fences.add(physical_offset, physical_offset + size, path)
            self._fences.save()
            return
        logger.warning(
            "queue offsets are not contiguous topic=%s queue=%d expected=%d found=%d",
            queue.topic, queue.queue_id, queue.next_offset, queue_offset,
        )  # fmt: skip
        code = stored_tags_code(queue.topic, properties, stored_ms, self._delay_levels_ms)
        self._appender.join_stored(record, data, None, has_keys=True)
        group = self._appender.group
        group.arrivals.append(Arrival(queue.topic, queue.queue_id, queue_offset, code))
        group.restore = lambda: self._restore(queue, queue_offset, ENTRY.pack(physical_offset, size, code))
        self._finish()

    def _restore(self, queue: ConsumeQueue, queue_offset: int, entry: bytes) -> None:
        queue.restore(queue_offset, entry)
        queue.cut(queue_offset + 1)
        queue.checked_offset = queue_offset  # entries that fill a gap name no record of theirs: reads have to check
        queue.find_start(self._log.start)
