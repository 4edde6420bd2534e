"""Columns of text on their way into properties: `name 0x01 value 0x02 …`, null where a row has none."""

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
    """Return a column with offsets of 32 bits: Spark can be set to send it with 64."""
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
    """Join what is left of each list; null where that is nothing."""
    places = np.concatenate(([0], np.cumsum(kept.to_numpy(zero_copy_only=False))))
    lists = pa.ListArray.from_arrays(places[bounds.to_numpy()].astype(np.int32), values)
    return filled(pc.binary_join(lists, separator))


def is_filled(texts: pa.Array) -> pa.Array:
    """Tell which texts are neither null nor empty."""
    return pc.greater(pc.binary_length(texts), 0).fill_null(False)


def filled(texts: pa.Array) -> pa.Array:
    """Return the texts with null for an empty one."""
    kept = is_filled(texts)
    return texts if pc.all(kept).as_py() else pc.if_else(kept, texts, None)


def holds(texts: pa.Array, text: str) -> NDArray[np.bool_]:
    """Tell which texts have this one in them."""
    return true(pc.match_substring(texts, text).fill_null(False))


def nulls(array: pa.Array) -> NDArray[np.bool_]:
    """Tell which values are null."""
    return true(array.is_null())


def true(array: pa.Array) -> NDArray[np.bool_]:
    """Return an array of truth values; null is false."""
    flags: NDArray[np.bool_] = array.fill_null(False).to_numpy(zero_copy_only=False)
    return flags
