"""Arrow arrays built from numpy arrays and buffer ranges: one copy each, no Python object per value."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Int64s = NDArray[np.int64]
Octets = NDArray[np.uint8]

_MICROSECONDS = 1000
_TIMESTAMP = pa.timestamp("us", "UTC")
_MOST_MS = (2**63 - 1) // _MICROSECONDS
_HEX_PAIRS = np.frombuffer(b"".join(b"%02X" % octet for octet in range(256)), np.uint16)


def take_ranges(kind: pa.DataType, data: pa.Buffer, starts: Int64s, ends: Int64s) -> pa.Array:
    """Copy `data[start:end]` of every row into one array of `kind` (binary or string); data is below 2 GiB."""
    alike = _take_alike(kind, data, starts, ends)
    if alike is not None:
        return alike
    # Interleaved starts and ends are the offsets of an array whose even values are the rows. The odd values, the bytes
    # between two rows, are never read, so their offsets may decrease.
    count = len(starts)
    offsets = np.empty(2 * count + 1, np.int32)
    offsets[0 : 2 * count : 2], offsets[1 : 2 * count : 2] = starts, ends
    offsets[2 * count] = max(starts[0], ends[-1]) if count else 0
    both = pa.Array.from_buffers(kind, 2 * count, [None, pa.py_buffer(offsets), data])
    return take(both, np.arange(0, 2 * count, 2, dtype=np.int32))


def _take_alike(kind: pa.DataType, data: pa.Buffer, starts: Int64s, ends: Int64s) -> pa.Array | None:
    """Copy ranges of equal length as fixed-size numpy values, in half the time; return None if lengths differ."""
    count, width = len(starts), int(ends[0] - starts[0]) if len(starts) else 0
    if width <= 0 or (ends - starts != width).any():
        return None
    texts: NDArray[np.void] = np.ndarray((len(data) - width + 1,), f"V{width}", data, 0, (1,))
    offsets = np.arange(0, count * width + 1, width, dtype=np.int32)
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(offsets), pa.py_buffer(texts[starts])])


def take(array: pa.Array, rows: NDArray[Any]) -> pa.Array:
    """Return the given rows of the array; a negative row number gives null."""
    missing = rows < 0
    return pc.take(array, pa.array(rows, mask=missing if missing.any() else None), boundscheck=False)


def merge(plain: pa.Array, rows: Int64s, others: pa.Array) -> pa.Array:
    """Return `plain` with the given rows replaced by `others`."""
    order = np.arange(len(plain))
    order[rows] = len(plain) + np.arange(len(rows))
    return take(pa.concat_arrays([plain, others]), order)


def content(texts: pa.Array) -> tuple[NDArray[np.int32], Octets]:
    """Return the offsets and bytes of a binary array just built by `take_ranges`, without copying them."""
    _, offsets, octets = texts.buffers()
    return np.frombuffer(offsets, np.int32)[: len(texts) + 1], np.frombuffer(octets or b"", np.uint8)


def numbers(values: NDArray[Any]) -> pa.Array:
    """Return integers as an Arrow array of the same width, without a copy."""
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [None, pa.py_buffer(values)])


def timestamps(times_ms: Int64s) -> pa.Array:
    """Return times as Spark timestamps; null where a producer's time does not fit into microseconds."""
    if not len(times_ms) or (times_ms.max() <= _MOST_MS and times_ms.min() >= -_MOST_MS):
        return numbers(times_ms * _MICROSECONDS).view(_TIMESTAMP)
    impossible = (times_ms > _MOST_MS) | (times_ms < -_MOST_MS)
    array = numbers(np.where(impossible, 0, times_ms) * _MICROSECONDS).view(_TIMESTAMP)
    return pc.if_else(pa.array(impossible), None, array)


def hex_text(octets: Octets) -> pa.Array:
    """Return each row of a byte matrix as upper-case hex digits."""
    rows, width = octets.shape
    digits = np.ascontiguousarray(_HEX_PAIRS[octets])
    offsets = (2 * width * np.arange(rows + 1)).astype(np.int32)
    return pa.Array.from_buffers(pa.string(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(digits)])


def _are_single_words(texts: pa.Array) -> bool:
    """Return True if no text is null, empty or contains a space."""
    if texts.null_count or texts.offset or not len(texts):
        return False
    offsets, octets = content(texts)
    return bool((np.diff(offsets) > 0).all()) and not (octets[offsets[0] : offsets[-1]] == ord(" ")).any()


def split_words(texts: pa.Array) -> pa.Array:
    """Split each text at spaces; consecutive spaces count as one, and null stays null."""
    if _are_single_words(texts):
        return pa.ListArray.from_arrays(np.arange(len(texts) + 1, dtype=np.int32), texts)
    lists = pc.split_pattern(texts, " ")
    words, bounds = lists.values, lists.offsets.to_numpy()
    kept = pc.greater(pc.binary_length(words), 0).to_numpy(zero_copy_only=False)
    if kept.all():
        return lists
    fewer = np.concatenate(([0], np.cumsum(kept)))[bounds].astype(np.int32)
    return pa.ListArray.from_arrays(fewer, words.filter(pa.array(kept)), mask=lists.is_null())
