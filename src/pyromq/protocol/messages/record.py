"""The stored message: one layout in the commit log, in answers to pulls and wherever a whole message travels.

    total size 4 | magic 4 | body CRC 4 | queue id 4 | flag 4 | queue offset 8 | physical offset 8 | sys flag 4
    born time 8 | born host 8 or 20 | store time 8 | store host 8 or 20 | reconsume times 4 | prepared offset 8
    body length 4, body | topic length 1, topic | properties length 2, properties

Numbers are big-endian and signed. A host has 20 bytes if its bit in the sys flag says IPv6. A blank record fills the
end of a log file. Only its first 8 bytes are written: the number of bytes left in the file, and a magic of its own.
"""

from __future__ import annotations

import struct
from enum import Enum
from typing import Final, NamedTuple
from zlib import crc32

from msgspec import Struct

from pyromq.errors import CorruptRecord, LocalProtocolError, MalformedHeader
from pyromq.protocol.messages.hosts import IPV4_HOST_LENGTH, decode_host, encode_host
from pyromq.protocol.messages.message import MessageExt

__all__ = [
    "BLANK_MAGIC", "BORN_HOST_V6_FLAG", "HEAD_SIZE", "MAX_HEAD_SIZE", "MESSAGE_MAGIC", "MULTI_TAGS_FLAG",
    "SMALLEST_RECORD", "STORE_HOST_V6_FLAG", "TRANSACTION_COMMIT", "TRANSACTION_MASK", "TRANSACTION_NONE",
    "TRANSACTION_PREPARED", "TRANSACTION_ROLLBACK", "V4_HEAD", "V6_FLAGS", "Record", "RecordCheck",
    "RecordHead", "RecordStatus", "blank_record", "body_crc", "body_end", "check_record", "decode_host",
    "decode_messages", "encode_host", "encode_record", "read_head", "read_properties", "read_tail", "record_parts",
    "record_size", "shared_topic",
]  # fmt: skip

MESSAGE_MAGIC: Final = 0xDAA320A7
BLANK_MAGIC: Final = 0xCBD43194

MULTI_TAGS_FLAG: Final = 0x2
TRANSACTION_NONE: Final = 0x0
TRANSACTION_PREPARED: Final = 0x4
TRANSACTION_COMMIT: Final = 0x8
TRANSACTION_ROLLBACK: Final = 0xC
TRANSACTION_MASK: Final = 0xC
BORN_HOST_V6_FLAG: Final = 0x10
STORE_HOST_V6_FLAG: Final = 0x20
V6_FLAGS: Final = BORN_HOST_V6_FLAG | STORE_HOST_V6_FLAG

_SIZE_AND_MAGIC = struct.Struct(">iI")
_SYS_FLAG = struct.Struct(">i")
_BODY_LENGTH = struct.Struct(">i")  # the last of the fixed fields
_SHORT = struct.Struct(">h")
# One layout for each pair of host lengths, by the two IPv6 bits of the sys flag.
_HEADS = {
    born_flag | store_flag: struct.Struct(f">iIiiiqqiq{born}sq{store}siqi")
    for born_flag, born in ((0, 8), (BORN_HOST_V6_FLAG, 20))
    for store_flag, store in ((0, 8), (STORE_HOST_V6_FLAG, 20))
}
V4_HEAD: Final = _HEADS[0]
"""The layout of the fixed fields with IPv4 hosts."""
HEAD_SIZE: Final = V4_HEAD.size
"""Bytes of the fixed fields with IPv4 hosts, which is where the body begins."""
MAX_HEAD_SIZE: Final = _HEADS[V6_FLAGS].size
SMALLEST_RECORD: Final = HEAD_SIZE + 3
"""Bytes of a record without body, topic and properties: only their lengths follow the fixed fields."""
_SYS_FLAG_POSITION = 36
_LENGTH_BYTES = [bytes((length,)) for length in range(128)]


class Record(Struct, kw_only=True, gc=False):
    """A message as a broker passes it to the store: all that is known before its offsets."""

    topic: str
    body: bytes
    properties: bytes = b""
    queue_id: int = 0
    tags_code: int = 0
    flag: int = 0
    sys_flag: int = 0
    born_timestamp_ms: int = 0
    born_host: bytes = bytes(IPV4_HOST_LENGTH)
    store_host: bytes = bytes(IPV4_HOST_LENGTH)
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0


def body_crc(body: bytes | memoryview) -> int:
    """Return the checksum stored with a body: CRC-32 without its top bit."""
    return crc32(body) & 0x7FFFFFFF


def record_size(record: Record, topic_length: int) -> int:
    """Return the size of this record in the log."""
    hosts = len(record.born_host) + len(record.store_host)
    return 75 + hosts + len(record.body) + topic_length + len(record.properties)


def record_parts(
    record: Record, topic: bytes, queue_offset: int, physical_offset: int, store_timestamp_ms: int
) -> tuple[bytes, ...]:
    """Return the stored bytes in parts. Joined with the parts of other records, a body is copied only once.

    The IPv6 bits are set by the lengths of the hosts, whatever the sys flag says. Raises LocalProtocolError if a value
    does not fit its field.
    """
    body, properties, born_host, store_host = record.body, record.properties, record.born_host, record.store_host
    sys_flag = record.sys_flag & ~V6_FLAGS
    layout = V4_HEAD
    if len(born_host) != 8 or len(store_host) != 8:
        sys_flag |= _v6_flags(born_host, store_host)
        layout = _HEADS[sys_flag & V6_FLAGS]
    try:
        head = layout.pack(
            layout.size + 3 + len(body) + len(topic) + len(properties),
            MESSAGE_MAGIC,
            crc32(body) & 0x7FFFFFFF,
            record.queue_id,
            record.flag,
            queue_offset,
            physical_offset,
            sys_flag,
            record.born_timestamp_ms,
            born_host,
            store_timestamp_ms,
            store_host,
            record.reconsume_times,
            record.prepared_transaction_offset,
            len(body),
        )
        return head, body, _LENGTH_BYTES[len(topic)], topic, _SHORT.pack(len(properties)), properties
    except (struct.error, IndexError) as error:
        raise LocalProtocolError(f"a value does not fit the stored record: {error}") from None


def _v6_flags(born_host: bytes, store_host: bytes) -> int:
    flags = 0
    for host, flag in ((born_host, BORN_HOST_V6_FLAG), (store_host, STORE_HOST_V6_FLAG)):
        if len(host) == 20:
            flags |= flag
        elif len(host) != 8:
            raise LocalProtocolError(f"a host has 8 or 20 bytes, not {len(host)}")
    return flags


def encode_record(
    record: Record, topic: bytes, queue_offset: int, physical_offset: int, store_timestamp_ms: int
) -> bytes:
    """Return the stored bytes of one record."""
    return b"".join(record_parts(record, topic, queue_offset, physical_offset, store_timestamp_ms))


def blank_record(size: int) -> bytes:
    """Return the 8 bytes that end a log file with `size` bytes left."""
    return _SIZE_AND_MAGIC.pack(size, BLANK_MAGIC)


class RecordHead(NamedTuple):
    """The fixed fields of a stored record, and the position of its body in the buffer."""

    total_size: int
    magic: int
    body_crc: int
    queue_id: int
    flag: int
    queue_offset: int
    physical_offset: int
    sys_flag: int
    born_timestamp_ms: int
    born_host: bytes
    store_timestamp_ms: int
    store_host: bytes
    reconsume_times: int
    prepared_transaction_offset: int
    body_length: int
    body_position: int


def read_head(buffer: bytes | memoryview, position: int = 0) -> RecordHead:
    """Read the fixed fields of the record at a position; raise MalformedHeader if the buffer is too short.

    Nothing else is checked; use `check_record` for bytes that may be damaged.
    """
    try:
        (sys_flag,) = _SYS_FLAG.unpack_from(buffer, position + _SYS_FLAG_POSITION)
        layout = _HEADS[sys_flag & V6_FLAGS]
        return RecordHead._make((*layout.unpack_from(buffer, position), position + layout.size))
    except struct.error:
        raise MalformedHeader("the record is cut short") from None


def read_tail(buffer: bytes | memoryview, head: RecordHead) -> tuple[bytes, bytes]:
    """Return the topic and properties of a record whose head was read from the same buffer."""
    topic_start, topic_end, end = _tail_positions(buffer, head)
    return bytes(buffer[topic_start:topic_end]), bytes(buffer[topic_end + 2 : end])


def body_end(buffer: bytes | memoryview) -> int:
    """Return where the body of a record ends; the buffer needs to hold only the fixed fields."""
    try:
        (sys_flag,) = _SYS_FLAG.unpack_from(buffer, _SYS_FLAG_POSITION)
        head_size = _HEADS[sys_flag & V6_FLAGS].size
        (body_length,) = _BODY_LENGTH.unpack_from(buffer, head_size - _BODY_LENGTH.size)
    except struct.error:
        raise MalformedHeader("the record is cut short") from None
    if body_length < 0:
        raise MalformedHeader("the record's body has a negative length")
    return int(head_size + body_length)


def read_properties(buffer: bytes | memoryview, tail_start: int | None = None) -> bytes:
    """Return only the properties of a record; `tail_start` is where its body ends.

    It is 0 for a buffer that starts right after the body.
    """
    topic_start = (body_end(buffer) if tail_start is None else tail_start) + 1
    _, topic_end, end = _tail_after(buffer, topic_start)
    return bytes(buffer[topic_end + 2 : end])


def _tail_positions(buffer: bytes | memoryview, head: RecordHead) -> tuple[int, int, int]:
    if head.body_length < 0:
        raise MalformedHeader("the record's body has a negative length")
    return _tail_after(buffer, head.body_position + head.body_length + 1)


def _tail_after(buffer: bytes | memoryview, topic_start: int) -> tuple[int, int, int]:
    try:
        topic_length = buffer[topic_start - 1]
        topic_end = topic_start + topic_length
        (properties_length,) = _SHORT.unpack_from(buffer, topic_end)
    except (struct.error, IndexError):
        raise MalformedHeader("the record is cut short") from None
    if topic_length > 127 or properties_length < 0:
        raise MalformedHeader("the record's topic or properties have a negative length")
    return topic_start, topic_end, topic_end + 2 + properties_length


class RecordStatus(Enum):
    """What was found where a record should start."""

    MESSAGE = "message"
    BLANK = "blank"
    """The end of a log file; the next record is in the next file."""
    DAMAGED = "damaged"
    """Not a sound record: never written, cut short, or changed since."""


class RecordCheck(NamedTuple):
    """The outcome of check_record."""

    status: RecordStatus
    size: int
    """Bytes up to the next record, -1 if unknown. A damaged record with a sound size field has a size."""
    head: RecordHead | None = None
    """Only for a sound message."""


_UNREADABLE = RecordCheck(RecordStatus.DAMAGED, -1)


def check_record(buffer: bytes | memoryview, position: int, limit: int, *, check_crc: bool = True) -> RecordCheck:
    """Return what is at a position of a log that ends at `limit`; no bytes make it raise."""
    if limit - position < _SIZE_AND_MAGIC.size:
        return _UNREADABLE
    size, magic = _SIZE_AND_MAGIC.unpack_from(buffer, position)
    if magic == BLANK_MAGIC:
        return RecordCheck(RecordStatus.BLANK, size)
    if magic != MESSAGE_MAGIC:
        return _UNREADABLE
    try:
        head = read_head(buffer, position)
        end = _tail_positions(buffer, head)[2]
    except MalformedHeader:
        return _UNREADABLE
    body = buffer[head.body_position : head.body_position + head.body_length]
    if end > limit or (check_crc and body_crc(body) != head.body_crc):
        return _UNREADABLE
    if end != position + size:
        return RecordCheck(RecordStatus.DAMAGED, size if size > 0 else -1)
    return RecordCheck(RecordStatus.MESSAGE, size, head)


class _Topics(dict[bytes, str]):
    # One str per topic name, shared by all its messages; bounded, because the names come from a peer.
    def __missing__(self, topic: bytes) -> str:
        if len(self) >= 10_000:
            self.clear()
        return self.setdefault(topic, topic.decode("utf-8", "replace"))


_topics = _Topics()
shared_topic = _topics.__getitem__
"""Returns the name of a topic as text."""


def decode_messages(body: bytes, broker_name: str | None = None, check_crc: bool = True) -> list[MessageExt]:
    """Read all records of a body, such as the answer to a pull.

    Raises MalformedHeader if the bytes are not a sequence of whole records; nothing is dropped silently.
    Raises CorruptRecord if a body does not match its checksum; the fault is then in the broker's store.
    """
    messages: list[MessageExt] = []
    start, limit = 0, len(body)
    try:
        # The consumer's hottest loop: no call per record, and every field by name (a starred tuple costs a third more).
        while start < limit:
            (
                size, magic, crc, queue_id, flag, queue_offset, physical_offset, sys_flag, born_timestamp_ms,
                born_host, store_timestamp_ms, store_host, reconsume_times, prepared_offset, body_length,
            ) = V4_HEAD.unpack_from(body, start)  # fmt: skip
            body_start = start + HEAD_SIZE
            if sys_flag & V6_FLAGS:
                layout = _HEADS[sys_flag & V6_FLAGS]
                fields = layout.unpack_from(body, start)
                born_host, store_timestamp_ms, store_host, reconsume_times, prepared_offset, body_length = fields[9:]
                body_start = start + layout.size
            body_end = body_start + body_length
            topic_end = body_end + 1 + body[body_end]
            end = topic_end + 2 + (body[topic_end] << 8 | body[topic_end + 1])
            if magic != MESSAGE_MAGIC or body_length < 0 or end != start + size or end > limit:
                raise MalformedHeader(f"no whole record at byte {start} of {limit}")
            stored_body = body[body_start:body_end]
            if check_crc and crc32(stored_body) & 0x7FFFFFFF != crc:
                raise CorruptRecord(f"the message at physical offset {physical_offset} does not match its checksum")
            messages.append(
                MessageExt(
                    _topics[body[body_end + 1 : topic_end]], stored_body, body[topic_end + 2 : end], broker_name,
                    size, crc, queue_id, flag, queue_offset, physical_offset, sys_flag, born_timestamp_ms, born_host,
                    store_timestamp_ms, store_host, reconsume_times, prepared_offset,
                )
            )  # fmt: skip
            start = end
    except (struct.error, IndexError):
        raise MalformedHeader(f"the record at byte {start} of {limit} is cut short") from None
    return messages
