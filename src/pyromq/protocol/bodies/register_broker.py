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
_LONGEST = SMALL + 2 * _INT.size  # of a text, and of a count after it
_CUT_SHORT = "the registration is cut short"
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
    inflated = _Inflated(data)
    yield from inflated.fill()
    version = decode(DataVersion, inflated.text())
    table: dict[str, TopicConfig] = {}
    for number in range(inflated.count()):
        if inflated.is_low:
            yield from inflated.fill()
        topic = _topic(inflated.text())
        table[topic.topic_name] = topic
        if number % _TOPICS_A_STEP == 0:
            yield
    yield from inflated.fill()
    filter_servers = decode(list[str], inflated.text())
    yield from inflated.end()
    return RegisterBrokerBody(TopicConfigSerializeWrapper(version, table), filter_servers)


class _Inflated:
    """The texts of a compressed registration. Only a few are inflated at a time, whatever all would take."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._read = self._size = self._position = 0
        self._rest = self._buffer = b""
        self._is_over = False
        self._inflater = zlib.decompressobj()

    @property
    def is_low(self) -> bool:
        """Whether `fill` must be called before the next text is taken."""
        return len(self._buffer) - self._position < _LONGEST

    def fill(self) -> Steps[None]:
        """Inflate enough for the next text and count, if there is so much."""
        while self.is_low and not self._is_over:
            self._buffer = self._buffer[self._position :] + self._inflate()
            self._position = 0
            yield

    def end(self) -> Steps[None]:
        """Inflate what is left, and drop it."""
        while not self._is_over:
            self._inflate()
            yield
        if not self._inflater.eof:
            raise MalformedHeader(_CUT_SHORT)

    def count(self) -> int:
        """Take the number of topics."""
        count: int
        try:
            (count,) = _INT.unpack_from(self._buffer, self._position)
        except struct.error:
            raise MalformedHeader(_CUT_SHORT) from None
        if not 0 <= count <= MAX_REGISTERED:
            raise MalformedHeader(f"a registration of {count} topics, the limit is {MAX_REGISTERED}")
        self._position += _INT.size
        return count

    def text(self) -> bytes:
        """Take the next text."""
        buffer, start = self._buffer, self._position + _INT.size
        length = int.from_bytes(buffer[self._position : start], "big", signed=True) if start <= len(buffer) else -1
        if not 0 <= length <= min(len(buffer) - start, SMALL):
            raise MalformedHeader(_CUT_SHORT)
        self._position = start + length
        return buffer[start : self._position]

    def _inflate(self) -> bytes:
        if not self._rest:
            self._rest = self._data[self._read : self._read + _INPUT_A_STEP]
            self._read += _INPUT_A_STEP
        try:
            inflated = self._inflater.decompress(self._rest, _OUTPUT_A_STEP)
        except zlib.error as error:
            raise MalformedHeader(f"damaged registration of {len(self._data)} bytes: {error}") from None
        self._rest = self._inflater.unconsumed_tail
        goes_on = self._rest or inflated or self._read < len(self._data)  # without input, what it has kept comes out
        self._is_over = self._inflater.eof or not goes_on
        self._size += len(inflated)
        if self._size > MAX_INFLATED:
            raise MalformedHeader(f"a registration of {len(self._data)} bytes holds more than {MAX_INFLATED}")
        return inflated


def _topic(text: bytes) -> TopicConfig:
    try:
        return TopicConfig(*msgspec.convert(text.decode().split(" "), _TopicFields, strict=False))
    except (msgspec.ValidationError, UnicodeDecodeError):
        raise MalformedHeader(f"not a registered topic: {text[:80]!r}") from None
