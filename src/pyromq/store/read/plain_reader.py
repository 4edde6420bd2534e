"""PlainReader: what nearly all pulls want, messages near the end of the log, in as few steps as there can be.

It answers only where nothing is special: the entries are sound and in memory, the records too, and lie in one file.
What it answers is what QueueReader would; in all other cases that one decides.
"""

from __future__ import annotations

import struct
from collections import deque
from time import perf_counter
from typing import Final, TypeAlias

from pyromq.lane.pull_answers import AnswerPull, answer_pull
from pyromq.lane.pull_serving import CHUNK_ENTRIES, NUMBERS, Chunk, LogPlace, PulledQueue
from pyromq.protocol.messages.record import SMALLEST_RECORD
from pyromq.store.commit_log import CommitLog
from pyromq.store.consume_queue import ENTRY_SIZE, ConsumeQueue
from pyromq.store.read.queue_reader import SCAN_ENTRIES, ReadableQueues, read_limits
from pyromq.store.read.read_guard import ReadGuard
from pyromq.store.read.reading import OpenStore

_PLACE: Final = struct.Struct(">qi8x")
_FILTERED: Final = 2  # entries read for each message of an answer: a filter that skips more is for the ordinary path
_BEHIND: Final = 128  # entries behind a chunk: twice as many as a pull that filters by tags usually reads
_MOST_CHUNKS: Final = 1024  # kept at a time, those read last: 13 MB
_BELIEVED: Final = 0.05  # seconds for which a stretch of the log is taken to be in memory without asking again


PlainAnswer: TypeAlias = tuple[bytes, int, int, int]
"""A whole frame, how many messages of how many bytes it holds, and the end of their queue."""


class PlainReader:
    """Makes answers to plain pulls; changes nothing and never waits for the disk."""

    def __init__(
        self,
        store: OpenStore,
        log: CommitLog,
        queues: ReadableQueues,
        guard: ReadGuard,
        answer: AnswerPull | None = None,
    ) -> None:
        """`answer` is the native form if there is one, unless given."""
        self._store = store
        self.log = log
        self._queues = queues
        self._limits = read_limits(store.config)
        self._guard = guard
        self._answer = answer or answer_pull()
        self._chunks: deque[tuple[ConsumeQueue, int]] = deque()
        self._place_end = 0
        self._place_until = 0.0

    def get(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_count: int,
        max_bytes: int | None,
        codes: bytes | None,
        suggest: int,
        opaque: int,
    ) -> PlainAnswer | None:
        """Return the answer to a pull; None if it is not plain."""
        queue = self._queues.find(topic, queue_id)
        if queue is None or not self._store.is_open:
            return None
        low, high = queue.min_offset, queue.max_offset
        if not low <= offset < high or self._guard.is_needed(queue, offset):
            return None
        most, most_bytes, count, looked_at = self._bounds(max_count, max_bytes, filters=codes is not None)
        if most < 1:
            return None
        count, looked_at = min(count, high - offset), min(looked_at, high - offset)
        try:
            entries = queue.read_cached(offset, count)
            if not entries:
                return None
            first = _PLACE.unpack_from(entries)[0]
            last, size = _PLACE.unpack_from(entries, len(entries) - ENTRY_SIZE)
            stretch = self.log.stretch(first, last + size)
        except OSError:
            return None  # the ordinary path says what is wrong
        if stretch is None:
            return None
        known_from, known_to, start, whole = stretch
        must_fill = count < looked_at and len(entries) == count * ENTRY_SIZE
        hot = max(known_from, self.log.end - self._limits.memory)
        found = self._answer(
            entries, codes, whole, start, hot, known_to, most, most_bytes, must_fill,
            offset, low, high, suggest, opaque,
        )  # fmt: skip
        return None if found is None else (*found, high)

    def _bounds(self, max_count: int, max_bytes: int | None, *, filters: bool) -> tuple[int, int, int, int]:
        """Return the most messages and bytes of an answer, and how many entries to read and to look at for it."""
        if max_bytes is None:
            most, most_bytes = min(max_count, self._limits.memory_count), self._limits.memory_bytes
        else:
            most, most_bytes = min(max_count, max_bytes // SMALLEST_RECORD + 1), max_bytes
        if filters:
            return most, most_bytes, _FILTERED * most, max(SCAN_ENTRIES, max_count)
        return most, most_bytes, most, most

    # --- for pulls that are served one after the other (lane/pull_serving.py)

    @property
    def is_on(self) -> bool:
        """Whether there can be plain reads now."""
        return self._store.is_open and not self._guard.fences.known

    def queue(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """Return a queue that has, or had, messages."""
        return self._queues.find(topic, queue_id)

    def numbers(
        self, queue: ConsumeQueue, max_count: int, max_bytes: int | None, codes: bytes | None, suggest: int
    ) -> bytes | None:
        """Return the numbers of a known pull; None if there can be no answer."""
        most, most_bytes, count, looked_at = self._bounds(max_count, max_bytes, filters=codes is not None)
        if most < 1:
            return None
        return NUMBERS.pack(most, most_bytes, count, looked_at, suggest, queue.segments.file_size // ENTRY_SIZE)

    def chunk(self, queue: PulledQueue, offset: int, count: int, /) -> Chunk | None:
        """Read entries from an offset on, for this pull and the next; None if the disk would have to be read."""
        assert isinstance(queue, ConsumeQueue)
        number = offset // CHUNK_ENTRIES
        end = (number + 1) * CHUNK_ENTRIES + _BEHIND
        try:
            entries = queue.read_cached(offset, min(max(count, end - offset), queue.max_offset - offset))
        except OSError:
            return None  # the ordinary path says what is wrong
        if entries is None:
            return None
        self._keep(queue, number, (offset, entries))
        return offset, entries

    def _keep(self, queue: ConsumeQueue, number: int, chunk: Chunk) -> None:
        if queue.chunks is None:
            queue.chunks = {}
        if number not in queue.chunks:
            self._chunks.append((queue, number))
            if len(self._chunks) > _MOST_CHUNKS:
                other, oldest = self._chunks.popleft()
                if other.chunks is not None:
                    other.chunks.pop(oldest, None)
        queue.chunks[number] = chunk

    def place(self, first: int, last: int, /) -> LogPlace | None:
        """Return what is known to be in memory around bytes of the log; None if they are not."""
        try:
            stretch = self.log.stretch(first, last)
        except OSError:
            return None  # likewise
        if stretch is None:
            return None
        low, high, start, whole = stretch
        end = self.log.end
        place = self.log.place = LogPlace(low, max(low, end - self._limits.memory), high, start, whole)
        self._place_end, self._place_until = end, perf_counter() + _BELIEVED
        return place

    def last_place(self, now: float) -> LogPlace | None:
        """Return what `place` has returned last, if that is still so at a time, by perf_counter()."""
        log = self.log
        if self._place_end != log.end or now >= self._place_until:
            log.place = None
        return log.place
