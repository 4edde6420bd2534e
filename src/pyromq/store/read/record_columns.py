"""Whether many records are those that their queue entries name: the read guard's check, by columns.

It knows only the plain record of a queue, as `record_match` does first; what is not that is for the guard to look at.
Ranges that were found sound are remembered: damage at rest shows when a message is read first.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from pyromq.protocol.messages.record import HEAD_SIZE, MESSAGE_MAGIC, V6_FLAGS
from pyromq.store.consume_queue import ConsumeQueue
from pyromq.store.read.gather import Buffer, gather, is_text
from pyromq.store.small_files.fences import Fences

_MAGIC = np.uint32(MESSAGE_MAGIC).view(np.int32)
_MOST_RANGES = 256


class Expected(NamedTuple):
    """What stands in the records, which follow each other: all of one topic."""

    topic: bytes
    queue_ids: NDArray[Any]
    queue_offsets: NDArray[Any]
    physical_offsets: NDArray[Any]
    sizes: NDArray[Any]


class RecordColumns:
    """Checks records by columns, once each."""

    def __init__(self, fences: Fences) -> None:
        self._fences = fences

    def is_unknown(self, queue: ConsumeQueue, start: int, stop: int) -> bool:
        """Tell whether some of a queue's records were neither written nor checked since the store was opened."""
        if start >= queue.checked_offset and not self._fences:
            return False
        return not any(low <= start and stop <= high for low, high in queue.sound_ranges)

    def remember(self, ranges: Iterable[tuple[ConsumeQueue, int, int]]) -> None:
        """Keep in mind that these ranges, offsets from and to, are sound."""
        for queue, start, stop in ranges:
            touching = [part for part in queue.sound_ranges if part[0] <= stop and start <= part[1]]
            others = [part for part in queue.sound_ranges if part not in touching]
            joined = min([start, *(low for low, _ in touching)]), max([stop, *(high for _, high in touching)])
            queue.sound_ranges = (*others[-_MOST_RANGES:], joined)

    def are_sound(self, data: Buffer, expected: Expected) -> bool:
        """Tell whether bytes are these records, whole and unchanged."""
        ends = np.cumsum(expected.sizes)
        starts = ends - expected.sizes
        padded = bytes(data) + b"\0" if len(expected.sizes) else b""  # so that no look beyond a short record fails
        return self._have_heads(padded, starts, expected) and self._have_parts(padded, starts, ends, expected.topic)

    def _have_heads(self, data: Buffer, starts: NDArray[np.int64], expected: Expected) -> bool:
        return bool(
            (gather(data, starts, "i4") == expected.sizes).all()
            and (gather(data, starts, "i4", 4) == _MAGIC).all()
            and (gather(data, starts, "i4", 12) == expected.queue_ids).all()
            and (gather(data, starts, "i8", 20) == expected.queue_offsets).all()
            and (gather(data, starts, "i8", 28) == expected.physical_offsets).all()
            and not (gather(data, starts, "i4", 36) & V6_FLAGS).any()
        )

    def _have_parts(self, data: Buffer, starts: NDArray[np.int64], ends: NDArray[np.int64], topic: bytes) -> bool:
        bodies = starts + HEAD_SIZE
        body_ends = bodies + gather(data, bodies - 4, "i4")
        topic_ends = body_ends + 1 + len(topic)
        if (body_ends < bodies).any() or (topic_ends + 2 > ends).any():
            return False
        octets = np.frombuffer(data, np.uint8)
        lengths = gather(data, topic_ends, "i2").view(np.uint16)
        if (octets[body_ends] != len(topic)).any() or (lengths != ends - topic_ends - 2).any():
            return False
        if not is_text(data, body_ends + 1, topic).all():
            return False
        checksums = gather(data, starts, "i4", 8).tolist()
        view = memoryview(data)
        parts = zip(bodies.tolist(), body_ends.tolist(), checksums, strict=True)
        return all(crc32(view[start:end]) & 0x7FFFFFFF == checksum for start, end, checksum in parts)
