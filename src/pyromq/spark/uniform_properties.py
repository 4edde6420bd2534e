"""Properties of records that all have the same names in the same order, as those of one producer do.

Where that is so nothing has to be looked up: the place of a name in one row is its place in all of them, and only the
values that are asked for are copied.
"""

from __future__ import annotations

from itertools import accumulate

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pyromq.spark.arrow import Int64s, Octets, take, take_ranges
from pyromq.store.read.gather import is_text

_MOST_NAMES = 64


class UniformProperties:
    """Properties of records that begin at `starts`; `separators` are where each name and each value ends."""

    def __init__(self, names: list[bytes], octets: Octets, starts: Int64s, separators: Int64s) -> None:
        self._names = names
        self._octets = octets
        self._starts = starts
        self._ends = separators.reshape(len(starts), 2 * len(names))

    @classmethod
    def find(cls, octets: Octets, offsets: NDArray[np.int32], separators: Int64s) -> UniformProperties | None:
        """Return the properties of texts `octets[offsets[i]:offsets[i + 1]]`; None unless they have the same names."""
        rows = len(offsets) - 1
        count, rest = divmod(len(separators), 2 * rows) if rows else (0, 0)
        if rest or not 0 < count <= _MOST_NAMES:
            return None
        if (separators[2 * count - 1 :: 2 * count] + 1 != offsets[1:]).any():
            return None
        starts = offsets[:-1].astype(np.int64)
        names = []
        for index in range(count):
            begin = starts if index == 0 else separators[2 * index - 1 :: 2 * count] + 1
            end = separators[2 * index :: 2 * count]
            name = octets[begin[0] : end[0]].tobytes()
            if (end - begin != len(name)).any() or not is_text(octets.data, begin, name).all():
                return None
            names.append(name)
        return cls(names, octets, starts, separators) if len(set(names)) == count else None

    def get(self, name: str) -> pa.Array:
        """Return the value of one property for each row; null for all if it is missing."""
        try:
            index = self._names.index(name.encode())
        except ValueError:
            return pa.nulls(len(self._starts), pa.string())
        return take_ranges(pa.string(), self._data, self._ends[:, 2 * index] + 1, self._ends[:, 2 * index + 1])

    def as_map(self) -> pa.MapArray:
        """Return all properties as one map for each row."""
        rows, count = len(self._starts), len(self._names)
        bounds = np.arange(0, rows * count + 1, count, dtype=np.int32)
        return pa.MapArray.from_arrays(bounds, self._all_names(), self._all_values())

    @property
    def _data(self) -> pa.Buffer:
        return pa.py_buffer(self._octets)

    def _all_names(self) -> pa.Array:
        text, rows = b"".join(self._names), len(self._starts)
        ends = np.array(list(accumulate(map(len, self._names))))
        offsets = np.zeros(rows * len(ends) + 1, np.int32)
        offsets[1:] = (ends + len(text) * np.arange(rows)[:, None]).ravel()
        return pa.Array.from_buffers(
            pa.string(), len(offsets) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(text * rows)]
        )

    def _all_values(self) -> pa.Array:
        # Offsets over the same bytes: name, separator and value, separator, name …; the values are every second piece.
        ends = self._ends.ravel()
        edges = np.zeros(len(ends) + 1, np.int32)
        edges[:-1:2], edges[1::2], edges[-1] = ends[0::2] + 1, ends[1::2], ends[-1]
        pieces = pa.Array.from_buffers(pa.string(), len(ends), [None, pa.py_buffer(edges), self._data])
        return take(pieces, np.arange(0, len(ends), 2, dtype=np.int32))
