"""Files of a store as they lie there, seen by someone who owns none of them: sizes and places come from the files.

A file may be missing, short, all zeros, or go while it is looked at. What is not there reads as nothing.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from pyromq.errors import LocalProtocolError, MalformedHeader, StoreError
from pyromq.protocol.messages.properties import MAX_PROPERTIES_LENGTH
from pyromq.protocol.messages.record import (
    MAX_HEAD_SIZE,
    MESSAGE_MAGIC,
    RecordCheck,
    RecordStatus,
    check_record,
    read_head,
)
from pyromq.protocol.names import check_topic
from pyromq.store.files import OsFiles
from pyromq.store.segments import DescriptorPool, DirtyFiles, SegmentedFile

LOG_NAME: Final = "commitlog"
QUEUES_NAME: Final = "consumequeue"

_NAME_LENGTH: Final = 20
_PAGE: Final = 4096
_PIECE: Final = 1 << 20
_MAX_WITHOUT_BODY: Final = MAX_HEAD_SIZE + 1 + 127 + 2 + MAX_PROPERTIES_LENGTH
_NO_RECORD: Final = RecordCheck(RecordStatus.DAMAGED, -1)


class Segment(NamedTuple):
    """One file of a run of files: where it is, the position of its first byte, and its length."""

    path: str
    base: int
    size: int

    @property
    def end(self) -> int:
        """The position behind its last byte."""
        return self.base + self.size


def find_root(directory: str, files: OsFiles) -> str:
    """Return the directory that holds `commitlog/`: the one given, or `store` in it; raises StoreError if none does."""
    for root in (directory, os.path.join(directory, "store")):
        try:
            names = files.subdirectories(root)
        except OSError as error:
            raise StoreError(f"no store in {directory}: {error.strerror}") from error
        if any(name in (LOG_NAME, QUEUES_NAME) for name in names):
            return os.path.abspath(root)
    raise StoreError(f"no store in {directory}: neither {LOG_NAME}/ nor store/{LOG_NAME}/ is there")


def find_queues(root: str, files: OsFiles) -> list[tuple[str, int, str]]:
    """Return topic, queue id and directory of every queue; directories that can be no queue's are left out."""
    found = []
    base = os.path.join(root, QUEUES_NAME)
    for topic in sorted(files.subdirectories(base)):
        with suppress(LocalProtocolError):
            check_topic(topic)
            names = files.subdirectories(os.path.join(base, topic))
            ids = sorted(int(name) for name in names if name.isascii() and name.isdigit() and str(int(name)) == name)
            found += [(topic, queue_id, os.path.join(base, topic, str(queue_id))) for queue_id in ids]
    return found


def is_segment_name(name: str) -> bool:
    """Tell whether a file's name is a position, as the names in `commitlog` and in queues are."""
    return len(name) == _NAME_LENGTH and name.isascii() and name.isdigit()


def find_segments(directories: Sequence[str], files: OsFiles) -> list[Segment]:
    """Return the files of one run in order; several directories may share it, and what is none of it is left out."""
    found = [segment for directory in directories for segment in _segments_in(directory, files)]
    return sorted(found, key=lambda segment: segment.base)


def _segments_in(directory: str, files: OsFiles) -> Iterator[Segment]:
    try:
        names = files.listdir(directory)
    except (FileNotFoundError, NotADirectoryError):
        return
    for name in filter(is_segment_name, names):
        path = f"{directory}/{name}"
        try:
            yield Segment(path, int(name), files.size(path))
        except FileNotFoundError:
            continue  # cleaned meanwhile


class SegmentView(SegmentedFile):
    """Files of one run that are only read: a missing or short one reads as nothing."""

    __slots__ = ("_bases", "_segments")

    def __init__(self, directories: Sequence[str], files: OsFiles, pool: DescriptorPool) -> None:
        super().__init__(directories[0], 1, files, pool, DirtyFiles())
        self._segments = find_segments(directories, files)
        self._bases = [segment.base for segment in self._segments]
        if self._segments:
            self.start, self.stop = self._bases[0], self._segments[-1].end
            # The size they were made with: the last one may be short, of an interrupted copy for example.
            self.file_size = max(1, max(segment.size for segment in self._segments))

    @property
    def segments(self) -> list[Segment]:
        """All files, in order."""
        return self._segments

    def find(self, position: int) -> Segment | None:
        """Return the file that holds a position."""
        index = bisect_right(self._bases, position) - 1
        return self._segments[index] if index >= 0 and position < self._segments[index].end else None

    def pread(self, position: int, length: int) -> bytes:
        """Read from the file that holds a position, to its end at most; nothing if there is no such file any more."""
        segment = self.find(position)
        if segment is None:
            return b""
        length = min(length, segment.end - position)
        try:
            return self._files.pread(self._pool.get(segment.path), length, position - segment.base)
        except FileNotFoundError:
            return b""

    def path(self, start: int) -> str:
        """Return the name of the file that begins at a position."""
        segment = self.find(start)
        return segment.path if segment else super().path(start)

    def written_from(self, position: int) -> Iterator[tuple[int, bytes]]:
        """Give what stands from a position on, in pieces, the holes behind the last byte left out."""
        for segment in self._segments:
            offset = max(position - segment.base, 0)
            while offset < segment.size and (piece := self._read_on(segment, offset)):
                yield segment.base + offset, piece
                offset += len(piece)

    def _read_on(self, segment: Segment, offset: int) -> bytes:
        descriptor = self._pool.get(segment.path)
        if offset % _PAGE:  # a page that was written to has no hole in it
            return self._files.pread(descriptor, _PAGE - offset % _PAGE, offset)
        return self._files.pread(descriptor, _PIECE, offset) if self._files.has_data(descriptor, offset) else b""


class LogView:
    """A commit log that is only read, by `pread`: a map of a file that shrinks would end the process."""

    def __init__(self, segments: SegmentView) -> None:
        self.segments = segments
        self.end = segments.start
        """Behind the last visible record."""

    @property
    def start(self) -> int:
        """The first byte that is still there."""
        return self.segments.start

    @property
    def file_size(self) -> int:
        """Bytes of each file."""
        return self.segments.file_size

    def pread(self, position: int, length: int) -> bytes:
        """Return bytes of one file."""
        return self.segments.pread(position, length)

    def view(self, position: int, length: int) -> bytes:
        """Return bytes of one file."""
        return self.segments.pread(position, length)

    def load(self, position: int, *, check_crc: bool = True) -> tuple[bytes, RecordCheck]:
        """Return the bytes of the record that begins at a position, and what they are."""
        data = self.pread(position, _PAGE)
        size = _claimed_size(data)
        data = data[:size] if size <= len(data) else self.pread(position, size)
        found = check_record(data, 0, len(data), check_crc=check_crc)
        is_here = found.head is not None and found.head.physical_offset == position
        return data, found if is_here else _NO_RECORD

    def store_timestamp_ms(self, position: int) -> int | None:
        """Return when the record at a position was stored; None if it is no longer there."""
        try:
            return read_head(self.pread(position, MAX_HEAD_SIZE)).store_timestamp_ms
        except MalformedHeader:
            return None


def _claimed_size(data: bytes) -> int:
    """Return the size a record says it has; 0 if that cannot be, for it may be damaged and claim a gigabyte."""
    try:
        head = read_head(data)
    except MalformedHeader:
        return 0
    is_possible = 0 <= head.total_size - head.body_length <= _MAX_WITHOUT_BODY and head.body_length >= 0
    return head.total_size if head.magic == MESSAGE_MAGIC and is_possible else 0
