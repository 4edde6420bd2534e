"""Turns stored records into Arrow columns, with numpy and without a Python object per message.

Fixed fields are gathered through overlapping views. Arrow cuts fields of varying length out of the same buffer, in one
copy. Only the requested columns are touched. Text is not checked as UTF-8: the JVM accepts bad bytes and shows them as
replacement characters.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, lru_cache
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pyromq.errors import CorruptRecord, ProtocolError
from pyromq.protocol.messages.compression import COMPRESSED_FLAG, decompress
from pyromq.protocol.messages.hosts import IPV4_HOST_LENGTH, IPV6_HOST_LENGTH, decode_host
from pyromq.protocol.messages.properties import KEYS, TAGS, UNIQ_KEY
from pyromq.protocol.messages.record import BORN_HOST_V6_FLAG, STORE_HOST_V6_FLAG
from pyromq.spark import arrow
from pyromq.spark.arrow import Int64s, Octets
from pyromq.spark.options.read_options import ReadOptions
from pyromq.spark.read.decode.property_columns import Properties, UniformProperties
from pyromq.spark.read.decode.records import Range, Records, RowMask
from pyromq.store.read.gather import is_text

INFLATED_LIMIT = 64 << 20
"""Limit of one batch's decompressed bodies, in bytes: a few kilobytes can expand to gigabytes."""


class Columns:
    """The columns of some records, each built on demand."""

    def __init__(self, records: Records, broker_name: str | None = None, *, inflate: bool = True) -> None:
        self.records = records
        self._broker_name = broker_name
        self._inflate = inflate
        self._inflated: dict[int, bytes] = {}

    def batch(self, names: Sequence[str], *, properties_as_text: bool = False) -> pa.RecordBatch:
        """Return the named columns, in this order, as one Arrow batch."""
        builders = _BUILDERS | {"properties": Columns._property_texts} if properties_as_text else _BUILDERS
        return pa.RecordBatch.from_arrays([builders[name](self) for name in names], names=list(names))

    def tagged(self, tags: Sequence[str]) -> RowMask:
        """Return which records have one of the tags; a broker compares only hashes."""
        found = pc.is_in(self._properties.get(TAGS), pa.array(tags, pa.string()))
        return cast(RowMask, found.to_numpy(zero_copy_only=False))

    def fitting(self, limit: int = INFLATED_LIMIT) -> int:
        """Return how many of the first records fit into one batch of at most `limit` decompressed bytes."""
        total = 0
        for row in self._compressed_rows:
            total += len(self._inflated_body(row))
            if total > limit and row:
                return int(row)
        return len(self.records)

    # --- bodies

    def _bodies(self) -> pa.Array:
        bodies = self._cut_out(pa.binary(), self.records.bodies)
        rows = self._compressed_rows
        if not len(rows):
            return bodies
        return arrow.merge(bodies, rows, pa.array([self._inflated_body(row) for row in rows], pa.binary()))

    @cached_property
    def _compressed_rows(self) -> Int64s:
        return np.flatnonzero(self.records.sys_flags & COMPRESSED_FLAG) if self._inflate else np.empty(0, np.int64)

    def _inflated_body(self, row: int) -> bytes:
        if row not in self._inflated:
            starts, ends = self.records.bodies
            body = bytes(self.records.data[starts[row] : ends[row]])
            try:
                self._inflated[row] = decompress(body, int(self.records.sys_flags[row]))
            except ProtocolError as error:
                hint = "decompress=false returns bodies as they are stored"
                raise CorruptRecord(f"{error}, in the record at {self.records.place(row)}; {hint}") from error
        return self._inflated[row]

    # --- topic and properties

    def _topics(self) -> pa.Array:
        starts, ends = self.records.topics
        if not self._all_alike(starts, ends):
            return self._cut_out(pa.string(), self.records.topics)
        first = self._cut_out(pa.string(), (starts[:1], ends[:1]))
        return pa.repeat(first[0], len(starts))

    def _all_alike(self, starts: Int64s, ends: Int64s) -> bool:
        if not len(starts) or (ends - starts != ends[0] - starts[0]).any():
            return False
        first = bytes(self.records.data[starts[0] : ends[0]])
        return bool(is_text(self.records.data, starts, first).all())

    def _property_texts(self) -> pa.Array:
        return self._cut_out(pa.string(), self.records.properties)

    @cached_property
    def _properties(self) -> Properties | UniformProperties:
        return Properties.of_texts(self._buffer, self.records.octets, *self.records.properties)

    def _message_ids(self) -> pa.Array:
        ids = self._properties.get(UNIQ_KEY)
        return pc.coalesce(ids, self._offset_message_ids()) if ids.null_count else ids

    # --- hosts, and the ids that hold one

    def _born_hosts(self) -> pa.Array:
        return self._of_hosts(BORN_HOST_V6_FLAG, self.records.starts + 48, _host_texts)

    def _store_hosts(self) -> pa.Array:
        return self._of_hosts(STORE_HOST_V6_FLAG, self.records.after_born_host + 64, _host_texts)

    def _offset_message_ids(self) -> pa.Array:
        physical_offsets = self._matrix(self.records.starts + 28, 8)

        def ids(hosts: Octets, rows: Int64s) -> pa.Array:
            return arrow.hex_text(np.concatenate((hosts, physical_offsets[rows]), axis=1))

        return self._of_hosts(STORE_HOST_V6_FLAG, self.records.after_born_host + 64, ids)

    def _of_hosts(self, flag: int, positions: Int64s, build: Callable[[Octets, Int64s], pa.Array]) -> pa.Array:
        """Build a column from the hosts at the positions: first all as IPv4, then replace those that are IPv6."""
        every = np.arange(len(positions))
        column = build(self._matrix(positions, IPV4_HOST_LENGTH), every)
        is_ipv6 = (self.records.sys_flags & flag) != 0
        if not is_ipv6.any():
            return column
        rows = every[is_ipv6]
        return arrow.merge(column, rows, build(self._matrix(positions[rows], IPV6_HOST_LENGTH), rows))

    # --- reading from the buffer

    @property
    def _buffer(self) -> pa.Buffer:
        return pa.py_buffer(self.records.data)

    def _cut_out(self, kind: pa.DataType, part: Range) -> pa.Array:
        return arrow.take_ranges(kind, self._buffer, *part)

    def _matrix(self, starts: Int64s, width: int) -> Octets:
        return cast(Octets, self.records.octets[starts[:, None] + np.arange(width)])


def _host_texts(hosts: Octets, _rows: Int64s) -> pa.Array:
    distinct, places = np.unique(hosts, axis=0, return_inverse=True)
    return arrow.take(pa.array([decode_host(host.tobytes()) for host in distinct], pa.string()), places)


def _fixed(
    offset: int,
    kind: str,
    positions: Callable[[Records], Int64s] = lambda records: records.starts,
    build: Callable[[NDArray[Any]], pa.Array] = arrow.numbers,
) -> Callable[[Columns], pa.Array]:
    return lambda columns: build(columns.records.numbers(offset, kind, positions(columns.records)))


_BUILDERS: dict[str, Callable[[Columns], pa.Array]] = {
    "topic": Columns._topics,
    "broker_name": lambda columns: pa.repeat(pa.scalar(columns._broker_name, pa.string()), len(columns.records)),
    "queue_id": _fixed(12, "i4"),
    "queue_offset": _fixed(20, "i8"),
    "message_id": Columns._message_ids,
    "keys": lambda columns: arrow.split_words(columns._properties.get(KEYS)),
    "tags": lambda columns: columns._properties.get(TAGS),
    "body": Columns._bodies,
    "properties": lambda columns: columns._properties.as_map(),
    "born_timestamp": _fixed(40, "i8", build=arrow.timestamps),
    "store_timestamp": _fixed(56, "i8", lambda records: records.after_born_host, arrow.timestamps),
    "reconsume_times": _fixed(72, "i4", lambda records: records.after_hosts),
    "physical_offset": _fixed(28, "i8"),
    "offset_message_id": Columns._offset_message_ids,
    "flag": _fixed(16, "i4"),
    "sys_flag": _fixed(36, "i4"),
    "body_crc": _fixed(8, "i4"),
    "store_size": _fixed(0, "i4"),
    "born_host": Columns._born_hosts,
    "store_host": Columns._store_hosts,
    "prepared_transaction_offset": _fixed(76, "i8", lambda records: records.after_hosts),
}


def record_batches(records: Records, broker_name: str | None, options: ReadOptions) -> Iterator[pa.RecordBatch]:
    """Yield the records as one batch, or several if the decompressed bodies are too large for one."""
    while len(records):
        columns = Columns(records, broker_name, inflate=options.decompress)
        count = columns.fitting() if "body" in options.columns else len(records)
        if count < len(records):
            columns = Columns(records.select(slice(count)), broker_name, inflate=options.decompress)
        yield columns.batch(options.columns, properties_as_text=options.properties_as_text)
        records = records.select(slice(count, None))


@lru_cache  # once per process; asking how much is frozen would cost as much as it saves
def freeze() -> None:
    """Hide loaded modules from the garbage collector, which Spark runs after each task (12 ms instead of 27)."""
    gc.collect()
    gc.freeze()
