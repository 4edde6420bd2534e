"""The body of a batch send: its messages in a row, without what they share.

total size 4 | magic 4 (0) | body CRC 4 (0) | flag 4 | body length 4, body | properties length 2, properties
"""

from __future__ import annotations

import struct
from collections.abc import Generator, Iterable, Iterator
from typing import NamedTuple

from pyromq.errors import LocalProtocolError, MalformedHeader

_HEAD = struct.Struct(">iiiii")  # magic and CRC are written as 0 and never read
_LENGTH = struct.Struct(">h")
_ELEMENTS_A_STEP = 200

ELEMENT_OVERHEAD = _HEAD.size + _LENGTH.size
"""Bytes of a message in a batch besides body and properties."""


class BatchElement(NamedTuple):
    """One message of a batch."""

    flag: int
    body: bytes
    properties: bytes = b""


def element_size(body_length: int, properties_length: int) -> int:
    """Return the size of a message in a batch."""
    return ELEMENT_OVERHEAD + body_length + properties_length


def element_parts(flag: int, body: bytes, properties: bytes) -> tuple[bytes, bytes, bytes, bytes]:
    """Return a message as it is written in a batch, in parts; raise LocalProtocolError if it does not fit."""
    try:
        size, length = len(body), len(properties)
        return _HEAD.pack(ELEMENT_OVERHEAD + size + length, 0, 0, flag, size), body, _LENGTH.pack(length), properties
    except struct.error as error:
        raise LocalProtocolError(f"a message does not fit a batch: {error}") from None


def encode_batch(elements: Iterable[BatchElement | tuple[int, bytes, bytes]]) -> bytes:
    """Write messages as the body of a batch send."""
    return b"".join([part for element in elements for part in element_parts(*element)])


def decode_batch(body: bytes) -> list[BatchElement]:
    """Read the body of a batch send; raise MalformedHeader unless it is one or more whole messages."""
    return list(_elements(body))


def has_few(body: bytes, most: int) -> bool:
    """Return True if a batch has at most so many messages. What it says about their sizes is not checked yet."""
    start = 0
    for _ in range(most):
        if start + _HEAD.size > len(body):
            return True
        start += max(_HEAD.unpack_from(body, start)[0], _HEAD.size)
    return start >= len(body)


def check_batch(body: bytes) -> Generator[None, None, None]:
    """Raise MalformedHeader, as `decode_batch` does, in short steps."""
    for count, _ in enumerate(_elements(body), 1):
        if count % _ELEMENTS_A_STEP == 0:
            yield


def parts_of_batch(body: bytes, most: int, most_bytes: float) -> Iterator[list[BatchElement]]:
    """Yield the messages of a batch in parts of so many messages and bytes of properties."""
    part: list[BatchElement] = []
    size = 0
    for element in _elements(body):
        if len(part) >= most or (part and size + len(element.properties) > most_bytes):
            yield part
            part, size = [], 0
        part.append(element)
        size += len(element.properties)
    yield part


def _elements(body: bytes) -> Iterator[BatchElement]:
    start = count = 0
    try:
        while start < len(body):
            element, start = _decode_element(body, start)
            yield element
            count += 1
    except struct.error:
        raise MalformedHeader(f"the batch ends inside its message {count}") from None
    if not count:
        raise MalformedHeader("the batch is empty")


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
