"""What a store answers: values only."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from msgspec import Struct


class PutStatus(Enum):
    """What became of a message; the names are RocketMQ's. What is refused raises instead."""

    PUT_OK = "PUT_OK"
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"
    FLUSH_SLAVE_TIMEOUT = "FLUSH_SLAVE_TIMEOUT"
    SLAVE_NOT_AVAILABLE = "SLAVE_NOT_AVAILABLE"


class PutResult(Struct, frozen=True, gc=False):
    """The place a message got."""

    status: PutStatus
    physical_offset: int
    queue_offset: int
    size: int
    store_timestamp_ms: int


class Arrival(NamedTuple):
    """A message that consumers can see from now on."""

    topic: str
    queue_id: int
    queue_offset: int
    tags_code: int


class StoredRecord(NamedTuple):
    """A record of the log, as it stands there."""

    physical_offset: int
    data: bytes


class QueryResult(Struct, frozen=True):
    """Messages as stored, and up to which one, by store time and physical offset, keys are known."""

    records: list[bytes]
    last_update_ms: int
    last_update_offset: int


class GetStatus(Enum):
    """How a read went; the names are RocketMQ's and go into its answers."""

    FOUND = "FOUND"
    NO_MATCHED_MESSAGE = "NO_MATCHED_MESSAGE"
    MESSAGE_WAS_REMOVING = "MESSAGE_WAS_REMOVING"
    OFFSET_FOUND_NULL = "OFFSET_FOUND_NULL"
    OFFSET_OVERFLOW_BADLY = "OFFSET_OVERFLOW_BADLY"
    OFFSET_OVERFLOW_ONE = "OFFSET_OVERFLOW_ONE"
    OFFSET_TOO_SMALL = "OFFSET_TOO_SMALL"
    NO_MESSAGE_IN_QUEUE = "NO_MESSAGE_IN_QUEUE"


class GetResult(Struct, frozen=True):
    """Messages as stored, or why there are none, and where to read next.

    A view shows the log itself and keeps its file mapped: join views at once and keep none.
    """

    status: GetStatus
    next_offset: int
    min_offset: int
    max_offset: int
    views: list[bytes | bytearray | memoryview]
    count: int = 0
    size: int = 0
    suggest_slave: bool = False


class QueueRange(NamedTuple):
    """The messages of one queue from offset `start` up to, not including, `stop`."""

    queue_id: int
    start: int
    stop: int


class MergedResult(Struct, frozen=True):
    """Messages of several queues as stored, in the order of the log, and for each queue where to read next.

    A view shows the log itself and keeps its file mapped.
    """

    views: list[bytes | memoryview]
    sizes: bytes
    """Of each message, four bytes each."""
    count: int
    size: int
    next_offsets: list[int]
    min_offsets: list[int]
    max_offsets: list[int]
    suggest_slave: bool
