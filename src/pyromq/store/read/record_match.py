"""Whether a queue's entry names the record that stands where it points: nothing is handed out before that is sure."""

from __future__ import annotations

import struct
from typing import Final, Protocol

from pyromq.lane.pull_answers import Owner, is_plain_record
from pyromq.protocol.messages.properties import INNER_MULTI_DISPATCH, find_property
from pyromq.protocol.messages.record import (
    MESSAGE_MAGIC,
    SMALLEST_RECORD,
    RecordStatus,
    check_record,
    read_tail,
)
from pyromq.store.consume_queue import ConsumeQueue, ConsumeQueueEntry

# total size, magic, body CRC, queue id, queue offset, physical offset, sys flag
_HEAD: Final = struct.Struct(">iIii4xqqi")
_ENOUGH_TRACES: Final = 2


class RecordSource(Protocol):
    """As much of a log as is needed here."""

    @property
    def start(self) -> int:
        """The first byte that is still there."""

    def pread(self, position: int, length: int) -> bytes:
        """Return bytes of one file."""


def is_sound(data: bytes | memoryview, at: int, size: int, place: tuple[int, ConsumeQueue, int]) -> bool:
    """Tell whether bytes of this size are a whole record, and that of a place: physical offset, queue, queue offset."""
    if size < SMALLEST_RECORD or at + size > len(data):
        return False
    physical_offset, queue, queue_offset = place
    owner = Owner(queue.topic_name, queue.queue_id, queue_offset)
    # Nearly always it is the plain record of this very queue; what is not that is looked at as a whole.
    return is_plain_record(data, at, size, physical_offset, owner) or _is_sound_otherwise(data, at, size, place)


def _is_sound_otherwise(data: bytes | memoryview, at: int, size: int, place: tuple[int, ConsumeQueue, int]) -> bool:
    physical_offset, queue, queue_offset = place
    found = check_record(data, at, at + size)
    if found.status is not RecordStatus.MESSAGE or found.head is None:
        return False
    if (found.head.total_size, found.head.physical_offset) != (size, physical_offset):
        return False
    topic, properties = read_tail(data, found.head)
    if (topic, found.head.queue_id, found.head.queue_offset) == (queue.topic_name, queue.queue_id, queue_offset):
        return True
    others = find_property(properties, INNER_MULTI_DISPATCH)  # another broker may have put it into more queues
    return others is not None and queue.topic in others.split(",")


def named_record(log: RecordSource, queue: ConsumeQueue, queue_offset: int, entry: ConsumeQueueEntry) -> bytes | None:
    """Return the record that an entry names; None if what stands there is not that of its queue and offset."""
    if not entry.is_message or entry.physical_offset < log.start:
        return None
    data = log.pread(entry.physical_offset, entry.size)
    return data if is_sound(data, 0, entry.size, (entry.physical_offset, queue, queue_offset)) else None


def has_traces(data: bytes | memoryview, size: int, place: tuple[int, ConsumeQueue, int]) -> bool:
    """Tell whether bytes that are no sound record were the one of a place: then not the entry is damaged."""
    if len(data) < _HEAD.size:
        return False
    physical_offset, queue, queue_offset = place
    found_size, magic, _, queue_id, offset, physical, _ = _HEAD.unpack_from(data)
    traces = [
        found_size == size,
        magic == MESSAGE_MAGIC,
        (queue_id, offset) == (queue.queue_id, queue_offset),
        physical == physical_offset,
    ]
    return traces.count(True) >= _ENOUGH_TRACES
