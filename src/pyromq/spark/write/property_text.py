"""Builds property texts from columns: `name 0x01 value 0x02 …`, null where a row has no value."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pyromq.protocol.messages.properties import NAME_VALUE_SEPARATOR, PROPERTY_SEPARATOR

BINARY = pa.binary()
NAME_END = pa.scalar(NAME_VALUE_SEPARATOR.encode(), BINARY)
VALUE_END = pa.scalar(PROPERTY_SEPARATOR.encode(), BINARY)


def plain(column: pa.Array) -> pa.Array:
    """Return a column with 32-bit offsets; Spark can be configured to send 64-bit ones."""
    if "large" not in str(column.type):
        return column
    if pa.types.is_map(column.type):
        return column.cast(pa.map_(pa.string(), pa.string()))
    if pa.types.is_list(column.type):
        return column.cast(pa.list_(pa.string()))
    return column.cast(pa.binary() if pa.types.is_large_binary(column.type) else pa.string())


def piece(name: str, values: pa.Array | None) -> pa.Array | None:
    """Return `name 0x01 value`, null where there is no value."""
    if values is None:
        return None
    texts = values.cast(pa.string()) if pa.types.is_integer(values.type) else values
    return pc.binary_join_element_wise(pa.scalar(name.encode(), BINARY), texts.cast(BINARY), NAME_END)


def join_lists(values: pa.Array, bounds: pa.Array, kept: pa.Array, separator: pa.Scalar) -> pa.Array:
    """Join the kept values of each list; null for an empty list."""
    places = np.concatenate(([0], np.cumsum(kept.to_numpy(zero_copy_only=False))))
    lists = pa.ListArray.from_arrays(places[bounds.to_numpy()].astype(np.int32), values)
    return filled(pc.binary_join(lists, separator))


def is_filled(texts: pa.Array) -> pa.Array:
    """Return which texts are neither null nor empty."""
    return pc.greater(pc.binary_length(texts), 0).fill_null(False)


def filled(texts: pa.Array) -> pa.Array:
    """Return the texts with null in place of empty ones."""
    kept = is_filled(texts)
    return texts if pc.all(kept).as_py() else pc.if_else(kept, texts, None)


def holds(texts: pa.Array, text: str) -> NDArray[np.bool_]:
    """Return which texts contain the given one."""
    return true(pc.match_substring(texts, text).fill_null(False))


def nulls(array: pa.Array) -> NDArray[np.bool_]:
    """Return which values are null."""
    return true(array.is_null())


def true(array: pa.Array) -> NDArray[np.bool_]:
    """Return booleans as a numpy array; null is False."""
    flags: NDArray[np.bool_] = array.fill_null(False).to_numpy(zero_copy_only=False)
    return flags
