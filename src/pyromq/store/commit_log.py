"""The commit log: the records of all topics, one after the other, in files of one size.

A record never crosses files. When the next one does not fit with 8 bytes to spare, a blank record closes the file
and the log goes on in a new one. Records join an open group first; write() puts the group into the file with one
pwrite (one more for each roll). Disk space is reserved before a record joins, so a full disk refuses the record
instead of breaking the write. Where every group is flushed before its senders hear of it, zeros are written behind the
end in advance: a flush is then one write to the disk. Without them it is two, for the file system has to note, durably,
that space which was only reserved holds bytes now.

Bytes that are in memory are read through a map, which is the fastest way: the newest of those that were written since
the log was opened, and others of which the system says so. The rest is read by `pread`: a page fault in a map would
stop every thread until the disk has answered.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

from pyromq.errors import MalformedHeader, StoreError
from pyromq.lane.pull_serving import LogPlace
from pyromq.protocol.messages.properties import MAX_PROPERTIES_LENGTH
from pyromq.protocol.messages.record import (
    MAX_HEAD_SIZE,
    MESSAGE_MAGIC,
    RecordCheck,
    RecordStatus,
    blank_record,
    check_record,
    read_head,
)
from pyromq.store.files import OsFiles, disk_usage, store_error, write_all
from pyromq.store.read.disk.residency import Residency
from pyromq.store.segments import SegmentedFile

logger = logging.getLogger(__name__)

BLANK_SIZE: Final = 8

_PREPARED_GROUPS: Final = 8  # at least so many must fit into what is prepared: else it costs more than it saves
_PAGE: Final = 4096
_FIRST_READ: Final = 4096
_MAX_WITHOUT_BODY: Final = MAX_HEAD_SIZE + 1 + 127 + 2 + MAX_PROPERTIES_LENGTH
_NO_RECORD: Final = RecordCheck(RecordStatus.DAMAGED, -1)


class LogFile(NamedTuple):
    """A file of the log that is open for writing, until it is left and flushed.

    Only a descriptor that was open all the time is sure to report an error of the kernel's own writing.
    """

    start: int
    descriptor: int


Stretch: TypeAlias = tuple[int, int, int, memoryview]
"""Bytes from a position up to another that are in memory; where the file begins that holds them, and all of it."""


class WrittenFiles(NamedTuple):
    """Which files a group was written to, and which of them the log has left: whoever flushes these closes them."""

    files: list[LogFile]
    left: list[LogFile]


class _FilePart:
    """The part of a group that goes into one file."""

    __slots__ = ("file", "parts", "position")

    def __init__(self, file: LogFile, position: int) -> None:
        self.file = file
        self.position = position
        self.parts: list[bytes] = []


class CommitLog:
    """Append, read and roll; `end` is what was written, `position` counts the open group too."""

    def __init__(
        self,
        segments: SegmentedFile,
        files: OsFiles,
        *,
        reserve_step: int,
        max_maps: int,
        mapped_tail: int,
        prepared_bytes: int = 0,
    ) -> None:
        """`mapped_tail` is how many of the newest bytes are taken to be in memory.

        `prepared_bytes` is how many zeros are written ahead of small groups, at a time.
        """
        self.segments = segments
        self.end = self.position = 0
        self.mapped_from = 0
        """From here on bytes are taken to be in memory."""
        self._residency = Residency(segments, files.pages_taken)
        self._opened_at = 0
        self._mapped_tail = mapped_tail
        self._files = files
        self._reserve_step = reserve_step
        self.reserved = 0
        """Up to here the disk has space for us, room for the record that closes the file included."""
        self._zeros = bytes(prepared_bytes)
        self._prepared = 0
        self._current: LogFile | None = None
        self._runs: list[_FilePart] = []
        self.parts: list[bytes] = []
        """The open group as far as it goes into the current file; the lane lets records join here."""
        self._max_maps = max_maps
        self._maps: OrderedDict[int, memoryview] = OrderedDict()
        self.place: LogPlace | None = None
        """A stretch that plain pulls have found, for the next ones; it goes with any of the maps."""

    @property
    def start(self) -> int:
        """The first byte that is still there."""
        return self.segments.start

    @property
    def file_size(self) -> int:
        """Bytes of each file."""
        return self.segments.file_size

    # --- writing

    def settle(self, end: int) -> None:
        """Begin to write at the end that recovery found."""
        self.end = self.position = self.reserved = self._opened_at = self.mapped_from = self._prepared = end
        self._residency.settle(end)
        if self.start <= end < self.segments.stop:
            self._current = self._open(self.segments.file_start(end))
            self._begin_run(self._current)

    def begin_at(self, start: int) -> None:
        """Let a log without files begin at the start of a file other than the first."""
        self.segments.start = self.segments.stop = start
        self.settle(start)

    def make_room(self, size: int) -> None:
        """See to it that a record of this size can follow, in a new file if need be.

        Raises DiskFull or StoreError if there is no space; the log is then as before and may be tried again.
        """
        if self.position + size > self.reserved - BLANK_SIZE:
            self._find_room(size)

    def _find_room(self, size: int) -> None:
        if self._current is None:
            self._start_file(size)
        elif size + BLANK_SIZE > self._current.start + self.file_size - self.position:
            self._roll(self._current, size)
        if self.position + size > self.reserved - BLANK_SIZE:
            self._reserve(self.position + size + BLANK_SIZE)

    def append(self, parts: tuple[bytes, ...], size: int) -> None:
        """Let a record join the open group at `position`; room was made before."""
        self.parts += parts
        self.position += size

    def end_file(self, blank: bytes) -> None:
        """Let the blank record that fills the rest of the file join the open group, as another log has it.

        Raises DiskFull or StoreError if there is no space; the log is then as before and may be tried again.
        """
        blank = blank.rstrip(b"\0")  # the file reads as zeros there
        if self.position + len(blank) > self.reserved:
            self._reserve(self.position + len(blank))
        self.parts.append(blank)
        self.position = self.segments.file_start(self.position) + self.file_size
        self._current = None
        self.parts = []

    def write(self) -> WrittenFiles:
        """Write the open group; after an OSError nothing may be written any more."""
        if len(self._runs) == 1 and self._current is not None and self.parts:
            return self._write_one(self._runs[0])
        runs = [run for run in self._runs if run.parts]
        for run in runs:
            write_all(self._files, run.file.descriptor, b"".join(run.parts), run.position - run.file.start)
        self.end = self.position
        self.mapped_from = max(self._opened_at, self.end - self._mapped_tail)
        self._runs.clear()
        if self._current is not None:
            self._begin_run(self._current)
        files = [run.file for run in runs]
        return WrittenFiles(files, [file for file in files if file is not self._current])

    def _write_one(self, run: _FilePart) -> WrittenFiles:
        """Write a group that goes into the current file, as nearly all do, and begin the next in the same place."""
        write_all(self._files, run.file.descriptor, b"".join(run.parts), run.position - run.file.start)
        if self._zeros and self.position > self._prepared:
            self._prepare(run.file, self.position - run.position)
        self.end = run.position = self.position
        self.mapped_from = max(self._opened_at, self.end - self._mapped_tail)
        run.parts.clear()
        return WrittenFiles([run.file], [])

    def _prepare(self, file: LogFile, group_size: int) -> None:
        """Write zeros behind a group, up to the end of a page, unless groups are large."""
        position = self.position
        end = min(position + len(self._zeros), self.reserved)
        end -= (end - file.start) % _PAGE
        if group_size * _PREPARED_GROUPS > end - position:
            return
        try:
            write_all(self._files, file.descriptor, self._zeros[: end - position], position - file.start)
        except OSError as error:
            logger.warning("space is not prepared ahead of the log any more, so flushes take longer: %s", error)
            self._zeros = b""
            return
        self._prepared = end

    def drop_group(self) -> None:
        """Forget the open group, when nothing may be written any more."""
        self.position = self.end

    def _start_file(self, size: int) -> None:
        start = self.segments.stop
        reserved = min(self._step(size + BLANK_SIZE), self.file_size)
        self.segments.add(reserved)
        try:
            self._current = self._open(start)
        except StoreError:
            self.segments.cut(start)
            raise
        self.position = start
        self.reserved = start + reserved
        self._begin_run(self._current)

    def _step(self, needed: int) -> int:
        """Return how much to reserve: of a nearly full disk only what is needed, for others need the rest."""
        try:
            usable = disk_usage(self._files, self.segments.directory).usable
        except OSError:
            return needed
        return max(needed, self._reserve_step) if usable > 2 * self._reserve_step else needed

    def _roll(self, full: LogFile, size: int) -> None:
        if self.position + BLANK_SIZE > self.reserved:  # the first record after a start finds no room
            self._reserve(self.position + BLANK_SIZE)
        blank = blank_record(full.start + self.file_size - self.position)
        parts = self.parts
        self._start_file(size)  # raises before anything has changed
        parts.append(blank)

    def _open(self, start: int) -> LogFile:
        path = self.segments.path(start)
        try:
            return LogFile(start, self._files.open(path))
        except OSError as error:
            raise store_error("open", path, error) from error

    def _begin_run(self, file: LogFile) -> None:
        run = _FilePart(file, self.position)
        self._runs.append(run)
        self.parts = run.parts

    def _reserve(self, needed: int) -> None:
        file_end = self.segments.file_start(self.position) + self.file_size
        target = min(self.reserved + self._step(needed - self.reserved), file_end)
        self.segments.reserve(self.reserved, target - self.reserved)
        self.reserved = target

    # --- reading

    def view(self, position: int, length: int) -> bytes | memoryview:
        """Return bytes of one file, without copying them where they are known to be in memory."""
        runs = ((position, position + length),)
        mapped = self._mapped(runs)
        return self.segments.pread(position, length) if mapped is None else mapped[0]

    def views(self, runs: Sequence[Sequence[int]]) -> list[bytes | bytearray | memoryview]:
        """Return runs of bytes, each from one position up to another in the same file, in any number of pieces."""
        mapped = self._mapped(runs)
        return [*self.segments.pread_runs(runs)] if mapped is None else [*mapped]

    def _mapped(self, runs: Sequence[Sequence[int]]) -> list[memoryview] | None:
        """Return runs of bytes from the maps; None if they are not known to be in memory."""
        found = self._known_runs(runs)
        return self._known_runs(runs) if found is None and self._residency.covers(runs, self.end) else found

    def _known_runs(self, runs: Sequence[Sequence[int]]) -> list[memoryview] | None:
        # A pull's inner loop: a run costs one comparison as long as it lies in the stretch of the one before.
        found: list[memoryview] = []
        low = high = start = 0
        whole = memoryview(b"")
        for first, last in runs:
            if first < low or last > high:
                start = first - first % self.segments.file_size
                if first >= self.mapped_from:
                    low, high = self.mapped_from, self.end
                else:
                    low, high = self._residency.known(first, last, self.mapped_from, self.end)
                if not low < high:
                    return None
                low, high = max(low, start), min(high, start + self.segments.file_size)
                whole = self._whole(start)
            found.append(whole[first - start : last - start])
        return found

    def stretch(self, first: int, last: int) -> Stretch | None:
        """Return what is known to be in memory around bytes from one position up to another; None if nothing is."""
        segments = self.segments
        if not segments.start <= first < last <= self.end:
            return None
        low, high = self.mapped_from, self.end
        if first < low:
            low, high = self._residency.known(first, last, low, high)
        start = first - first % segments.file_size
        stop = start + segments.file_size
        low = low if low > start else start
        high = high if high < stop else stop
        return (low, high, start, self._whole(start)) if low <= first and last <= high else None

    def pread(self, position: int, length: int) -> bytes:
        """Return bytes of one file by a call that lets other threads run while the disk is read."""
        return self.segments.pread(position, length)

    def _whole(self, start: int) -> memoryview:
        whole = self._maps.get(start)
        if whole is None:
            return self._map(start)
        self._maps.move_to_end(start)
        return whole

    def _map(self, start: int) -> memoryview:
        path = self.segments.path(start)
        try:
            descriptor = self._files.open(path)
            try:
                whole = memoryview(self._files.mmap(descriptor, self.file_size))
            finally:
                self._files.close(descriptor)
        except OSError as error:
            raise store_error("map", path, error) from error
        while len(self._maps) >= self._max_maps:
            self.place = None
            self._maps.popitem(last=False)  # unmapped when the last view of it is gone
        self._maps[start] = whole
        return whole

    def read(self, position: int) -> bytes | None:
        """Return the whole record that begins at a position; None if none does."""
        if not self.start <= position < self.end:
            return None
        data, found = load_record(self._view_up_to_end, position)
        return bytes(data) if found.status is RecordStatus.MESSAGE else None

    def _view_up_to_end(self, position: int, length: int) -> bytes | memoryview:
        return self.view(position, min(length, self.end - position))

    def store_timestamp_ms(self, position: int) -> int | None:
        """Return when the record at a position was stored; None if it is no longer there."""
        if not self.start <= position < self.end:
            return None
        try:
            head = read_head(self.view(position, MAX_HEAD_SIZE))
        except MalformedHeader:
            return None
        return head.store_timestamp_ms if head.physical_offset == position else None

    def drop_before(self, position: int) -> Iterator[tuple[str, object]]:
        """Begin with the file that holds a position; yield the files before it, each with its map if it has one."""
        self.place = None
        starts = range(self.start, position, self.file_size)
        for path, start in zip(self.segments.drop_before(position), starts, strict=True):
            yield path, self._maps.pop(start, None)

    def forget_maps(self) -> None:
        """Let go of all maps, before files are cut or closed."""
        self.place = None
        self._maps.clear()

    def close(self) -> None:
        """Close what is open; what was not written is dropped."""
        self.forget_maps()
        for descriptor in {run.file.descriptor for run in self._runs}:  # the current file always has a run
            self._files.close(descriptor)
        self._runs.clear()
        self._current = None


def load_record(
    view: Callable[[int, int], bytes | memoryview], position: int, *, check_crc: bool = True
) -> tuple[bytes | memoryview, RecordCheck]:
    """Return the bytes of the record that begins at a position of a log, and what they are.

    `view` returns bytes of the log by position and length, fewer where it ends.
    """
    data = view(position, _FIRST_READ)
    size = _claimed_size(data)
    data = data[:size] if size <= len(data) else view(position, size)
    found = check_record(data, 0, len(data), check_crc=check_crc)
    if found.head is None or found.head.physical_offset != position:
        return data, _NO_RECORD  # a stranger's record, or one from another place
    return data, found


def _claimed_size(data: bytes | memoryview) -> int:
    """Return the size a record says it has; 0 if that cannot be, for it may be damaged and claim a gigabyte."""
    try:
        head = read_head(data)
    except MalformedHeader:
        return 0
    is_possible = 0 <= head.total_size - head.body_length <= _MAX_WITHOUT_BODY and head.body_length >= 0
    return head.total_size if head.magic == MESSAGE_MAGIC and is_possible else 0
