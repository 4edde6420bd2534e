"""PlainReader: what nearly all pulls want, messages near the end of the log, in as few steps as there can be.

It answers only where nothing is special: the entries are sound and in memory, the records too, and lie in one file.
What it answers is what QueueReader would; in all other cases that one decides.
"""

from __future__ import annotations

import struct
from typing import Final, TypeAlias

from pyromq.lane.pull_answers import AnswerPull, answer_pull
from pyromq.protocol.messages.record import SMALLEST_RECORD
from pyromq.store.commit_log import CommitLog
from pyromq.store.consume_queue import ENTRY_SIZE
from pyromq.store.read.queue_reader import SCAN_ENTRIES, EntryGuard, ReadableQueues, read_limits
from pyromq.store.read.reading import OpenStore

_PLACE: Final = struct.Struct(">qi8x")
_FILTERED: Final = 2  # entries read for each message of an answer: a filter that skips more is for the ordinary path


PlainAnswer: TypeAlias = tuple[bytes, int, int, int]
"""A whole frame, how many messages of how many bytes it holds, and the end of their queue."""


class PlainReader:
    """Makes answers to plain pulls; changes nothing and never waits for the disk."""

    def __init__(
        self,
        store: OpenStore,
        log: CommitLog,
        queues: ReadableQueues,
        guard: EntryGuard,
        answer: AnswerPull | None = None,
    ) -> None:
        """`answer` is the native form if there is one, unless given."""
        self._store = store
        self._log = log
        self._queues = queues
        self._limits = read_limits(store.config)
        self._guard = guard
        self._answer = answer or answer_pull()

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
        if max_bytes is None:
            most, most_bytes = min(max_count, self._limits.memory_count), self._limits.memory_bytes
        else:
            most, most_bytes = min(max_count, max_bytes // SMALLEST_RECORD + 1), max_bytes
        if most < 1:
            return None
        count = looked_at = most
        if codes is not None:
            count, looked_at = _FILTERED * most, max(SCAN_ENTRIES, max_count)
        count, looked_at = min(count, high - offset), min(looked_at, high - offset)
        try:
            entries = queue.read_cached(offset, count)
            if not entries:
                return None
            first = _PLACE.unpack_from(entries)[0]
            last, size = _PLACE.unpack_from(entries, len(entries) - ENTRY_SIZE)
            stretch = self._log.stretch(first, last + size)
        except OSError:
            return None  # the ordinary path says what is wrong
        if stretch is None:
            return None
        known_from, known_to, start, whole = stretch
        must_fill = count < looked_at and len(entries) == count * ENTRY_SIZE
        hot = max(known_from, self._log.end - self._limits.memory)
        found = self._answer(
            entries, codes, whole, start, hot, known_to, most, most_bytes, must_fill,
            offset, low, high, suggest, opaque,
        )  # fmt: skip
        return None if found is None else (*found, high)
