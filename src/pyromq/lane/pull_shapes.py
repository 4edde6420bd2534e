"""The shape of a pull: the plain form of `shape` in `c/_pulls.c`, whose head says what a shape is."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import accumulate
from typing import Final, NamedTuple, TypeAlias

from pyromq.lane import native
from pyromq.protocol.acl import NONCE, SIGNATURE, TIME


class PullShape(NamedTuple):
    """What is left of a request without what pulls of one consumer about one queue differ in; and that."""

    shape: bytes
    offset: int
    commit_offset: int
    opaque: int
    signature: bytes
    nonce: bytes
    signed_at: bytes
    """The last three are empty where a request does not have them."""


FindShape: TypeAlias = Callable[[bytes | memoryview], PullShape | None]

_LONGEST_HEADER: Final = 2048
_MOST_OPAQUE: Final = (1 << 31) - 1
_QUOTED: Final = re.compile(rb'"(0|-?[1-9][0-9]{0,17})"')
_BARE: Final = re.compile(rb"(0|[1-9][0-9]{0,17})(?=[,}])")
_TEXT: Final = re.compile(rb'"([^"]*)"')
_NUMBERS: Final = ((b'"queueOffset":', _QUOTED), (b'"commitOffset":', _QUOTED), (b'"opaque":', _BARE))
_SIGNING: Final = tuple(b'"%b":' % name.encode() for name in (SIGNATURE, NONCE, TIME))


def find_shape() -> FindShape:
    """Return the native form if there is one."""
    module = native("pulls")
    return plain_shape if module is None else lambda frame: _as_shape(module.shape(frame))


def _as_shape(found: tuple[bytes, int, int, int, bytes, bytes, bytes] | None) -> PullShape | None:
    return None if found is None else PullShape(*found)


def plain_shape(frame: bytes | memoryview) -> PullShape | None:
    """Return the shape of a request; None if it has none."""
    header = bytes(frame[4:])
    if not 0 < len(header) <= _LONGEST_HEADER or int.from_bytes(frame[:4]) != len(header):
        return None
    if (seen := _seen_shape(header)) is not None:
        return seen
    if b"\\" in header:
        return None
    if header.count(b'"') % 2:
        return None  # a text does not end
    own = [_value(header, name, pattern) for name, pattern in _NUMBERS]
    texts = [b"", b"", b""]
    for index, name in enumerate(_SIGNING):
        if name in header and _field(header, name, 0) >= 0:
            text = _value(header, name, _TEXT)
            own.append(text)
            texts[index] = b"" if text is None else text[1]
    found = [one for one in own if one is not None]
    if len(found) < len(own):
        return None
    offset, commit_offset, opaque = (int(number[1]) for number in found[:3])
    if opaque > _MOST_OPAQUE:
        return None
    spans = sorted(one.span(1) for one in found)
    shape = _without(header, spans)
    if len(found) == len(_NUMBERS) and found[1].end() < found[0].start() < found[2].start():
        _note_cuts(shape, spans)
    return PullShape(shape, offset, commit_offset, opaque, *texts)


# Most requests are of a shape that was seen before. Then it is enough to cut where the numbers seem to be: if what is
# left is such a shape, and was cut at the same places, the two mean the same. That takes a quarter of the time.
_cuts: dict[bytes, list[int]] = {}
"""Where numbers were cut out of shapes: commitOffset, queueOffset and opaque, in this order, as Java's clients do."""
_MOST_CUTS: Final = 4096  # some kilobytes each, at worst
_SMALLEST: Final = ord("1")


def _note_cuts(shape: bytes, spans: list[tuple[int, int]]) -> None:
    if len(_cuts) >= _MOST_CUTS:
        _cuts.clear()
    lengths = accumulate((end - start for start, end in spans[:-1]), initial=0)
    _cuts[shape] = [start - length for (start, _), length in zip(spans, lengths, strict=True)]


def _seen_shape(header: bytes) -> PullShape | None:
    """Return the shape of a request if it was seen before, and nothing is special about the numbers."""
    commit_at = header.find(b'"commitOffset":"') + 16
    commit_end = header.find(b'"', commit_at)
    offset_at = header.find(b'"queueOffset":"', commit_end) + 15
    offset_end = header.find(b'"', offset_at)
    opaque_at = header.find(b'"opaque":', offset_end) + 9
    opaque_end = header.find(b",", opaque_at)
    shape = header[:commit_at] + header[commit_end:offset_at] + header[offset_end:opaque_at] + header[opaque_end:]
    before = commit_end - commit_at
    cuts = [commit_at, offset_at - before, opaque_at - before - offset_end + offset_at]
    if _cuts.get(shape) != cuts:
        return None
    commit, offset, opaque = header[commit_at:commit_end], header[offset_at:offset_end], header[opaque_at:opaque_end]
    for number in (commit, offset, opaque):
        if not number.isdigit() or len(number) > 18 or (number[0] < _SMALLEST and number != b"0"):
            return None
    if len(opaque) > 9:
        return None  # perhaps larger than it may be
    return PullShape(shape, int(offset), int(commit), int(opaque), b"", b"", b"")


def _without(header: bytes, spans: list[tuple[int, int]]) -> bytes:
    """Return a header without some parts of it."""
    left, at = [], 0
    for start, end in spans:
        left.append(header[at:start])
        at = end
    left.append(header[at:])
    return b"".join(left)


def _value(header: bytes, name: bytes, pattern: re.Pattern[bytes]) -> re.Match[bytes] | None:
    """Find the value that has a name; None unless the name stands there once, as that of a field."""
    at = header.find(name)
    if at < 0 or header.find(name, at + 1) >= 0 or header.count(b'"', 0, at) % 2:  # rarely: then a text may say it too
        at = _field(header, name, 0)
        if at < 0 or _field(header, name, at + 1) >= 0:
            return None
    return pattern.match(header, at + len(name))


def _field(header: bytes, name: bytes, start: int) -> int:
    """Return where a text begins that is a name, with its quotes and colon; -1 if none does."""
    at = header.find(name, start)
    while at >= 0 and header.count(b'"', 0, at) % 2:
        at = header.find(name, at + 1)  # this quote is the end of a text
    return at
