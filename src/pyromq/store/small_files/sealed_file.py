"""Small files of ours that notice when they are damaged: one line of JSON, then one with its CRC-32 in hex."""

from __future__ import annotations

import logging
from typing import Final, TypeVar
from zlib import crc32

import msgspec

from pyromq.store.files import OsFiles, read_file, replace_file

T = TypeVar("T")
logger = logging.getLogger(__name__)

_MOST_BYTES: Final = 64 << 20
_SEAL_LENGTH: Final = 10  # a line end, eight digits and another


def read_sealed(files: OsFiles, path: str, kind: type[T]) -> T | None:
    """Return the value in a file; None if there is none or it is damaged, which is logged."""
    data = read_file(files, path, _MOST_BYTES)
    if not data:
        return None
    text, seal = data[:-_SEAL_LENGTH], data[-_SEAL_LENGTH:]
    try:
        if seal != _seal(text):
            raise ValueError("its checksum does not match")
        return msgspec.json.decode(text, type=kind)
    except ValueError as error:  # msgspec's own is one
        logger.warning("left out a damaged file file=%s: %s", path, error)
        return None


def replace_sealed(files: OsFiles, path: str, value: object) -> None:
    """Replace a file, whole and durable on return; raises OSError."""
    text = msgspec.json.encode(value)
    replace_file(files, path, text + _seal(text))


def _seal(text: bytes) -> bytes:
    return b"\n%08x\n" % crc32(text)
