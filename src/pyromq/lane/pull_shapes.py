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
_NUMBER: Final = re.compile(rb"0|-?[1-9][0-9]{0,17}")
_OPAQUE: Final = re.compile(rb":(0|[1-9][0-9]{0,17})(?=[,}])")


def find_shape() -> FindShape:
    """Return the native form if there is one."""
    module = native("pulls")
    return plain_shape if module is None else cast(FindShape, module.shape)


def plain_shape(frame: bytes | memoryview) -> PullShape | None:
    """Return the shape of a request; None if it has none."""
    header = bytes(frame[4:])
    if not 0 < len(header) <= _LONGEST_HEADER or int.from_bytes(frame[:4]) != len(header) or b"\\" in header:
        return None
    parts = header.split(b'"')  # every other one is a text
    if not len(parts) % 2:
        return None
    offset, commit, opaque = (_place(parts, name) for name in (b"queueOffset", b"commitOffset", b"opaque"))
    if not (offset and commit and opaque) or parts[offset + 1] != b":" or parts[commit + 1] != b":":
        return None
    texts = parts[offset + 2], parts[commit + 2]
    found = _OPAQUE.match(parts[opaque + 1])
    if found is None or not (_NUMBER.fullmatch(texts[0]) and _NUMBER.fullmatch(texts[1])):
        return None
    number = int(found[1])
    if number > _MOST_OPAQUE:
        return None
    parts[offset + 2] = parts[commit + 2] = b""
    parts[opaque + 1] = b":" + parts[opaque + 1][found.end() :]
    return b'"'.join(parts), int(texts[0]), int(texts[1]), number


def _place(parts: list[bytes], name: bytes) -> int:
    """Return where a text stands that is the name of a field; 0 unless it stands there once."""
    if parts.count(name) == 1:
        index = parts.index(name)
        return index if index % 2 and parts[index + 1].startswith(b":") else 0
    named = [at for at in range(1, len(parts), 2) if parts[at] == name and parts[at + 1].startswith(b":")]
    return named[0] if len(named) == 1 else 0
