"""The body of REGISTER_BROKER: plain JSON, or for many topics one zlib stream over length-prefixed texts.

    length 4, data version as JSON | number of topics 4
    for each topic: length 4, "<name> <read queues> <write queues> <perm> <filter type>"
    length 4, list of filter servers as JSON

The compressed form does not hold a topic's sys flag and order.
"""

from __future__ import annotations

import struct
import zlib
from typing import Annotated

import msgspec
from msgspec import Meta, field

from pyromq.errors import LocalProtocolError, MalformedHeader
from pyromq.protocol.bodies.codec import decode, encode
from pyromq.protocol.bodies.json_steps import SMALL, Steps, decoding, finish
from pyromq.protocol.bodies.routes import (
    DataVersion,
    RegisterBrokerBody,
    TopicConfig,
    TopicConfigSerializeWrapper,
    TopicFilterType,
)
from pyromq.protocol.headers import I32

MAX_INFLATED = 32 * 1024 * 1024
"""Enough for 100,000 topics with the longest names, or 300,000 with usual ones."""
MAX_REGISTERED = 300_000
"""Topics of one broker."""
MAX_FILTER_SERVERS = 1_000


class _LimitedTopics(TopicConfigSerializeWrapper):
    topic_config_table: Annotated[dict[str, TopicConfig], Meta(max_length=MAX_REGISTERED)] = field(default_factory=dict)


class _LimitedBody(RegisterBrokerBody):
    topic_config_serialize_wrapper: _LimitedTopics = field(default_factory=_LimitedTopics)
    filter_server_list: Annotated[list[str], Meta(max_length=MAX_FILTER_SERVERS)] = field(default_factory=list)


_INPUT_A_STEP = 16 * 1024
_OUTPUT_A_STEP = 256 * 1024
_TOPICS_A_STEP = 128

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
    return finish(decoding_register_body(data, compressed=compressed))


def decoding_register_body(data: bytes, *, compressed: bool = False) -> Steps[RegisterBrokerBody]:
    """Read a registration in steps; raise MalformedHeader if it is not one, or has more than a broker can have."""
    if compressed:
        return (yield from _decoding_compressed(data))
    body = yield from decoding(_LimitedBody, data)
    topics = body.topic_config_serialize_wrapper
    wrapper = TopicConfigSerializeWrapper(topics.data_version, topics.topic_config_table)
    return RegisterBrokerBody(wrapper, body.filter_server_list)


def _decoding_compressed(data: bytes) -> Steps[RegisterBrokerBody]:
    inflated = yield from _inflating(data)
    text, position = _text(inflated, 0)
    version = decode(DataVersion, text)
    count, position = _count(inflated, position)
    table: dict[str, TopicConfig] = {}
    for number in range(count):
        text, position = _text(inflated, position)
        topic = _topic(text)
        table[topic.topic_name] = topic
        if number % _TOPICS_A_STEP == 0:
            yield
    filter_servers, position = _text(inflated, position)
    return RegisterBrokerBody(TopicConfigSerializeWrapper(version, table), decode(list[str], filter_servers))


def _inflating(data: bytes) -> Steps[bytearray]:
    inflater = zlib.decompressobj()
    inflated = bytearray()
    try:
        for start in range(0, len(data), _INPUT_A_STEP):
            rest = data[start : start + _INPUT_A_STEP]
            while rest:
                inflated += inflater.decompress(rest, _OUTPUT_A_STEP)
                if len(inflated) > MAX_INFLATED:
                    raise MalformedHeader(f"a registration of {len(data)} bytes holds more than {MAX_INFLATED}")
                rest = inflater.unconsumed_tail
                yield
    except zlib.error as error:
        raise MalformedHeader(f"damaged registration of {len(data)} bytes: {error}") from None
    if not inflater.eof:
        raise MalformedHeader("the registration is cut short")
    return inflated


def _count(inflated: bytearray, position: int) -> tuple[int, int]:
    try:
        (count,) = _INT.unpack_from(inflated, position)
    except struct.error:
        raise MalformedHeader("the registration is cut short") from None
    if not 0 <= count <= MAX_REGISTERED:
        raise MalformedHeader(f"a registration of {count} topics, the limit is {MAX_REGISTERED}")
    return count, position + _INT.size


def _text(inflated: bytearray, position: int) -> tuple[bytes, int]:
    start = position + _INT.size
    length = int.from_bytes(inflated[position:start], "big", signed=True) if start <= len(inflated) else -1
    if not 0 <= length <= min(len(inflated) - start, SMALL):
        raise MalformedHeader("the registration is cut short")
    return bytes(inflated[start : start + length]), start + length


def _topic(text: bytes) -> TopicConfig:
    try:
        return TopicConfig(*msgspec.convert(text.decode().split(" "), _TopicFields, strict=False))
    except (msgspec.ValidationError, UnicodeDecodeError):
        raise MalformedHeader(f"not a registered topic: {text[:80]!r}") from None
