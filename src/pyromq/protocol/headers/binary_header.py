"""The binary (ROCKETMQ) form of a command's header.

    i16 code | i8 language | i16 version | i32 opaque | i32 flag | i32 length, remark | i32 length, ext fields
    ext field:  i16 length, key | i32 length, value

Length 0 means null. Every length is checked against what is left, so a hostile one neither loops nor allocates.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import NamedTuple

from pyromq.errors import LocalProtocolError, RemoteProtocolError
from pyromq.protocol.headers import MAX_FIELDS

_FIXED = struct.Struct(">hbhii")
_LENGTH = struct.Struct(">i")
_KEY_LENGTH = struct.Struct(">h")


class BinaryHeader(NamedTuple):
    """A header as read; the language is still a number."""

    code: int
    language: int
    version: int
    opaque: int
    flag: int
    remark: str | None
    ext_fields: dict[str, str] | None


def read_binary(data: bytes) -> BinaryHeader:
    """Read a header; raise RemoteProtocolError."""
    try:
        code, language, version, opaque, flag = _FIXED.unpack_from(data)
        remark, position = _slice(data, _FIXED.size)
        ext, _ = _slice(data, position)
        return BinaryHeader(
            code, language, version, opaque, flag, remark.decode() or None, _read_ext(ext) if ext else None
        )
    except (struct.error, UnicodeDecodeError) as error:
        raise RemoteProtocolError(f"malformed binary header: {error}") from None


def _slice(data: bytes, position: int) -> tuple[bytes, int]:
    (length,) = _LENGTH.unpack_from(data, position)
    start = position + 4
    if not 0 <= length <= len(data) - start:
        raise RemoteProtocolError(f"malformed binary header: length {length} with {len(data) - start} bytes left")
    return data[start : start + length], start + length


def _read_ext(data: bytes) -> dict[str, str]:
    ext: dict[str, str] = {}
    position = count = 0
    while position < len(data):
        count += 1
        if count > MAX_FIELDS:
            raise RemoteProtocolError(f"a header with more than {MAX_FIELDS} ext fields")
        (key_length,) = _KEY_LENGTH.unpack_from(data, position)
        key_end = position + 2 + key_length
        (value_length,) = _LENGTH.unpack_from(data, key_end)
        end = key_end + 4 + value_length
        if key_length < 0 or value_length < 0 or end > len(data):
            raise RemoteProtocolError(f"malformed binary header: ext field of {key_length} and {value_length} bytes")
        ext[data[position + 2 : key_end].decode()] = data[key_end + 4 : end].decode()
        position = end
    return ext


def write_binary(header: BinaryHeader) -> bytes:
    """Write a header; raise LocalProtocolError if a number or text does not fit."""
    try:
        fixed = _FIXED.pack(header.code, header.language, header.version, header.opaque, header.flag)
        remark = (header.remark or "").encode()
        ext = _write_ext(header.ext_fields or {})
    except struct.error as error:
        raise LocalProtocolError(f"binary header: {error}") from None
    return b"".join((fixed, _LENGTH.pack(len(remark)), remark, _LENGTH.pack(len(ext)), ext))


def _write_ext(ext: Mapping[str, str]) -> bytes:
    parts: list[bytes] = []
    for name, text in ext.items():
        key, value = name.encode(), text.encode()
        parts += (_KEY_LENGTH.pack(len(key)), key, _LENGTH.pack(len(value)), value)
    return b"".join(parts)
