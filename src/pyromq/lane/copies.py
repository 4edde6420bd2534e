"""The lane for slaves: from bytes of a master's log to queue entries and keys.

A record is plain if it is whole, sound and at its place, belongs to a queue, is not delayed, and has nothing rare: no
IPv6 host, no tag or topic beyond ASCII. A run is plain records side by side; those of one queue follow each other. What
stands behind a run is for the store's ordinary path (`store/recovery/raw_log.py`), which goes record by record.

`read_run` here says what is right; `c/_copies.c` does the same in C. `tests/lane/` compares the two.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final
from zlib import crc32

from pyromq.lane import native
from pyromq.protocol.messages.properties import TAGS
from pyromq.protocol.messages.record import MESSAGE_MAGIC, SMALLEST_RECORD, TRANSACTION_PREPARED, V6_FLAGS
from pyromq.protocol.names import SCHEDULE_TOPIC
from pyromq.protocol.tag_filter import tag_code

QueueRun = tuple[str, int, int, list[bytes]]
"""The records of one queue: its topic and id, the offset of the first, and their entries."""

Run = tuple[int, int, list[QueueRun], list[str | bytes | int]]
"""Where a run ends in its bytes, when its last record was stored, its queues, and what the index needs of all."""

ReadRun = Callable[[bytes, int, int, int, bool], Run | None]

_Record = tuple[int, int, int, int, bytes, bytes, int]
"""Size, queue id, queue offset, store time in ms, topic, properties, tags code."""

_MOST_QUEUES: Final = 256  # of one run
# total size, magic, body CRC, queue id, queue offset, physical offset, sys flag, store time, body length
_HEAD: Final = struct.Struct(">iIii4xqqi16xq20xi")
_ENTRY: Final = struct.Struct(">qiq")
_UNUSUAL_FLAGS: Final = TRANSACTION_PREPARED | V6_FLAGS  # a rollback has that bit of a half message, too
_TAGS: Final = f"\x02{TAGS}\x01".encode()
_DELAYED: Final = SCHEDULE_TOPIC.encode()


def run_reader() -> ReadRun:
    """Return what reads runs in this process."""
    module = native("copies")
    return read_run if module is None else module.read_run


def read_run(data: bytes, start: int, stop: int, position: int, with_keys: bool, /) -> Run | None:
    """Return the run that begins at `start` of some bytes and at `position` of the log; None if none does.

    It ends at `stop` at the latest. Without keys the index needs nothing.
    """
    queues: dict[tuple[bytes, int], QueueRun] = {}
    keys: list[str | bytes | int] = []
    at, last_ms = start, 0
    while (record := _plain_record(data, at, stop, position + at - start)) is not None:
        size, queue_id, queue_offset, stored_ms, topic, properties, code = record
        queue = queues.get((topic, queue_id))
        if queue is None:
            if len(queues) == _MOST_QUEUES:
                break
            queue = queues[topic, queue_id] = (topic.decode(), queue_id, queue_offset, [])
        if queue_offset != queue[2] + len(queue[3]):
            break
        physical_offset = position + at - start
        queue[3].append(_ENTRY.pack(physical_offset, size, code))
        if with_keys:
            keys += queue[0], properties, physical_offset, stored_ms
        at += size
        last_ms = stored_ms
    return (at, last_ms, list(queues.values()), keys) if at > start else None


def _plain_record(data: bytes, at: int, stop: int, position: int) -> _Record | None:
    """Return the record at a place of some bytes, which is `position` of the log; None if no plain one is there."""
    if stop - at < SMALLEST_RECORD:
        return None
    size, magic, crc, queue_id, queue_offset, physical, sys_flag, stored_ms, body_length = _HEAD.unpack_from(data, at)
    body_end, end = at + _HEAD.size + body_length, at + size
    if magic != MESSAGE_MAGIC or physical != position or end > stop or body_length < 0 or body_end + 3 > end:
        return None
    topic_end = body_end + 1 + data[body_end]
    if data[body_end] > 127 or topic_end + 2 > end or int.from_bytes(data[topic_end : topic_end + 2]) > 32_767:
        return None
    topic, properties = data[body_end + 1 : topic_end], data[topic_end + 2 : end]
    if int.from_bytes(data[topic_end : topic_end + 2]) != len(properties) or topic == _DELAYED or not topic.isascii():
        return None
    if sys_flag & _UNUSUAL_FLAGS or queue_id < 0 or not 0 <= queue_offset < 2**63 - 1:
        return None
    code = _plain_code(properties)
    if code is None or crc32(memoryview(data)[at + _HEAD.size : body_end]) & 0x7FFFFFFF != crc:
        return None
    return size, queue_id, queue_offset, stored_ms, topic, properties, code


def _plain_code(properties: bytes) -> int | None:
    """Return the code of the tag; None if the tag is empty or not of ASCII."""
    _, found, rest = (b"\x02" + properties).rpartition(_TAGS)
    tag = rest.partition(b"\x02")[0]
    if not found:
        return 0
    return tag_code(tag.decode()) if tag and tag.isascii() else None
