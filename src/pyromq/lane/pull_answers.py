"""The answer to a plain pull, from the entries of a queue and the mapped log: the plain form of `c/_pulls.c`.

A pull is plain if all that it gets lies in one file of the log, within a stretch that is known to be in memory.
Anything else is no error here: there is no answer, and the ordinary path finds out what to do.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from operator import add
from typing import Final, NamedTuple, Protocol, cast
from zlib import crc32

from pyromq.lane import native
from pyromq.protocol.frame_templates import found_answer_head
from pyromq.protocol.messages.record import HEAD_SIZE, MESSAGE_MAGIC, SMALLEST_RECORD, V6_FLAGS

MOST_CODES: Final = 16
"""Tags of a plain pull: so many comparisons are quick."""
LOWEST_CODE_HIGH: Final = -1
"""Below this the field is no tags code but the address of an extension unit: unknown, so every filter lets it pass."""

_ENTRY_SIZE: Final = 20
_PLACE_AND_CODE: Final = struct.Struct(">qiii")  # the tags code in two halves: a filter compares the low one
_MOST_AT_ONCE: Final = 256
_CODES: Final = struct.Struct("=i")
# total size, magic, body CRC, queue id, queue offset, physical offset, sys flag
_HEAD: Final = struct.Struct(">iIii4xqqi")
_BODY_LENGTH: Final = struct.Struct(">i")
_BODY_LENGTH_POSITION: Final = 84


class FoundFrame(NamedTuple):
    """A whole frame, and how many messages of how many bytes it holds."""

    frame: bytes
    messages: int
    size: int


class AnswerPull(Protocol):
    """Makes the answer to a plain pull; None if the pull is not plain."""

    def __call__(
        self,
        entries: bytes | bytearray,
        codes: bytes | None,
        whole: bytes | memoryview,
        start: int,
        low: int,
        high: int,
        most: int,
        most_bytes: int,
        must_fill: bool,
        offset: int,
        min_offset: int,
        max_offset: int,
        suggest: int,
        opaque: int,
        /,
    ) -> tuple[bytes, int, int] | None:
        """Take entries from `offset` on until the answer has `most` messages or the next is over `most_bytes`.

        With `codes`, only messages with one of these tags. `whole` is the file that begins at `start`; records must lie
        from `low` up to `high`. With `must_fill` there are more entries, so an answer that could hold more is none.
        """


class Owner(NamedTuple):
    """Whose record is looked for: that of a queue, at an offset."""

    topic: bytes
    queue_id: int
    queue_offset: int


def is_plain_record(data: bytes | memoryview, at: int, size: int, position: int, owner: Owner) -> bool:
    """Tell whether bytes of this size are a whole record with IPv4 hosts, that of its place and owner.

    `position` is where they stand in the log. There are SMALLEST_RECORD bytes or more.
    """
    found_size, magic, crc, queue_id, queue_offset, physical_offset, sys_flag = _HEAD.unpack_from(data, at)
    if (found_size, magic, physical_offset) != (size, MESSAGE_MAGIC, position):
        return False
    topic = owner.topic
    body_end = at + HEAD_SIZE + _BODY_LENGTH.unpack_from(data, at + _BODY_LENGTH_POSITION)[0]
    topic_end = body_end + 1 + len(topic)
    return (
        not sys_flag & V6_FLAGS
        and (queue_id, queue_offset) == (owner.queue_id, owner.queue_offset)
        and at + HEAD_SIZE <= body_end
        and topic_end + 2 <= at + size
        and data[body_end] == len(topic)
        and data[body_end + 1 : topic_end] == topic
        and data[topic_end] << 8 | data[topic_end + 1] == at + size - topic_end - 2
        and crc32(data[at + HEAD_SIZE : body_end]) & 0x7FFFFFFF == crc
    )


def are_plain_records(
    entries: bytes | bytearray,
    codes: bytes | None,
    messages: int,
    whole: bytes | memoryview,
    start: int,
    first: Owner,
) -> bool:
    """Tell whether the first records that pass a filter, so many, are whole and those of their queue.

    `whole` is the file that begins at `start` and holds them; `first` would own the record of the first entry.
    """
    topic, queue_id, offset = first
    return all(
        is_plain_record(whole, position - start, size, position, Owner(topic, queue_id, offset + index))
        for index, position, size in islice(_matching(entries, codes), messages)
    )


def answer_pull() -> AnswerPull:
    """Return the native form if there is one."""
    module = native("pulls")
    return plain_answer if module is None else cast(AnswerPull, module.answer)


@lru_cache(maxsize=1024)
def packed_codes(codes: frozenset[int]) -> bytes | None:
    """Return tags codes as a plain pull wants them; None if they are too many, or no hash of a tag."""
    if len(codes) > MOST_CODES or not all(-(1 << 31) <= code < 1 << 31 for code in codes):
        return None
    return b"".join(map(_CODES.pack, sorted(codes)))


@lru_cache(maxsize=_MOST_AT_ONCE)
def _entries_at_once(count: int) -> struct.Struct:
    """Return what unpacks position, length and the low half of the tags code of so many entries."""
    return struct.Struct(">" + "qi4xi" * count)


@lru_cache(maxsize=1024)
def _unpacked(codes: bytes) -> frozenset[int]:
    return frozenset(code for (code,) in _CODES.iter_unpack(codes))


def plain_answer(
    entries: bytes | bytearray,
    codes: bytes | None,
    whole: bytes | memoryview,
    start: int,
    low: int,
    high: int,
    most: int,
    most_bytes: int,
    must_fill: bool,
    offset: int,
    min_offset: int,
    max_offset: int,
    suggest: int,
    opaque: int,
    /,
) -> FoundFrame | None:
    """Make the answer; see AnswerPull."""
    low, high = max(low, start), min(high, start + len(whole))
    taken = _first_ones(entries, codes, low, high, most, most_bytes)
    taken = taken or _take(entries, codes, low, high, most, most_bytes)
    if taken is None or (must_fill and not taken.is_full):
        return None
    if int.from_bytes(entries[taken.seen * _ENTRY_SIZE - _ENTRY_SIZE :][:8], signed=True) < low:
        return None  # a filter has looked back further
    head = found_answer_head(suggest, offset + taken.seen, min_offset, max_offset, opaque, taken.size)
    views = [whole[first - start : last - start] for first, last in taken.runs]
    return FoundFrame(b"".join((head, *views)), taken.messages, taken.size)


class _Taken(NamedTuple):
    """The records of an answer, and how many entries were looked at for it."""

    runs: list[tuple[int, int]]
    messages: int
    size: int
    seen: int
    is_full: bool


def _first_ones(
    entries: bytes | bytearray, codes: bytes | None, low: int, high: int, most: int, most_bytes: int
) -> _Taken | None:
    """Take the first entries, without a look at each; None if something is special about one."""
    count = min(len(entries) // _ENTRY_SIZE, most)
    if not 0 < count <= _MOST_AT_ONCE:
        return None
    values = _entries_at_once(count).unpack_from(entries)  # one call, and no tuple for each entry
    if codes is not None and not _unpacked(codes).issuperset(values[2::3]):
        return None
    offsets, sizes = values[::3], values[1::3]
    ends = [*map(add, offsets, sizes)]
    size = sum(sizes)
    if min(offsets) < low or max(ends) > high or min(sizes) < SMALLEST_RECORD or size > most_bytes:
        return None
    are_neighbours = ends[-1] - offsets[0] == size and [*offsets[1:]] == ends[:-1]  # those of one busy queue
    runs = [(offsets[0], ends[-1])] if are_neighbours else [*zip(offsets, ends, strict=True)]
    return _Taken(runs, count, size, count, count == most)


def _take(
    entries: bytes | bytearray, codes: bytes | None, low: int, high: int, most: int, most_bytes: int
) -> _Taken | None:
    """Take what fits; None if there is nothing, or not all of it is within bounds."""
    runs: list[tuple[int, int]] = []
    size = 0
    for index, position, length in _matching(entries, codes):
        end = position + length
        if position < low or end > high or length < SMALLEST_RECORD:
            return None
        if runs and size + length > most_bytes:
            return _Taken(runs, len(runs), size, index, True)
        runs.append((position, end))
        size += length
        if len(runs) >= most:
            return _Taken(runs, len(runs), size, index + 1, True)
    return _Taken(runs, len(runs), size, len(entries) // _ENTRY_SIZE, False) if runs else None


def _matching(entries: bytes | bytearray, codes: bytes | None) -> Iterator[tuple[int, int, int]]:
    """Yield index, position and length of the records that pass a filter."""
    wanted = None if codes is None else _unpacked(codes)
    whole = len(entries) - len(entries) % _ENTRY_SIZE
    for index, (position, length, high, low) in enumerate(_PLACE_AND_CODE.iter_unpack(entries[:whole])):
        if wanted is None or low in wanted or high < LOWEST_CODE_HIGH:
            yield index, position, length
