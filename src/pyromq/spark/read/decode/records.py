"""Locates the parts of stored records in a buffer, as numpy arrays of positions; every length is checked before use.

    0 size | 4 magic | 8 body crc | 12 queue id | 16 flag | 20 queue offset (8) | 28 physical offset (8) | 36 sys flag
    40 born time (8) | 48 born host (8) | 56 store time (8) | 64 store host (8) | 72 reconsume times
    76 prepared transaction offset (8) | 84 body length | 88 body | topic length (1) | topic | properties length (2) | …

An IPv6 host has 20 bytes instead of 8 and shifts what follows by 12.
"""

from __future__ import annotations

import struct
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyromq.errors import CorruptRecord
from pyromq.protocol.messages.hosts import IPV4_HOST_LENGTH, IPV6_HOST_LENGTH
from pyromq.protocol.messages.record import (
    BORN_HOST_V6_FLAG,
    HEAD_SIZE,
    MESSAGE_MAGIC,
    SMALLEST_RECORD,
    STORE_HOST_V6_FLAG,
)
from pyromq.spark.arrow import Int64s
from pyromq.store.read.gather import Buffer, gather

_MAGIC = np.uint32(MESSAGE_MAGIC).view(np.int32)
_SIZE = struct.Struct(">i")
_QUEUE_AND_PHYSICAL_OFFSET = struct.Struct(">qq")

RowMask = NDArray[np.bool_]
Range = tuple[Int64s, Int64s]


def record_starts(body: Buffer) -> list[int]:
    """Return where each record of a pull answer starts; raise CorruptRecord if the sizes do not add up."""
    starts = []
    position, end, read_size = 0, len(body), _SIZE.unpack_from
    while position < end:
        size = read_size(body, position)[0] if position + SMALLEST_RECORD <= end else 0
        if size < SMALLEST_RECORD or position + size > end:
            raise CorruptRecord(f"damaged answer: no whole record at byte {position} of {end}")
        starts.append(position)
        position += size
    return starts


class RecordHeaders:
    """The fixed fields of records, copied side by side, so that each record is visited once for all fields."""

    def __init__(self, data: Buffer, starts: Int64s) -> None:
        if len(starts):
            heads: NDArray[np.void] = np.ndarray((len(data) - HEAD_SIZE + 1,), f"V{HEAD_SIZE}", data, 0, (1,))
            self._octets = heads[starts].view(np.uint8)
        self._count = len(starts)

    def numbers(self, offset: int, kind: str) -> NDArray[Any]:
        """Return the big-endian numbers (`i2`, `i4`, `i8`) at an offset from each record."""
        if not self._count:
            return np.empty(0, kind)
        view: NDArray[Any] = np.ndarray((self._count,), ">" + kind, self._octets.data, offset, (HEAD_SIZE,))
        return view.astype(kind)


class Records:
    """Whole records at `starts` of `data`, which is below 2 GiB and has one more readable byte after the last record.

    Raises CorruptRecord, naming the first damaged record. `bodies`, `topics` and `properties` are ranges of `data`.
    """

    bodies: Range
    topics: Range
    properties: Range

    def __init__(self, data: Buffer, starts: Int64s, heads: RecordHeaders | None = None) -> None:
        """Check and locate the records; pass `heads` if they were gathered before."""
        self.data = data
        self.starts = starts
        self.octets = np.frombuffer(data, np.uint8)
        self._given_heads = heads
        self._find_parts()

    @cached_property
    def _heads(self) -> RecordHeaders:
        return self._given_heads or RecordHeaders(self.data, self.starts)

    def __len__(self) -> int:
        return len(self.starts)

    def select(self, rows: RowMask | slice) -> Records:
        """Return only these records."""
        return Records(self.data, self.starts[rows])

    def numbers(self, offset: int, kind: str, positions: Int64s | None = None) -> NDArray[Any]:
        """Return the big-endian numbers (`i2`, `i4`, `i8`) at an offset from each record, or from other positions."""
        if positions is None or positions is self.starts:
            return self._heads.numbers(offset, kind)
        return gather(self.data, positions, kind, offset)

    @cached_property
    def queue_ids(self) -> NDArray[np.int32]:
        """The queue of each record."""
        return self.numbers(12, "i4")

    @property
    def queue_offsets(self) -> Int64s:
        """The queue offset of each record."""
        return self.numbers(20, "i8")

    @cached_property
    def sys_flags(self) -> NDArray[np.int32]:
        """The sys flag of each record: compression, IPv6 hosts, transaction type."""
        return self.numbers(36, "i4")

    @cached_property
    def after_born_host(self) -> Int64s:
        """The starts, shifted so that the offsets in the module docstring hold for fields after the born host."""
        return self._moved(self.starts, BORN_HOST_V6_FLAG)

    @cached_property
    def after_hosts(self) -> Int64s:
        """The starts, shifted for the fields after the store host."""
        return self._moved(self.after_born_host, STORE_HOST_V6_FLAG)

    def _moved(self, positions: Int64s, flag: int) -> Int64s:
        is_ipv6 = (self.sys_flags & flag) != 0
        return positions + (IPV6_HOST_LENGTH - IPV4_HOST_LENGTH) * is_ipv6 if is_ipv6.any() else positions

    def place(self, row: int) -> str:
        """Return the position of one record, for error messages."""
        position = int(self.starts[row])
        if position + SMALLEST_RECORD > len(self.data):
            return f"byte {position} of {len(self.data)}"
        queue_offset, physical_offset = _QUEUE_AND_PHYSICAL_OFFSET.unpack_from(self.data, position + 20)
        return f"physical offset {physical_offset}, queue offset {queue_offset}"

    def _find_parts(self) -> None:
        readable = len(self.data) - 1
        if not len(self):
            nothing = np.empty(0, np.int64)
            self.bodies = self.topics = self.properties = nothing, nothing
            return
        self._refuse((self.starts < 0) | (self.starts + SMALLEST_RECORD > readable))
        ends = self.starts + self.numbers(0, "i4")
        self._refuse((self.numbers(4, "i4") != _MAGIC) | (ends > readable))
        bodies = self.after_hosts + 88
        self._refuse(bodies + 3 > ends)
        body_ends = bodies + self.numbers(0, "i4", bodies - 4)
        self._refuse((body_ends < bodies) | (body_ends + 3 > ends))
        topic_lengths = self.octets[body_ends]
        properties = body_ends + 3 + topic_lengths
        self._refuse((topic_lengths > 127) | (properties > ends))
        self._refuse(properties + self.numbers(0, "i2", properties - 2) != ends)
        self.bodies = bodies, body_ends
        self.topics = body_ends + 1, properties - 2
        self.properties = properties, ends

    def _refuse(self, damaged: RowMask) -> None:
        if damaged.any():
            raise CorruptRecord(f"damaged record at {self.place(int(damaged.argmax()))}")
