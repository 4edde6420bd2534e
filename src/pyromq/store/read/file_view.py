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
from pyromq.protocol.messages.record import MAX_HEAD_SIZE, RecordCheck, read_head
from pyromq.protocol.names import check_topic
from pyromq.store.commit_log import load_record
from pyromq.store.files import OsFiles
from pyromq.store.segments import DescriptorPool, DirtyFiles, FileRange, NotInMemory, SegmentedFile

LOG_NAME: Final = "commitlog"
QUEUES_NAME: Final = "consumequeue"

_NAME_LENGTH: Final = 20
_PAGE: Final = 4096
_PIECE: Final = 1 << 20


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
            return self._pool.pread(segment.path, length, position - segment.base)
        except FileNotFoundError:
            return b""

    def pread_runs(self, runs: Sequence[Sequence[int]]) -> list[bytes | bytearray]:
        """Read runs of bytes, each from one position up to another in the same file."""
        found: list[bytes | bytearray] = []
        missing: list[FileRange] = []
        for start, stop in runs:
            try:
                found.append(self.pread(start, stop - start))
            except NotInMemory as error:
                missing += error.missing
        if missing:
            raise NotInMemory(missing)
        return found

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

    mapped_from: Final = 1 << 63

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

    def views(self, runs: Sequence[Sequence[int]]) -> list[bytes | bytearray | memoryview]:
        """Return runs of bytes, each from one position up to another in the same file."""
        return [*self.segments.pread_runs(runs)]

    def load(self, position: int, *, check_crc: bool = True) -> tuple[bytes, RecordCheck]:
        """Return the bytes of the record that begins at a position, and what they are."""
        data, found = load_record(self.pread, position, check_crc=check_crc)
        return bytes(data), found

    def store_timestamp_ms(self, position: int) -> int | None:
        """Return when the record at a position was stored; None if it is no longer there."""
        try:
            return read_head(self.pread(position, MAX_HEAD_SIZE)).store_timestamp_ms
        except MalformedHeader:
            return None
