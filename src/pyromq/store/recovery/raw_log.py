"""Bytes of another store's log, appended to this one: how a copy of a log is made, such as a slave's.

    bytes received → whole records → checked as recovery checks them → the open group → log, queues and index
                       plain ones side by side are a run, which joins as one (lane/copies.py)

Bytes come in pieces of any size. A record joins the log when its last byte is there; until then its first bytes wait in
memory. So the log always ends with a whole record, and a crash leaves nothing to cut off.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final, NamedTuple

from pyromq.errors import CorruptRecord, OffsetOutOfRange, StoreError
from pyromq.lane.copies import Run, run_reader
from pyromq.protocol.messages.record import BLANK_MAGIC, MESSAGE_MAGIC
from pyromq.store.commit_log import BLANK_SIZE
from pyromq.store.read.log_walk import LogWalk
from pyromq.store.recovery.recovery import StoreParts
from pyromq.store.recovery.stored_records import StoredRecords
from pyromq.store.write.appender import Appender

_SIZE_AND_MAGIC: Final = struct.Struct(">iI")
_SHORTEST: Final = 91


class ReceivedBytes:
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


class _Piece(NamedTuple):
    """Whole records side by side, from a place of the log on."""

    start: int
    data: bytes
    run: Run | None
    """What the lane has read of them; None if they go one by one."""


class RawLog:
    """Takes the bytes of another log in its order, and lets whole records join the open group."""

    def __init__(
        self, parts: StoreParts, appender: Appender, delay_levels_ms: tuple[int, ...], commit: Callable[[], None]
    ) -> None:
        """`commit` writes the open group."""
        self._log = parts.log
        self._records = StoredRecords(parts, appender, delay_levels_ms, lambda _: commit())
        self._has_index = parts.message_index.enabled
        self._read_run = run_reader()
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
        try:
            if self._rest:
                self._rest += data
                if self._checked_size(self._rest, 0) > len(self._rest):
                    return
                data = bytes(self._rest)
            pieces, length = self._checked_pieces(data)
            self._join(pieces)
        except StoreError:
            self.forget()
            raise
        self._rest = bytearray(data[length:])
        self._rest_start += length

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

    def _checked_pieces(self, data: bytes) -> tuple[list[_Piece], int]:
        """Return the whole records among the bytes, and how many bytes they have.

        Raises CorruptRecord if some bytes are no records.
        """
        pieces: list[_Piece] = []
        at = others = 0  # where the next record begins, and the first of those before it that are in no run
        while at < len(data):
            run = self._run_at(data, at)
            if run is not None:
                pieces += self._others(data, others, at)
                pieces.append(_Piece(self._rest_start + at, data[at : run[0]], run))
                at = others = run[0]
                continue
            try:
                size = self._checked_size(data, at)
            except CorruptRecord:
                self._others(data, others, at)  # one before it may be damaged too: the first is named
                raise
            if at + size > len(data):
                break
            at += size
        return [*pieces, *self._others(data, others, at)], at

    def _run_at(self, data: bytes, at: int) -> Run | None:
        position = self._rest_start + at
        room = self._log.file_size - position % self._log.file_size - BLANK_SIZE
        return self._read_run(data, at, max(min(len(data), at + room), at), position, self._has_index)

    def _checked_size(self, data: bytes | bytearray, at: int) -> int:
        """Return the size of the record at a place of the bytes, or of its first fields if they are not there yet."""
        if len(data) - at < _SIZE_AND_MAGIC.size:
            return _SIZE_AND_MAGIC.size
        size, magic = _SIZE_AND_MAGIC.unpack_from(data, at)
        position = self._rest_start + at
        room = self._log.file_size - position % self._log.file_size
        is_message = magic == MESSAGE_MAGIC and _SHORTEST <= size <= room - BLANK_SIZE
        if not (is_message or (magic == BLANK_MAGIC and size == room)):
            raise CorruptRecord(f"no record begins at {position} in the bytes received")
        return int(size)

    def _others(self, data: bytes, start: int, stop: int) -> list[_Piece]:
        """Return the records from one place of the bytes to another, which go one by one; nothing if there are none."""
        if start == stop:
            return []
        piece = _Piece(self._rest_start + start, data[start:stop], None)
        walk = self._walk(piece)
        end = piece.start + len(piece.data)
        for _ in walk.records(end):
            pass
        if walk.position != end:
            raise CorruptRecord(f"no sound record at {walk.position} in the bytes received")
        return [piece]

    def _walk(self, piece: _Piece) -> LogWalk:
        return LogWalk(ReceivedBytes(piece.start, piece.data, self._log.file_size), piece.start)

    # --- joining the group

    def _join(self, pieces: list[_Piece]) -> None:
        if pieces and pieces[0].start != self._log.end:
            self._log.begin_at(pieces[0].start)
        for piece in pieces:
            if piece.run is None or not self._records.join_run(piece.run, piece.start, piece.data):
                self._join_each(piece)

    def _join_each(self, piece: _Piece) -> None:
        log, start, data = self._log, piece.start, piece.data
        for record in list(self._walk(piece).records(start + len(data))):
            physical_offset, size = record[:2]
            if log.position < physical_offset:
                log.end_file(data[log.position - start : physical_offset - start])
            self._records.join(record, data[physical_offset - start : physical_offset - start + size])
        if log.position < start + len(data):
            log.end_file(data[log.position - start :])
