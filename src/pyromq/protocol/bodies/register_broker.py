"""The body of REGISTER_BROKER: plain JSON, or for many topics one zlib stream over length-prefixed texts.

    length 4, data version as JSON | number of topics 4
    for each topic: length 4, "<name> <read queues> <write queues> <perm> <filter type>"
    length 4, list of filter servers as JSON

The compressed form does not hold a topic's sys flag and order.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

import msgspec

from pyromq.errors import LocalProtocolError, MalformedHeader
from pyromq.protocol.bodies.codec import decode, encode
from pyromq.protocol.bodies.routes import (
    DataVersion,
    RegisterBrokerBody,
    TopicConfig,
    TopicConfigSerializeWrapper,
    TopicFilterType,
)
from pyromq.protocol.headers import I32
from pyromq.protocol.messages.compression import COMPRESSED_FLAG, decompress

MAX_INFLATED = 64 * 1024 * 1024
"""Enough for a million topics."""

_INT = struct.Struct(">i")
_TopicFields = tuple[str, I32, I32, I32, TopicFilterType]


def encode_register_body(body: RegisterBrokerBody, *, compressed: bool = False) -> bytes:
    """Write a registration; the header's bodyCrc32 is `record.body_crc` of the result."""
    if not compressed:
        return encode(body)
    topics = body.topic_config_serialize_wrapper.topic_config_table
    parts = [_prefixed(encode(body.topic_config_serialize_wrapper.data_version)), _INT.pack(len(topics))]
    parts += [_prefixed(_topic_text(topic)) for topic in topics.values()]
    parts.append(_prefixed(encode(body.filter_server_list)))
    return zlib.compress(b"".join(parts), 9)


def _prefixed(text: bytes) -> bytes:
    return _INT.pack(len(text)) + text


def _topic_text(topic: TopicConfig) -> bytes:
    if " " in topic.topic_name or not topic.topic_name:
        raise LocalProtocolError(f"the topic {topic.topic_name!r} cannot be registered in compressed form")
    queues = f"{topic.read_queue_nums} {topic.write_queue_nums}"
    return f"{topic.topic_name} {queues} {topic.perm} {topic.topic_filter_type.name}".encode()


def decode_register_body(data: bytes, *, compressed: bool = False) -> RegisterBrokerBody:
    """Read a registration; raise MalformedHeader if it is not one."""
    if not compressed:
        return decode(RegisterBrokerBody, data)
    texts = _texts(decompress(data, COMPRESSED_FLAG, MAX_INFLATED))
    version = decode(DataVersion, next(texts))
    *topics, filter_servers = texts
    table = {topic.topic_name: topic for topic in map(_topic, topics)}
    return RegisterBrokerBody(TopicConfigSerializeWrapper(version, table), decode(list[str], filter_servers))


def _texts(inflated: bytes) -> Iterator[bytes]:
    """Yield the data version, each topic and the list of filter servers: exactly as many texts as announced."""
    try:
        text, position = _text(inflated, 0)
        yield text
        (count,) = _INT.unpack_from(inflated, position)
        if not 0 <= count <= len(inflated) // _INT.size:
            raise MalformedHeader(f"a registration of {count} topics")
        position += _INT.size
        for _ in range(count + 1):
            text, position = _text(inflated, position)
            yield text
    except struct.error:
        raise MalformedHeader("the registration is cut short") from None


def _text(inflated: bytes, position: int) -> tuple[bytes, int]:
    (length,) = _INT.unpack_from(inflated, position)
    start = position + _INT.size
    if not 0 <= length <= len(inflated) - start:
        raise MalformedHeader("the registration is cut short")
    return inflated[start : start + length], start + length


def _topic(text: bytes) -> TopicConfig:
    try:
        return TopicConfig(*msgspec.convert(text.decode().split(" "), _TopicFields, strict=False))
    except (msgspec.ValidationError, UnicodeDecodeError):
        raise MalformedHeader(f"not a registered topic: {text[:80]!r}") from None
