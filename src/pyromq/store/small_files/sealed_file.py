"""Small files of ours that notice when they are damaged, and when they are of a later release.

Values that vary in size are one line of JSON, then one with the format's number and a CRC-32 in hex of all before it:

    {"end":81920}
    1 0d5e1a2b

Values of fixed size are packed:

    format 4 | fields | CRC-32 of all before 4

Both kinds keep this frame in every format, so that any release can tell a later file from a damaged one. Files from
before formats had numbers have none, and count as the first.
"""

from __future__ import annotations

import logging
import re
import struct
from typing import Any, Final, TypeVar
from zlib import crc32

import msgspec

from pyromq.errors import UnknownFormat
from pyromq.store.files import OsFiles, read_file, replace_file

T = TypeVar("T")
logger = logging.getLogger(__name__)

FORMAT: Final = 1

_MOST_BYTES: Final = 64 << 20
_SEAL: Final = re.compile(rb"\n(?:(\d{1,9}) )?([0-9a-f]{8})\n\Z")
_LONGEST_SEAL: Final = 20
_NUMBER: Final = struct.Struct(">I")


def read_sealed(files: OsFiles, path: str, kind: type[T]) -> T | None:
    """Return the value in a file; None if there is none or it is damaged, which is logged.

    Raises UnknownFormat if a later release has written it.
    """
    data = read_file(files, path, _MOST_BYTES)
    if not data:
        return None
    try:
        text = _unsealed(data, path)
        if text is None:
            raise ValueError("its checksum does not match")
        return msgspec.json.decode(text, type=kind)
    except ValueError as error:  # msgspec's own is one
        logger.warning("left out a damaged file file=%s: %s", path, error)
        return None


def replace_sealed(files: OsFiles, path: str, value: object) -> None:
    """Replace a file, whole and durable on return; raises OSError."""
    text = msgspec.json.encode(value) + b"\n%d " % FORMAT
    replace_file(files, path, text + b"%08x\n" % crc32(text))


def check_sealed(files: OsFiles, path: str) -> None:
    """Raise UnknownFormat if a later release has written a file."""
    _unsealed(read_file(files, path, _MOST_BYTES), path)


def _unsealed(data: bytes, path: str) -> bytes | None:
    """Return the JSON of a file; None if that is damaged."""
    found = _SEAL.search(data, max(len(data) - _LONGEST_SEAL, 0))
    if found is None:
        return None
    text = data[: found.start()]
    if int(found[2], 16) != crc32(text if found[1] is None else data[: found.start(2)]):
        return None
    if found[1] is not None and int(found[1]) != FORMAT:
        raise UnknownFormat(path, int(found[1]), FORMAT)
    return text


def read_packed(files: OsFiles, path: str, layout: struct.Struct) -> tuple[Any, ...] | None:
    """Return the fields in a file; None if there is none or it is damaged.

    Raises UnknownFormat if a later release has written it.
    """
    data = read_file(files, path, _MOST_BYTES)
    body, seal = data[: -_NUMBER.size], data[-_NUMBER.size :]
    if len(body) < layout.size or _NUMBER.pack(crc32(body)) != seal:
        return None
    if len(body) == layout.size:
        return layout.unpack(body)
    (number,) = _NUMBER.unpack_from(body)
    if number != FORMAT:
        raise UnknownFormat(path, number, FORMAT)
    return layout.unpack(body[_NUMBER.size :]) if len(body) == _NUMBER.size + layout.size else None


def replace_packed(files: OsFiles, path: str, layout: struct.Struct, *values: object) -> None:
    """Replace a file, whole and durable on return; raises OSError."""
    body = _NUMBER.pack(FORMAT) + layout.pack(*values)
    replace_file(files, path, body + _NUMBER.pack(crc32(body)))
