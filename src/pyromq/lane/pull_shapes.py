"""The shape of a pull: the plain form of `shape` in `_pulls.c`, whose head says what a shape is."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, TypeAlias, cast

from pyromq.lane import native

PullShape: TypeAlias = tuple[bytes, int, int, int]
"""What is left of a request without its queue offset, commit offset and opaque; and these."""
FindShape: TypeAlias = Callable[[bytes | memoryview], PullShape | None]

_LONGEST_HEADER: Final = 2048
_MOST_OPAQUE: Final = (1 << 31) - 1
_QUOTED: Final = re.compile(rb'"(0|-?[1-9][0-9]{0,17})"')
_BARE: Final = re.compile(rb"(0|[1-9][0-9]{0,17})(?=[,}])")


def find_shape() -> FindShape:
    """Return the native form if there is one."""
    module = native("pulls")
    return plain_shape if module is None else cast(FindShape, module.shape)


def plain_shape(frame: bytes | memoryview) -> PullShape | None:
    """Return the shape of a request; None if it has none."""
    header = bytes(frame[4:])
    if not 0 < len(header) <= _LONGEST_HEADER or int.from_bytes(frame[:4]) != len(header) or b"\\" in header:
        return None
    if header.count(b'"') % 2:
        return None  # a text does not end
    offset = _number(header, b'"queueOffset":', _QUOTED)
    commit = _number(header, b'"commitOffset":', _QUOTED)
    opaque = _number(header, b'"opaque":', _BARE)
    if offset is None or commit is None or opaque is None or int(opaque[1]) > _MOST_OPAQUE:
        return None
    first, second, third = sorted((offset.span(1), commit.span(1), opaque.span(1)))
    parts = header[: first[0]], header[first[1] : second[0]], header[second[1] : third[0]], header[third[1] :]
    return b"".join(parts), int(offset[1]), int(commit[1]), int(opaque[1])


def _number(header: bytes, name: bytes, pattern: re.Pattern[bytes]) -> re.Match[bytes] | None:
    """Find the number that has a name; None unless the name stands there once, as that of a field."""
    at = _field(header, name, 0)
    return None if at < 0 or _field(header, name, at + 1) >= 0 else pattern.match(header, at + len(name))


def _field(header: bytes, name: bytes, start: int) -> int:
    """Return where a text begins that is a name; -1 if none does."""
    at = header.find(name, start)
    while at >= 0 and header.count(b'"', 0, at) % 2:
        at = header.find(name, at + 1)  # this quote is the end of a text
    return at
