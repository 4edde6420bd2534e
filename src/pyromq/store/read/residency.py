"""Residency: which parts of a log are in the system's memory, so that a map of them can be read without a page fault.

A page fault on bytes that are only on disk stops every thread, so a map is read only where there will be none.

What was written since the log was opened is in memory until the system takes pages back. It counts those, and the
count is looked at once a second while somebody reads.

About other bytes the system is asked, a chunk at a time. That costs as much as reading a dozen records by `pread`. So
it is asked once a dozen were read: at once for an answer that takes so many from one chunk, as a pull does that catches
up. What it says is believed for a second.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Final, TypeVar

from pyromq.store.segments import SegmentedFile

T = TypeVar("T")

CHUNK_BITS: Final = 20
READS_BEFORE: Final = 12
"""Records read from a chunk before the system is asked about it."""
BELIEVED: Final = 1.0
"""Seconds for which an answer is believed."""
_MOST_CHUNKS: Final = 4096
_NOWHERE: Final = (0, 0)


class Residency:
    """Knows which chunks of a log are in memory; not safe for threads."""

    def __init__(
        self,
        segments: SegmentedFile,
        pages_taken: Callable[[], int | None],
        seconds: Callable[[], float] = perf_counter,
    ) -> None:
        """`pages_taken` returns a number that changes when the system takes pages back; None if it does not tell."""
        self._segments = segments
        self._pages_taken = pages_taken
        self._seconds = seconds
        self._written_from = 0
        self._taken: int | None = None
        self._next_look = 0.0
        self._present: dict[int, float] = {}
        """Until when chunks are believed to be in memory."""
        self._absent: dict[int, float] = {}
        """Until when the system is not asked again about chunks that are not in memory, or not all of them."""
        self._reads: dict[int, int] = {}

    def settle(self, end: int) -> None:
        """Begin with a log that ends here: what is written from now on is in memory."""
        self._written_from = end
        self._taken = self._pages_taken()

    def known(self, start: int, stop: int, log_end: int) -> tuple[int, int]:
        """Return a stretch around some bytes that is known to be in memory; an empty one if they are not."""
        now = self._seconds()
        if start >= self._written_from and self._is_kept(now, log_end):
            return self._written_from, log_end
        chunk, last = start >> CHUNK_BITS, (stop - 1) >> CHUNK_BITS
        for each in range(chunk, last + 1):
            if self._present.get(each, 0.0) < now:
                return _NOWHERE
        return chunk << CHUNK_BITS, (last + 1) << CHUNK_BITS

    def _is_kept(self, now: float, log_end: int) -> bool:
        """Return True if the system has taken no page back since these bytes were written."""
        if now <= self._next_look:
            return True
        self._next_look = now + BELIEVED
        taken = self._pages_taken()
        if taken is not None and taken == self._taken:
            return True
        self._written_from, self._taken = log_end, taken
        return False

    def covers(self, runs: Sequence[Sequence[int]]) -> bool:
        """Return True if runs of bytes, each from one position up to another, are all known to be in memory.

        The runs that are not count as read from the disk. The system is asked about chunks that are read often.
        """
        now = self._seconds()
        reads: dict[int, int] = {}
        for start, stop in runs:
            for chunk in range(start >> CHUNK_BITS, ((stop - 1) >> CHUNK_BITS) + 1):
                reads[chunk] = reads.get(chunk, 0) + 1
        is_covered = True
        for chunk, count in reads.items():
            if self._present.get(chunk, 0.0) < now:
                is_covered = self._note_reads(chunk, count, now) and is_covered
        return is_covered

    def _note_reads(self, chunk: int, count: int, now: float) -> bool:
        if self._absent.get(chunk, 0.0) >= now:
            return False
        count += self._reads.pop(chunk, 0)
        if count < READS_BEFORE:
            _put(self._reads, chunk, count)
            return False
        is_cached = self._segments.is_cached(chunk << CHUNK_BITS, 1 << CHUNK_BITS)
        _put(self._present if is_cached else self._absent, chunk, now + BELIEVED)
        return is_cached


def _put(table: dict[int, T], chunk: int, value: T) -> None:
    if len(table) >= _MOST_CHUNKS:
        table.clear()
    table[chunk] = value
