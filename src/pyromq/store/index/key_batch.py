"""Hashes of the keys of many messages at once: half a microsecond a message, where one at a time costs six.

All property texts are laid end to end and searched as one array of bytes:

    02 02 … 02 | KEYS 01 k1 k2 02 UNIQ_KEY 01 7F00… 02 TAGS 01 a | 02 | KEYS 01 k3 | 02        a value is a run of bytes

Java's hash of a run is the sum of its bytes times powers of 31. Modulo 2³² 31 has an inverse, so running sums of
`byte × 31⁻ᵖᵒˢⁱᵗⁱᵒⁿ` over the whole array give the hash of every run by one subtraction and one multiplication.

The native lane does that in C, one message after the other, but for keys beyond ASCII.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from pyromq.lane.keys import key_lane
from pyromq.protocol.tag_filter import java_hash
from pyromq.store.index.key_hash import COLUMNS, StoredKeys, key_hash, prefix

Ints = NDArray[np.int64]
Hashes = NDArray[np.int32]
Ranks = NDArray[np.int16]

_MAX_BYTES: Final = 1 << 17  # well above the longest text of one message
_MAX_MESSAGES: Final = 1 << 13
_MAX_TOPICS: Final = 10_000
_MODULUS: Final = 1 << 32
_UNIQ_KEY: Final = np.uint64(int.from_bytes(b"UNIQ_KEY", "little"))
_KEYS: Final = np.uint64(int.from_bytes(b"KEYS", "little"))
_lane: Final = key_lane()
_FRONT: Final = b"\x02" * 9  # so that nine bytes stand before every mark, and a separator before the first name


class KeyBatch(NamedTuple):
    """One row for each key of some messages, in their order."""

    hashes: Hashes
    offsets: Ints
    times_ms: Ints

    def rows(self, first: int, stop: int) -> KeyBatch:
        """Return some of the rows."""
        return KeyBatch(self.hashes[first:stop], self.offsets[first:stop], self.times_ms[first:stop])

    def without(self, hashes: Collection[int]) -> KeyBatch:
        """Return the rows that have none of these hashes."""
        kept = ~np.isin(self.hashes, list(hashes))
        return KeyBatch(self.hashes[kept], self.offsets[kept], self.times_ms[kept])


def hash_keys(messages: StoredKeys) -> KeyBatch:
    """Return the hash of every key of every message, with the message's place and time."""
    found = None if _lane is None else _lane.hash_keys(messages)
    if found is None:
        return plain_hash_keys(messages)
    hashes, offsets, times_ms = found
    return KeyBatch(
        np.frombuffer(hashes, np.int32), np.frombuffer(offsets, np.int64), np.frombuffer(times_ms, np.int64)
    )


def plain_hash_keys(messages: StoredKeys) -> KeyBatch:
    """Do the same in numpy."""
    topics, texts = cast(list[str], messages[0::COLUMNS]), cast(list[bytes], messages[1::COLUMNS])
    if len(texts) > 1 and (sum(map(len, texts)) + len(texts) > _MAX_BYTES or len(texts) > _MAX_MESSAGES):
        middle = len(texts) // 2 * COLUMNS
        return _join(plain_hash_keys(messages[:middle]), plain_hash_keys(messages[middle:]))
    hashes, owners = _hash_all(topics, texts)
    offsets, times_ms = np.array(messages[2::COLUMNS], np.int64), np.array(messages[3::COLUMNS], np.int64)
    return KeyBatch(hashes, offsets[owners], times_ms[owners])


def _join(first: KeyBatch, second: KeyBatch) -> KeyBatch:
    return KeyBatch(
        np.concatenate((first.hashes, second.hashes)),
        np.concatenate((first.offsets, second.offsets)),
        np.concatenate((first.times_ms, second.times_ms)),
    )


def _hash_all(topics: Sequence[str], texts: Sequence[bytes]) -> tuple[Hashes, Ints]:
    text = b"".join((_FRONT, b"\x02".join(texts), b"\x02"))
    starts, ends, owners = _find_keys(text, texts)
    prefixes = np.fromiter(map(_prefix_hashes.__getitem__, topics), np.uint32, len(topics))
    hashes = _positive(prefixes[owners] * _POWERS[ends - starts] + _hash_runs(text, starts, ends))
    if not text.isascii():
        _hash_wide_keys(topics, text, (starts, ends, owners), hashes)
    return hashes, owners


def _find_keys(text: bytes, texts: Sequence[bytes]) -> tuple[Ints, Ints, Ints]:
    """Return where keys begin and end, and whose they are: by message, the unique key first."""
    data = np.frombuffer(text, np.uint8)
    starts, ends, is_unique = _find_values(text, data)
    text_ends = np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)) + 1) + len(_FRONT)
    # Twice the message's number, one more for KEYS: the order of entries, and what tells a name given twice.
    # 16 bits, because numpy sorts those without comparing.
    ranks = (np.searchsorted(text_ends, starts, "right") * 2 + ~is_unique).astype(np.int16)
    starts, ends, ranks = _last_of_each(starts, ends, ranks)
    if b" " in text:
        starts, ends, ranks = _split(data, starts, ends, ranks)
    order = np.argsort(ranks, kind="stable")
    return starts[order], ends[order], ranks[order] >> 1


def _find_values(text: bytes, data: NDArray[np.uint8]) -> tuple[Ints, Ints, NDArray[np.bool_]]:
    """Return where the values of UNIQ_KEY and KEYS begin and end, and which are of UNIQ_KEY."""
    controls = np.flatnonzero(data <= 2)
    numbers = np.flatnonzero(data[controls] == 1)
    marks = controls[numbers]
    eight_bytes = np.ndarray((len(text) - 7,), "<u8", text, strides=(1,))
    names = eight_bytes[marks - 8]
    is_unique = (names == _UNIQ_KEY) & (data[marks - 9] == 2)
    wanted = is_unique | ((names >> np.uint64(32) == _KEYS) & (data[marks - 5] == 2))
    starts, ends = marks[wanted] + 1, controls[numbers[wanted] + 1]
    if not bool((data[ends] == 2).all()):  # a value may hold such bytes: it ends at the next separator
        separators = controls[data[controls] == 2]
        ends = separators[np.searchsorted(separators, starts)]
    return starts, ends, is_unique[wanted]


def _last_of_each(starts: Ints, ends: Ints, ranks: Ranks) -> tuple[Ints, Ints, Ranks]:
    """Keep the values that count: of two with one name in one message the last that is not empty."""
    if len(starts) == np.count_nonzero(np.bincount(ranks)) and bool((ends > starts).all()):
        return starts, ends, ranks  # the usual case
    found = np.flatnonzero(ends > starts)
    # The first of each in an array turned round is the last of each in the array.
    kept = found[::-1][np.unique(ranks[found][::-1], return_index=True)[1]]
    kept.sort()
    return starts[kept], ends[kept], ranks[kept]


def _split(data: NDArray[np.uint8], starts: Ints, ends: Ints, ranks: Ranks) -> tuple[Ints, Ints, Ranks]:
    """Part the values of KEYS at blanks; empty pieces are none."""
    blanks = np.flatnonzero(data == 0x20)
    if not len(starts):
        return starts, ends, ranks
    values = np.searchsorted(starts, blanks, "right") - 1
    inside = (values >= 0) & (blanks < ends[values]) & (ranks[values] & 1 == 1)
    blanks = blanks[inside]
    first, last = np.sort(np.append(starts, blanks + 1)), np.sort(np.append(ends, blanks))
    ranks = ranks[np.searchsorted(starts, first, "right") - 1]
    pieces = last > first
    return first[pieces], last[pieces], ranks[pieces]


def _hash_runs(text: bytes, starts: Ints, ends: Ints) -> NDArray[np.uint32]:
    data = np.frombuffer(text, np.uint8)
    sums = np.zeros(len(data) + 1, np.uint32)
    np.cumsum(data * _INVERSES[: len(data)], dtype=np.uint32, out=sums[1:])
    hashes: NDArray[np.uint32] = (sums[ends] - sums[starts]) * _POWERS[ends - 1]
    return hashes


def _hash_wide_keys(topics: Sequence[str], text: bytes, found: tuple[Ints, Ints, Ints], hashes: Hashes) -> None:
    # Java counts UTF-16 units, not bytes: keys with such characters are hashed one at a time.
    for number, (start, end, owner) in enumerate(zip(*(column.tolist() for column in found), strict=True)):
        key = text[start:end]
        if not key.isascii():
            hashes[number] = key_hash(topics[owner], key.decode("utf-8", "replace"))


def _positive(hashes: NDArray[np.uint32]) -> Hashes:
    signed = np.abs(hashes.view(np.int32))
    return np.maximum(signed, np.int32(0))  # the smallest number stays negative, as in Java


class _PrefixHashes(dict[str, int]):
    # Topics come from clients, so it is bounded.
    def __missing__(self, topic: str) -> int:
        if len(self) >= _MAX_TOPICS:
            self.clear()
        value = self[topic] = java_hash(prefix(topic)) % _MODULUS
        return value


_prefix_hashes = _PrefixHashes()


def _powers(base: int) -> NDArray[np.uint32]:
    factors = np.full(_MAX_BYTES + 2 * len(_FRONT), base, np.uint32)
    factors[0] = 1
    return np.cumprod(factors, dtype=np.uint32)


_POWERS: Final = _powers(31)
_INVERSES: Final = _powers(pow(31, -1, _MODULUS))
