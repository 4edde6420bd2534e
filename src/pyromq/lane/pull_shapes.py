"""The shape of a pull: the plain form of `shape` in `c/_pulls.c`, whose head says what a shape is."""

from __future__ import annotations

import re
from collections.abc import Callable
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
_SIGNING: Final = tuple(name.encode() for name in (SIGNATURE, NONCE, TIME))


def find_shape() -> FindShape:
    """Return the native form if there is one."""
    module = native("pulls")
    return plain_shape if module is None else lambda frame: _as_shape(module.shape(frame))


def _as_shape(found: tuple[bytes, int, int, int, bytes, bytes, bytes] | None) -> PullShape | None:
    return None if found is None else PullShape(*found)


def plain_shape(frame: bytes | memoryview) -> PullShape | None:
    """Return the shape of a request; None if it has none."""
    header = bytes(frame[4:])
    if not 0 < len(header) <= _LONGEST_HEADER or int.from_bytes(frame[:4]) != len(header) or b"\\" in header:
        return None
    if header.count(b'"') % 2:
        return None  # a text does not end
    numbers = (
        _value(header, b"queueOffset", _QUOTED),
        _value(header, b"commitOffset", _QUOTED),
        _value(header, b"opaque", _BARE),
    )
    texts = [_value(header, name, _TEXT) if _has(header, name) else None for name in _SIGNING]
    if any(number is None for number in numbers):
        return None
    if any(text is None and _has(header, name) for text, name in zip(texts, _SIGNING, strict=True)):
        return None
    offset, commit_offset, opaque = (int(number[1]) for number in numbers if number is not None)
    if opaque > _MOST_OPAQUE:
        return None
    spans = sorted(found.span(1) for found in (*numbers, *texts) if found is not None)
    starts, ends = [0, *(end for _, end in spans)], [*(start for start, _ in spans), len(header)]
    shape = b"".join(header[start:end] for start, end in zip(starts, ends, strict=True))
    return PullShape(shape, offset, commit_offset, opaque, *(b"" if text is None else text[1] for text in texts))


def _has(header: bytes, name: bytes) -> bool:
    return _field(header, name, 0) >= 0


def _value(header: bytes, name: bytes, pattern: re.Pattern[bytes]) -> re.Match[bytes] | None:
    """Find the value that has a name; None unless the name stands there once, as that of a field."""
    at = _field(header, name, 0)
    if at < 0 or _field(header, name, at + 1) >= 0:
        return None
    return pattern.match(header, at + len(name) + 3)


def _field(header: bytes, name: bytes, start: int) -> int:
    """Return where a text begins that is a name; -1 if none does."""
    wanted = b'"%b":' % name
    at = header.find(wanted, start)
    while at >= 0 and header.count(b'"', 0, at) % 2:
        at = header.find(wanted, at + 1)  # this quote is the end of a text
    return at
