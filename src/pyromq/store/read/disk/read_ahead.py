"""ReadAhead: what to have read from the disk beside what is missing, so that who reads on does not wait each time.

    a single read            misses a record       that record, and the system is asked for a little behind it
    a consumer catches up    misses many records   their whole chunks, and the system is asked for the next chunk
    it comes to a new chunk                        the system is asked for the next two, four, then eight chunks

The consumers of a stretch share what is read ahead. Files are told apart by their names, so that the entries of a queue
are read ahead as the log is. Nothing here reads: whoever asks has threads for that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Final, NamedTuple

from pyromq.store.read.disk.residency import CHUNK_BITS
from pyromq.store.segments import FileRange

CHUNK: Final = 1 << CHUNK_BITS
MANY: Final = 8
"""Missing ranges that lie near each other, from which on somebody is taken to read all."""
LEAST_AHEAD: Final = 128 << 10
"""Bytes that the system is asked for behind a single read."""
MOST_AHEAD: Final = 8
"""Chunks ahead of a reader, at most."""
MOST_AHEAD_OF_ALL: Final = 64
"""Chunks ahead of all readers together, at most."""
MOST_STREAMS: Final = 32
_NEAR: Final = 64 << 10  # bytes between two ranges that are cheaper to read than to leave out
_FOLLOWS: Final = 256 << 10  # bytes behind a single read within which the next one makes it a stream
_BEHIND: Final = 4  # chunks by which consumers of one stream may differ


class Plan(NamedTuple):
    """What to read for a reader that waits, and what to ask the system for."""

    parts: list[FileRange]
    ahead: list[FileRange]


class _Stream:
    """A place in a file where somebody reads on, or has read once."""

    __slots__ = ("end", "furthest", "path", "position", "window")

    def __init__(self, path: str, position: int) -> None:
        self.path = path
        self.position = position
        """Behind the first read."""
        self.furthest = self.end = 0
        """The last chunk that was read, and the one behind all that the system was asked for."""
        self.window = 0
        """How many chunks to be ahead; 0 as long as nobody has read on."""


class ReadAhead:
    """Knows where files are read from beginning to end; not safe for threads."""

    def __init__(self) -> None:
        self._streams: list[_Stream] = []  # the one used last at the end

    def missed(self, missing: Iterable[FileRange]) -> Plan:
        """Return what to read for a reader who misses some ranges."""
        plan = Plan([], [])
        for path, parts in groupby(sorted(set(missing)), key=lambda part: part.path):
            for start, stop, count in _runs(parts):
                stream = self._find(path, start)
                if stream is None:
                    stream = self._add(path, stop)
                    if count < MANY:
                        plan.parts.append(FileRange(path, start, stop - start))
                        plan.ahead.append(FileRange(path, stop, LEAST_AHEAD))
                        continue
                chunks = range(start >> CHUNK_BITS, ((stop - 1) >> CHUNK_BITS) + 1)
                plan.parts.extend(FileRange(path, chunk << CHUNK_BITS, CHUNK) for chunk in chunks)
                if (ahead := self._advance(stream, chunks[-1])) is not None:
                    plan.ahead.append(ahead)
        return plan

    def reached(self, path: str, position: int) -> tuple[bool, FileRange | None]:
        """Note that somebody has come to another chunk of a file.

        Return whether that was, or is being, read ahead, and what to ask the system for now.
        """
        if not self._streams:  # nearly always
            return False, None
        stream = self._find(path, position)
        if stream is None or not stream.window:
            return False, None
        return True, self._advance(stream, position >> CHUNK_BITS)

    def _find(self, path: str, position: int) -> _Stream | None:
        chunk = position >> CHUNK_BITS
        for index, stream in enumerate(self._streams):
            if stream.path != path:
                continue
            if stream.window:
                is_here = stream.furthest - _BEHIND <= chunk <= stream.end
            else:
                is_here = -_NEAR <= position - stream.position <= _FOLLOWS
            if is_here:
                self._streams.append(self._streams.pop(index))
                return stream
        return None

    def _add(self, path: str, position: int) -> _Stream:
        stream = _Stream(path, position)
        self._streams.append(stream)
        del self._streams[:-MOST_STREAMS]
        return stream

    def _advance(self, stream: _Stream, chunk: int) -> FileRange | None:
        """Note that a stream is read up to a chunk; return what to ask the system for."""
        if not stream.window or chunk > stream.furthest:
            running = sum(1 for each in self._streams if each.window or each is stream)
            stream.furthest = chunk
            stream.window = min(2 * stream.window or 1, MOST_AHEAD, MOST_AHEAD_OF_ALL // running)
        start, stop = max(stream.end, chunk + 1), chunk + 1 + stream.window
        if start >= stop:
            return None
        stream.end = stop
        return FileRange(stream.path, start << CHUNK_BITS, (stop - start) << CHUNK_BITS)


def _runs(parts: Iterable[FileRange]) -> Iterator[tuple[int, int, int]]:
    """Join ranges of one file, in order, that lie near each other; yield start, stop and how many they were."""
    start = stop = count = 0
    for _, position, length in parts:
        if count and position - stop > _NEAR:
            yield start, stop, count
            count = 0
        if not count:
            start = stop = position
        stop = max(stop, position + length)
        count += 1
    if count:
        yield start, stop, count
