"""Guess the format of a body and take it apart."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import msgspec

from pyromq.console.bodies import avro

MOST_LINES: Final = 1000
_FAILURES: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError, TypeError)


class Decoded(NamedTuple):
    """A body with fields."""

    format: str
    """json, json-lines, msgpack or avro."""
    value: Any
    is_whole: bool = True


def decode(data: bytes) -> Decoded | None:
    """Return the body as values; None if it is in no format that has fields."""
    first = data.lstrip()[:1]
    if first in (b"{", b"["):
        return _json(data) or _json_lines(data)
    if data.startswith(avro.MAGIC):
        return _avro(data)
    return _message_pack(data)


def _json(data: bytes) -> Decoded | None:
    try:
        return Decoded("json", msgspec.json.decode(data))
    except _FAILURES:
        return None


def _json_lines(data: bytes) -> Decoded | None:
    lines = [line for line in data.split(b"\n") if line.strip()]
    if len(lines) < 2:
        return None
    try:
        values = [msgspec.json.decode(line) for line in lines[:MOST_LINES]]
    except _FAILURES:
        return None
    return Decoded("json-lines", values, is_whole=len(lines) <= MOST_LINES)


def _avro(data: bytes) -> Decoded | None:
    if not avro.is_available():
        return None
    try:
        records, is_whole = avro.container(data)
    except avro.NotAvro:
        return None
    return Decoded("avro", records, is_whole)


def _message_pack(data: bytes) -> Decoded | None:
    """Return maps and lists only: nearly every byte is some number in MessagePack."""
    if not data or not (0x80 <= data[0] <= 0x9F or 0xDC <= data[0] <= 0xDF):
        return None
    try:
        return Decoded("msgpack", msgspec.msgpack.decode(data, strict=False))
    except _FAILURES:
        return None
