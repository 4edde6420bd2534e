"""Residency: which parts of a log are in the system's memory, so that a map of them can be read without a page fault.

A page fault on bytes that are only on disk stops every thread, so a map is read only where there will be none. To ask
the system costs as much as reading a dozen records by `pread`. So it is asked about a chunk that is read again and
again, and believed for a second.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Final

from pyromq.store.segments import SegmentedFile

CHUNK_BITS: Final = 20
READS_BEFORE: Final = 8
"""Reads of a chunk before the system is asked about it."""
BELIEVED: Final = 1.0
"""Seconds for which an answer is believed."""
_MOST_CHUNKS: Final = 4096


class Residency:
    """Knows which chunks of a log are in memory; not safe for threads."""

    def __init__(self, segments: SegmentedFile, seconds: Callable[[], float] = perf_counter) -> None:
        self._segments = segments
        self._seconds = seconds
        self._believed: dict[int, float] = {}
        self._reads: dict[int, int] = {}

    def covers(self, runs: Sequence[Sequence[int]]) -> bool:
        """Return True if runs of bytes, each from one position up to another, are all known to be in memory."""
        now, believed = self._seconds(), self._believed
        is_covered = True
        for start, stop in runs:
            chunk, last = start >> CHUNK_BITS, (stop - 1) >> CHUNK_BITS
            while chunk <= last:
                if believed.get(chunk, 0.0) < now:
                    is_covered = self._note_read(chunk, now) and is_covered
                chunk += 1
        return is_covered

    def _note_read(self, chunk: int, now: float) -> bool:
        reads = self._reads.get(chunk, 0) + 1
        if reads < READS_BEFORE:
            if len(self._reads) >= _MOST_CHUNKS:
                self._reads.clear()
            self._reads[chunk] = reads
            return False
        del self._reads[chunk]
        if not self._segments.is_cached(chunk << CHUNK_BITS, 1 << CHUNK_BITS):
            return False
        if len(self._believed) >= _MOST_CHUNKS:
            self._believed.clear()
        self._believed[chunk] = now + BELIEVED
        return True
