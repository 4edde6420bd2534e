"""The body of a batch send: its messages in a row, without what they share.

total size 4 | magic 4 (0) | body CRC 4 (0) | flag 4 | body length 4, body | properties length 2, properties
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

from pyromq.errors import LocalProtocolError, MalformedHeader

_HEAD = struct.Struct(">iiiii")  # magic and CRC are written as 0 and never read
_LENGTH = struct.Struct(">h")


class BatchElement(NamedTuple):
    """One message of a batch."""

    flag: int
    body: bytes
    properties: bytes = b""


def element_size(body_length: int, properties_length: int) -> int:
    """Return the size of a message in a batch."""
    return _HEAD.size + body_length + _LENGTH.size + properties_length


def encode_batch(elements: Iterable[BatchElement]) -> bytes:
    """Write messages as the body of a batch send."""
    parts: list[bytes] = []
    try:
        for flag, body, properties in elements:
            size = element_size(len(body), len(properties))
            parts += _HEAD.pack(size, 0, 0, flag, len(body)), body, _LENGTH.pack(len(properties)), properties
    except struct.error as error:
        raise LocalProtocolError(f"a message does not fit a batch: {error}") from None
    return b"".join(parts)


def decode_batch(body: bytes) -> list[BatchElement]:
    """Read the body of a batch send; raise MalformedHeader unless it is one or more whole messages."""
    elements: list[BatchElement] = []
    start = 0
    try:
        while start < len(body):
            element, start = _decode_element(body, start)
            elements.append(element)
    except struct.error:
        raise MalformedHeader(f"the batch ends inside its message {len(elements)}") from None
    if not elements:
        raise MalformedHeader("the batch is empty")
    return elements


def _decode_element(data: bytes, start: int) -> tuple[BatchElement, int]:
    size, _, _, flag, body_length = _HEAD.unpack_from(data, start)
    body_start = start + _HEAD.size
    body_end = body_start + body_length
    if body_length < 0 or body_end > len(data):
        raise MalformedHeader(f"a message of the batch claims a body of {body_length} bytes")
    (properties_length,) = _LENGTH.unpack_from(data, body_end)
    properties_start = body_end + _LENGTH.size
    end = properties_start + properties_length
    if properties_length < 0 or end > len(data) or end != start + size:
        raise MalformedHeader(f"a message of the batch has {end - start} bytes but claims {size}")
    return BatchElement(flag, data[body_start:body_end], data[properties_start:end]), end
