"""Message properties as Arrow: splits `name 0x01 value 0x02 …` of many records into names and values at once."""

from __future__ import annotations

from functools import cached_property
from itertools import accumulate

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pyromq.protocol.messages.properties import decode_properties
from pyromq.spark.arrow import Int64s, Octets, content, merge, take, take_ranges
from pyromq.store.read.gather import is_text

_AFTER_NAME, _AFTER_VALUE = 1, 2
_FEW_NAMES = 32
_MAP = pa.map_(pa.string(), pa.string())


class Properties:
    """The properties of many records: row i has those from `bounds[i]` to `bounds[i + 1]`."""

    def __init__(self, names: pa.Array, values: pa.Array, bounds: NDArray[np.int32]) -> None:
        self._names = names
        self._values = values
        self._bounds = bounds

    @classmethod
    def of_texts(cls, data: pa.Buffer, octets: Octets, starts: Int64s, ends: Int64s) -> Properties | UniformProperties:
        """Parse the texts `data[start:end]`, skipping malformed pieces; a readable byte must follow each text."""
        texts = _terminated(data, octets, starts, ends)
        parsed = cls._cut(texts)
        if parsed is not None:
            return parsed
        odd = _irregular_rows(texts)
        shorter = ends.copy()
        shorter[odd] = starts[odd]
        others = cls._cut(_terminated(data, octets, starts, shorter), look_for_uniform=False)
        assert isinstance(others, Properties), "a row with irregular separators was overlooked"
        return others._with_rows(odd, take_ranges(pa.binary(), data, starts[odd], ends[odd]))

    @classmethod
    def _cut(cls, texts: pa.Array, *, look_for_uniform: bool = True) -> Properties | UniformProperties | None:
        """Split at the separators; return None unless they alternate everywhere with something between them."""
        offsets, octets = content(texts)
        separators = np.flatnonzero(_is_separator(octets))
        names_end, values_end = octets[separators[0::2]], octets[separators[1::2]]
        if len(separators) % 2 or (names_end != _AFTER_NAME).any() or (values_end != _AFTER_VALUE).any():
            return None
        if (np.diff(separators, prepend=-1) == 1).any():
            return None
        uniform = UniformProperties.find(octets, offsets, separators) if look_for_uniform else None
        if uniform is not None:
            return uniform
        # Offsets over the same bytes: name, separator, value, separator, name …
        edges = np.zeros(2 * len(separators) + 1, np.int32)
        edges[1::2], edges[2::2] = separators, separators + 1
        pieces = pa.Array.from_buffers(pa.string(), len(edges) - 1, [None, pa.py_buffer(edges), texts.buffers()[2]])
        names = take(pieces, np.arange(0, len(edges) - 1, 4, dtype=np.int32))
        values = take(pieces, np.arange(2, len(edges) - 1, 4, dtype=np.int32))
        return cls(names, values, (np.searchsorted(separators, offsets) // 2).astype(np.int32))

    def _with_rows(self, rows: Int64s, texts: pa.Array) -> Properties:
        """Replace some rows with what a client would read from their texts."""
        read = pa.array([list(decode_properties(text.as_py()).items()) for text in texts], _MAP)
        merged = merge(pa.MapArray.from_arrays(self._bounds, self._names, self._values), rows, read)
        return Properties(merged.keys, merged.items, merged.offsets.to_numpy())

    def get(self, name: str) -> pa.Array:
        """Return the value of one property for each row, null where it is missing; the last duplicate wins."""
        places = np.full(len(self._bounds) - 1, -1)
        code = pc.index(self._encoded.dictionary, name).as_py()
        if code >= 0:
            found = np.flatnonzero(self._codes == code)
            places[self._rows[found]] = found
        return take(self._values, places)

    def as_map(self) -> pa.MapArray:
        """Return all properties as one map for each row; the last duplicate of a name wins."""
        names, values, bounds = self._names, self._values, self._bounds
        overruled = self._overruled()
        if len(overruled):
            kept = np.ones(len(names), bool)
            kept[overruled] = False
            names, values = names.filter(pa.array(kept)), values.filter(pa.array(kept))
            bounds = np.concatenate(([0], np.cumsum(kept)))[bounds].astype(np.int32)
        return pa.MapArray.from_arrays(bounds, names, values)

    @cached_property
    def _rows(self) -> Int64s:
        return np.repeat(np.arange(len(self._bounds) - 1), np.diff(self._bounds))

    @cached_property
    def _encoded(self) -> pa.DictionaryArray:
        return pc.dictionary_encode(self._names)  # numbers are compared many times faster than texts

    @cached_property
    def _codes(self) -> NDArray[np.int32]:
        codes: NDArray[np.int32] = self._encoded.indices.to_numpy()
        return codes

    def _overruled(self) -> Int64s:
        """Return the indexes of properties that a later one of the same name and row overrides."""
        if len(self._encoded.dictionary) <= _FEW_NAMES and not self._has_repeats():
            return np.empty(0, np.int64)
        marks = self._rows * len(self._encoded.dictionary) + self._codes
        places = np.argsort(marks, kind="stable")
        followed: Int64s = places[:-1][marks[places[1:]] == marks[places[:-1]]]
        return followed

    def _has_repeats(self) -> bool:
        """Return True if a row has a name twice; works for few names only."""
        # Powers of two, one per name, have the same sum with and without carry exactly if no two are equal.
        bits = np.int64(1) << self._codes.astype(np.int64)
        sums, without_carry = (np.concatenate(([0], add.accumulate(bits))) for add in (np.add, np.bitwise_xor))
        starts, ends = self._bounds[:-1], self._bounds[1:]
        return bool((sums[ends] - sums[starts] != without_carry[ends] ^ without_carry[starts]).any())


def _is_separator(octets: Octets) -> NDArray[np.bool_]:
    return (octets - np.uint8(1)) < 2  # one pass for both: 0 wraps to 255


def _terminated(data: pa.Buffer, octets: Octets, starts: Int64s, ends: Int64s) -> pa.Array:
    """Copy the texts so that each, unless empty, ends with a separator, as brokers up to 4.9.0 wrote them."""
    lacks_one = (ends > starts) & (octets[ends - 1] != _AFTER_VALUE)
    texts = take_ranges(pa.binary(), data, starts, ends + lacks_one)
    if lacks_one.any():
        offsets, copied = content(texts)
        copied[offsets[1:][lacks_one] - 1] = _AFTER_VALUE
    return texts


def _irregular_rows(texts: pa.Array) -> Int64s:
    """Return the rows whose separators do not alternate, or with an empty name or value."""
    offsets, octets = content(texts)
    separators = np.flatnonzero(_is_separator(octets))
    rows = np.searchsorted(offsets, separators, side="right") - 1
    first = np.searchsorted(separators, offsets)[rows]
    index = np.arange(len(separators)) - first
    before = np.where(index == 0, offsets[rows] - 1, np.roll(separators, 1))
    expected = np.where(index % 2 == 0, _AFTER_NAME, _AFTER_VALUE)
    return np.unique(rows[(octets[separators] != expected) | (separators - before == 1)])


_MOST_NAMES = 64


class UniformProperties:
    """Properties of records that all have the same names in the same order, as those of one producer do.

    Nothing has to be looked up then: a name has the same index in all rows, and only requested values are copied.
    Records begin at `starts`; `separators` are the ends of each name and each value.
    """

    def __init__(self, names: list[bytes], octets: Octets, starts: Int64s, separators: Int64s) -> None:
        self._names = names
        self._octets = octets
        self._starts = starts
        self._ends = separators.reshape(len(starts), 2 * len(names))

    @classmethod
    def find(cls, octets: Octets, offsets: NDArray[np.int32], separators: Int64s) -> UniformProperties | None:
        """Return the properties of the texts `octets[offsets[i]:offsets[i + 1]]`, or None if their names differ."""
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
        """Return the value of one property for each row; all null if it is missing."""
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
        # Offsets over the same bytes: name, separator and value, separator, name …; every second piece is a value.
        ends = self._ends.ravel()
        edges = np.zeros(len(ends) + 1, np.int32)
        edges[:-1:2], edges[1::2], edges[-1] = ends[0::2] + 1, ends[1::2], ends[-1]
        pieces = pa.Array.from_buffers(pa.string(), len(ends), [None, pa.py_buffer(edges), self._data])
        return take(pieces, np.arange(0, len(ends), 2, dtype=np.int32))
