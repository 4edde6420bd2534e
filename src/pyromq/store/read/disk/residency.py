"""Residency: which parts of a log are in the system's memory, so that a map of them can be read without a page fault.

A page fault on bytes that are only on disk stops every thread, so a map is read only where there will be none:

    the log, oldest byte first
    | written before the open | written since, and pages were taken back since | written after that | the tail |
      the system is asked       the system is asked                              believed             believed
      once a dozen was read     at once

What was written is in memory until the system takes pages back. It counts those, and the count is looked at once a
second while somebody reads. A broker that has run for a while has filled the memory with its log, so the system takes
pages back all the time, the oldest first. Then it is asked what is left, a chunk at a time and once for all readers.
What it says is believed until the next look.

Somebody may also have a file dropped from memory, as programs for backups do with what they have read. That counts
nowhere. So of what is believed a chunk is asked about now and then, where somebody reads: if it is gone, no other is
believed either.

A question costs as much as reading a dozen records by `pread`. What was written since the open is likely to be in
memory and read by many, so the system is asked about it at once, so many times a second. About other chunks it is asked
when a dozen records were read: at once for an answer that takes so many from one chunk, as a pull does that catches up.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Final

from pyromq.store.segments import SegmentedFile

CHUNK_BITS: Final = 20
READS_BEFORE: Final = 12
"""Records read from a chunk before the system is asked about it."""
BELIEVED: Final = 1.0
"""Seconds for which an answer is believed, at most."""
BETWEEN_SAMPLES: Final = 0.05
"""Seconds between two questions about what is believed."""
QUESTIONS: Final = 1024
"""Chunks that the system is asked about at once until the next look: 25 ms of each second."""
_AT_A_TIME: Final = 64  # of these for one reader: 1.5 ms
_MOST_CHUNKS: Final = 4096
_NOWHERE: Final = (0, 0)
_RECORD: Final = 1024  # bytes: a longer run counts as several records, which is what it likely holds


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
        self._opened_at = 0
        self._kept_from = 0
        """From here on nothing was taken back since it was written, as far as is known."""
        self._taken: int | None = None
        self._next_look = self._next_sample = 0.0
        self._questions = 0
        self._present = _Runs()
        self._absent: set[int] = set()
        """Chunks that are not in memory, or not all of them."""
        self._reads: dict[int, int] = {}

    def settle(self, end: int) -> None:
        """Begin with a log that ends here: what is written from now on is in memory."""
        self._opened_at = self._kept_from = end
        self._taken = self._pages_taken()

    def known(self, start: int, stop: int, tail: int, log_end: int) -> tuple[int, int]:
        """Return a stretch around some bytes that is known to be in memory; an empty one if they are not.

        From `tail` on all is taken to be there.
        """
        self._look(log_end)
        chunk = start >> CHUNK_BITS
        if start < tail and self._kept_from <= chunk << CHUNK_BITS:
            self._sample(chunk, log_end)
        believed = min(self._kept_from, tail)
        if start >= believed:
            return self._present.start_before(believed), log_end
        first, last = chunk, (min(stop, believed) - 1) >> CHUNK_BITS
        low, high = self._present.around(first)
        if high <= last:
            if start < self._opened_at or not self._ask_now(high, last, log_end):
                return _NOWHERE
            low, high = self._present.around(first)
        low, high = low << CHUNK_BITS, high << CHUNK_BITS
        return low, log_end if high >= believed else high

    def _look(self, log_end: int) -> None:
        """Once a second, look whether pages were taken back, and forget what the system has said."""
        now = self._seconds()
        if now <= self._next_look:
            return
        self._next_look = now + BELIEVED
        self._questions = 0
        self._present.clear()
        self._absent.clear()
        taken = self._pages_taken()
        if taken is None or taken != self._taken:
            self._kept_from, self._taken = log_end, taken

    def _sample(self, chunk: int, log_end: int) -> None:
        """Now and then, see whether a chunk is still there; if it is not, nothing counts as kept."""
        now = self._seconds()
        if now >= self._next_sample:
            self._next_sample = now + BETWEEN_SAMPLES
            if not (self._present.has(chunk) or self._ask(chunk, log_end)):
                self._kept_from = log_end

    def _ask_now(self, first: int, last: int, log_end: int) -> bool:
        """Ask about chunks that were not read yet; return True if all are in memory."""
        for chunk in range(first, min(last + 1, first + _AT_A_TIME)):
            if self._present.has(chunk):
                continue
            if chunk in self._absent or self._questions >= QUESTIONS:
                return False
            self._questions += 1
            if not self._ask(chunk, log_end):
                return False
        return last < first + _AT_A_TIME  # the next reader goes on

    def covers(self, runs: Sequence[Sequence[int]], log_end: int) -> bool:
        """Return True if runs of bytes, each from one position up to another, are all known to be in memory.

        The runs that are not count as read from the disk. The system is asked about chunks that are read often.
        """
        self._look(log_end)
        reads: dict[int, int] = {}
        for start, stop in runs:
            for chunk in range(start >> CHUNK_BITS, ((stop - 1) >> CHUNK_BITS) + 1):
                reads[chunk] = reads.get(chunk, 0) + 1 + (stop - start) // _RECORD
        is_covered = True
        for chunk, count in reads.items():
            if not self._present.has(chunk):
                is_covered = self._note_reads(chunk, count, log_end) and is_covered
        return is_covered

    def _note_reads(self, chunk: int, count: int, log_end: int) -> bool:
        if chunk in self._absent and not self._segments.was_fetched:
            return False
        count += self._reads.pop(chunk, 0)
        if count < READS_BEFORE:
            if len(self._reads) >= _MOST_CHUNKS:
                self._reads.clear()
            self._reads[chunk] = count
            return False
        return self._ask(chunk, log_end)

    def _ask(self, chunk: int, log_end: int) -> bool:
        """Ask the system about a chunk as far as the log goes: space that is only reserved is not in memory."""
        position = chunk << CHUNK_BITS
        stop = min(position + (1 << CHUNK_BITS), log_end)
        is_coming = self._segments.is_coming(position)
        is_cached = position < stop
        while is_cached and position < stop:  # where files are small, a chunk lies in several
            length = min(stop, self._segments.file_start(position) + self._segments.file_size) - position
            is_cached = self._segments.is_cached(position, length)
            position += length
        if is_cached:
            self._present.add(chunk)
            self._absent.discard(chunk)
        elif not is_coming:
            self._absent.add(chunk)
        return is_cached


class _Runs:
    """Chunks that are in memory, as runs of neighbours: few, so that a stretch is found at once."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def clear(self) -> None:
        self._starts.clear()
        self._ends.clear()

    def around(self, chunk: int) -> tuple[int, int]:
        """Return the run that holds a chunk, up to the chunk behind it; an empty one if none does."""
        index = bisect_right(self._starts, chunk) - 1
        return (self._starts[index], self._ends[index]) if index >= 0 and chunk < self._ends[index] else (chunk, chunk)

    def has(self, chunk: int) -> bool:
        """Return True if a chunk is in memory."""
        return self.around(chunk)[1] > chunk

    def start_before(self, position: int) -> int:
        """Return where the run begins that reaches up to a position of the log; the position itself if none does."""
        low, high = self.around((position - 1) >> CHUNK_BITS)
        return low << CHUNK_BITS if high > low else position

    def add(self, chunk: int) -> None:
        """Add a chunk that is not there yet."""
        index = bisect_right(self._starts, chunk)
        joins_left = index > 0 and self._ends[index - 1] == chunk
        joins_right = index < len(self._starts) and self._starts[index] == chunk + 1
        if joins_left and joins_right:
            self._ends[index - 1] = self._ends.pop(index)
            del self._starts[index]
        elif joins_left:
            self._ends[index - 1] = chunk + 1
        elif joins_right:
            self._starts[index] = chunk
        else:
            self._starts.insert(index, chunk)
            self._ends.insert(index, chunk + 1)
