"""Turns the rows of a frame into parts of messages, column by column, without a Python object per row."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property, reduce
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pyromq.errors import InvalidMessage
from pyromq.protocol.messages import properties as names
from pyromq.protocol.messages.message import MAX_BODY_SIZE
from pyromq.spark.arrow import Int64s
from pyromq.spark.options.write_options import DELAYS, WriteOptions
from pyromq.spark.write.property_text import (
    BINARY,
    NAME_END,
    VALUE_END,
    filled,
    holds,
    is_filled,
    join_lists,
    nulls,
    piece,
    plain,
    true,
)
from pyromq.spark.write.sink_task import RowIds, SinkTask, value_ids

_MOST_BODY_BYTES = 32 << 20
_ZERO_MS = pa.scalar(0, pa.int64())

# A copied TRAN_MSG would create a half message, a copied DELAY a delayed one.
_NOT_COPIED = (
    names.RESERVED_NAMES
    | names.TIMER_NAMES
    | {
        names.TRANSACTION_PREPARED_QUEUE_OFFSET,
        names.TRANSACTION_CHECK_TIMES,
        names.CHECK_IMMUNITY_TIME_IN_SECONDS,
        names.INNER_MULTI_DISPATCH,
        names.TRANSACTION_ID,
        names.SINK_BATCH,
        names.SINK_ROW,
    }
)


def split_batch(batch: pa.RecordBatch, options: WriteOptions) -> Iterator[pa.RecordBatch]:
    """Split a batch whose bodies would take too much memory; they are copied twice."""
    sizes = pc.binary_length(batch.column(options.columns["body"])).fill_null(0).to_numpy()
    numbers = np.cumsum(sizes, dtype=np.int64) // _MOST_BODY_BYTES
    edges = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), batch.num_rows]
    for start, end in pairwise(edges):
        yield batch.slice(start, end - start)


class MessageRows:
    """Rows of one task, from number `first` on; raises InvalidMessage, naming the row, for an invalid one.

    Properties are in the order of `Outbox`: the row's own, then the system's.
    """

    def __init__(
        self, batch: pa.RecordBatch, options: WriteOptions, task: SinkTask, first: int, row_ids: RowIds
    ) -> None:
        self._columns = {name: plain(batch.column(column)) for name, column in options.columns.items()}
        self._task = task
        self._first = first
        self._row_ids = row_ids
        self._topic = options.topic
        self._count: int = batch.num_rows

    def __len__(self) -> int:
        return self._count

    # --- where to ----------------------------------------------------------------------------------------------------

    @cached_property
    def topics(self) -> tuple[list[str], Int64s]:
        """The distinct topics, and for each row the index of its topic."""
        if self._topic is not None:
            return [self._topic], np.zeros(self._count, np.int64)
        column = self._columns["topic"]
        self._refuse(nulls(column), "the column topic is null; set it, or the option topic for all rows")
        encoded = column.dictionary_encode()
        return encoded.dictionary.to_pylist(), encoded.indices.to_numpy().astype(np.int64)

    @cached_property
    def order_keys(self) -> pa.Array:
        """The key that chooses the queue, null where something else does."""
        if "order_key" in self._columns:
            keys = self._text("order_key")
            self._refuse(true(pc.equal(pc.utf8_trim_whitespace(keys), "")), "the order key is blank; null means none")
            return keys
        if "properties" not in self._columns:
            return pa.nulls(self._count, pa.string())
        copied = pc.map_lookup(self._columns["properties"], names.SHARDING_KEY, "last")
        # An explicit queue of the target topic takes precedence over a copied sharding key.
        return pc.if_else(pa.array(self.has_queue), None, copied) if self.has_queue.any() else copied

    @cached_property
    def has_queue(self) -> NDArray[np.bool_]:
        """Which rows name a queue of the topic they are sent to."""
        if not {"broker_name", "queue_id"} <= self._columns.keys():
            return np.zeros(self._count, bool)
        given = pc.and_(self._columns["broker_name"].is_valid(), self._columns["queue_id"].is_valid())
        if self._topic is not None and "topic" in self._columns:
            given = pc.and_(given, pc.equal(self._columns["topic"], self._topic).fill_null(False))
        return true(given)

    def queue_of(self, row: int) -> tuple[str, int]:
        """Return the queue that a row names."""
        return self._columns["broker_name"][row].as_py(), self._columns["queue_id"][row].as_py()

    @cached_property
    def queues(self) -> pa.Array:
        """The queues that rows name, as comparable values."""
        number = self._columns["queue_id"].cast(pa.string())
        return pc.binary_join_element_wise(self._columns["broker_name"], number, "/")

    # --- what --------------------------------------------------------------------------------------------------------

    @cached_property
    def bodies(self) -> pa.Array:
        bodies = self._columns["body"].cast(BINARY)
        sizes = pc.binary_length(bodies).fill_null(0).to_numpy()
        self._refuse(sizes == 0, "the body is null or empty, which brokers reject; filter such rows out")
        too_large = sizes > MAX_BODY_SIZE
        size = int(sizes[too_large.argmax()]) if len(sizes) else 0
        self._refuse(too_large, f"the body has {size} bytes, and brokers accept at most {MAX_BODY_SIZE}")
        return bodies

    @cached_property
    def flags(self) -> Int64s:
        if "flag" not in self._columns:
            return np.zeros(self._count, np.int64)
        flags: Int64s = self._columns["flag"].fill_null(0).to_numpy().astype(np.int64)
        self._refuse(flags != flags.astype(np.int32), "the flag does not fit 32 bits")
        return flags

    @cached_property
    def properties(self) -> pa.Array:
        """All properties of each row as the encoded text."""
        marks = [self._task_properties(), piece(names.UNIQ_KEY, self._ids())]
        texts = pc.binary_join_element_wise(*self._pieces, *marks, VALUE_END, null_handling="skip")
        limit = names.MAX_PROPERTIES_LENGTH
        self._refuse(pc.binary_length(texts).to_numpy() > limit, f"its properties have more than {limit} bytes")
        return texts

    @cached_property
    def _pieces(self) -> list[pa.Array]:
        """The parts of the properties that belong to the message."""
        pieces = [
            self._own_properties(),
            piece(names.KEYS, self._keys()),
            piece(names.TAGS, self._text("tags")),
            piece(names.SHARDING_KEY, self._text("order_key")),
            *self._delay_pieces,
        ]
        return [piece for piece in pieces if piece is not None]

    def _contents(self) -> pa.Array:
        """Return what makes a message the one it is: its topic, flag, properties and body."""
        head = [pa.repeat(pa.scalar(b"", BINARY), self._count), *self._pieces]
        if self._topic is None:
            head.append(self._columns["topic"].cast(BINARY))
        if "flag" in self._columns:
            head.append(pa.array(self.flags).cast(pa.string()).cast(BINARY))
        heads = pc.binary_join_element_wise(*head, VALUE_END, null_handling="skip")
        # No head has two ends in a row, so no two messages have the same bytes.
        return pc.binary_join_element_wise(heads, self.bodies, pa.scalar(2 * VALUE_END.as_py(), BINARY))

    @cached_property
    def is_delayed(self) -> NDArray[np.bool_]:
        """Which rows are delivered with a delay."""
        return reduce(np.logical_or, (~nulls(piece) for piece in self._delay_pieces), np.zeros(self._count, bool))

    @cached_property
    def is_timed(self) -> NDArray[np.bool_]:
        """Which rows are delayed by other means than a level, which only PyroMQ brokers support."""
        level = self._level()
        return self.is_delayed if level is None else self.is_delayed & nulls(level)

    # --- parts of the properties -------------------------------------------------------------------------------------

    def _text(self, name: str) -> pa.Array | None:
        """Return a text column, with null for empty texts, or None if the column is missing."""
        if name not in self._columns:
            return None
        texts = self._columns[name]
        self._refuse(holds(texts, names.PROPERTY_SEPARATOR), f"column {name} contains U+0002, which ends a property")
        return filled(texts)

    def _own_properties(self) -> pa.Array | None:
        if "properties" not in self._columns:
            return None
        maps = self._columns["properties"]
        dropped = _NOT_COPIED | {names.SHARDING_KEY} if "order_key" in self._columns else _NOT_COPIED
        kept = pc.and_(is_filled(maps.keys), is_filled(maps.items))
        kept = pc.and_not(kept, pc.is_in(maps.keys, pa.array(sorted(dropped))))
        own, values = maps.keys.filter(kept), maps.items.filter(kept)
        for text in (names.NAME_VALUE_SEPARATOR, names.PROPERTY_SEPARATOR):
            self._refuse_in(maps.offsets, kept, holds(own, text), f"the name of a property holds {text!r}")
        wrong = holds(values, names.PROPERTY_SEPARATOR)
        self._refuse_in(maps.offsets, kept, wrong, "a property contains U+0002, which ends it")
        pairs = pc.binary_join_element_wise(own.cast(BINARY), values.cast(BINARY), NAME_END)
        return join_lists(pairs, maps.offsets, kept, VALUE_END)

    def _keys(self) -> pa.Array | None:
        keys = self._columns.get("keys")
        if keys is None or not pa.types.is_list(keys.type):
            return self._text("keys")
        kept = is_filled(keys.values)
        words = keys.values.filter(kept)
        for text in (" ", names.PROPERTY_SEPARATOR):
            self._refuse_in(keys.offsets, kept, holds(words, text), f"a key contains {text!r}, which separates keys")
        return join_lists(words.cast(BINARY), keys.offsets, kept, pa.scalar(b" ", BINARY))

    @cached_property
    def _delay_pieces(self) -> list[pa.Array]:
        """The properties that delay rows; at most one of them is set in each row."""
        pieces = []
        if "delay_ms" in self._columns:
            delays = pc.max_element_wise(self._columns["delay_ms"].cast(pa.int64()), _ZERO_MS, skip_nulls=False)
            pieces.append(piece(names.TIMER_DELAY_MS, delays))
        if "deliver_at" in self._columns:
            microseconds = self._columns["deliver_at"].cast(pa.timestamp("us", "UTC")).cast(pa.int64())
            rounded_up = pc.divide(pc.add(microseconds, 999), 1000)  # never early
            pieces.append(piece(names.TIMER_DELIVER_MS, rounded_up))
        level = self._level()
        if level is not None:
            pieces.append(piece(names.DELAY, level))
        given = [piece for piece in pieces if piece is not None]
        counts = reduce(np.add, ((~nulls(piece)).astype(np.int8) for piece in given), np.zeros(self._count, np.int8))
        self._refuse(counts > 1, f"more than one of {', '.join(DELAYS)} is given")
        return given

    def _level(self) -> pa.Array | None:
        levels = self._columns.get("delay_level")
        return None if levels is None else pc.if_else(pc.greater(levels, 0), levels, None)

    def _task_properties(self) -> pa.Array:
        rows = pa.array(self._numbers).cast(pa.string()).cast(BINARY)
        prefix = f"{names.SINK_BATCH}\x01{self._task.batch}\x02{names.SINK_ROW}".encode()
        return pc.binary_join_element_wise(pa.scalar(prefix, BINARY), rows, NAME_END)

    def _ids(self) -> pa.Array:
        if "id" in self._columns:
            values = self._columns["id"]
            self._refuse(nulls(values), "the column named by idColumn is null, so its id would differ from run to run")
            return value_ids(values.cast(pa.string()) if pa.types.is_integer(values.type) else values)
        given = self._text("message_id")
        if given is not None and not given.null_count:
            return given
        ids = self._row_ids.ids(self._contents())
        return ids if given is None else pc.coalesce(given, ids)

    @property
    def _numbers(self) -> Int64s:
        return np.arange(self._first, self._first + self._count)

    def _refuse_in(self, bounds: pa.Array, kept: pa.Array, wrong: NDArray[np.bool_], why: str) -> None:
        """Reject a row because of one of the kept values of its list."""
        if wrong.any():
            values = np.flatnonzero(true(kept))[wrong]
            rows = np.searchsorted(bounds.to_numpy(), values, "right") - 1
            self._refuse(np.isin(np.arange(self._count), rows), why)

    def _refuse(self, wrong: NDArray[np.bool_], why: str) -> None:
        if wrong.any():
            row = self._first + int(wrong.argmax())
            raise InvalidMessage(f"row {row} of partition {self._task.partition} cannot be sent: {why}")
