"""The body of REGISTER_BROKER in both forms."""

from __future__ import annotations

import gc
import struct
import time
import tracemalloc
import zlib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pyromq.errors import LocalProtocolError, MalformedHeader, ProtocolError
from pyromq.protocol import bodies
from pyromq.protocol.bodies import (
    TopicConfig,
    TopicFilterType,
    register_broker,
)
from pyromq.protocol.bodies.register_broker import MAX_INFLATED, MAX_REGISTERED, decoding_register_body

I32 = st.integers(-(2**31), 2**31 - 1)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
TOPIC_NAMES = st.text("abcXYZ019_-%", min_size=1, max_size=20)


REGISTRATIONS = st.builds(
    lambda version, topics, servers: bodies.RegisterBrokerBody(
        bodies.TopicConfigSerializeWrapper(version, {topic.topic_name: topic for topic in topics}), servers
    ),
    st.builds(bodies.DataVersion, I32, I32),
    st.lists(st.builds(TopicConfig, TOPIC_NAMES, I32, I32, I32, st.sampled_from(TopicFilterType)), max_size=4),
    st.lists(TEXTS, max_size=2),
)


@given(REGISTRATIONS, st.booleans())
def test_a_registration_reads_back_in_both_forms(body: bodies.RegisterBrokerBody, compressed: bool) -> None:
    data = bodies.encode_register_body(body, compressed=compressed)
    assert bodies.decode_register_body(data, compressed=compressed) == body


@example(b'{"":"","":0}', False)
@given(st.binary(max_size=100), st.booleans())
def test_any_bytes_are_a_registration_or_a_protocol_error(data: bytes, compressed: bool) -> None:
    try:
        found = bodies.decode_register_body(data, compressed=compressed)
    except ProtocolError:
        return
    assert found == bodies.RegisterBrokerBody()  # an object with nothing that is known


@given(REGISTRATIONS, st.data())
def test_a_damaged_registration_raises_nothing_but_protocol_errors(
    body: bodies.RegisterBrokerBody, data: st.DataObject
) -> None:
    inflated = bytearray(zlib.decompress(bodies.encode_register_body(body, compressed=True)))
    inflated[data.draw(st.integers(0, len(inflated) - 1))] = data.draw(st.integers(0, 255))
    try:
        bodies.decode_register_body(zlib.compress(bytes(inflated)), compressed=True)
    except ProtocolError:
        return


def test_a_topic_with_a_blank_cannot_be_registered_in_compressed_form() -> None:
    body = bodies.RegisterBrokerBody(bodies.TopicConfigSerializeWrapper(topic_config_table={"a b": TopicConfig("a b")}))
    with pytest.raises(LocalProtocolError, match="'a b'"):
        bodies.encode_register_body(body, compressed=True)


def compressed_registration(count: int, announced: int | None = None) -> bytes:
    """Return a registration of many topics, by a peer that may lie about their number."""
    number = struct.Struct(">i").pack
    version = b'{"counter":1,"timestamp":1}'
    parts = [number(len(version)), version, number(count if announced is None else announced)]
    for index in range(count):
        text = b"t%d 8 8 6 SINGLE_TAG" % index
        parts += number(len(text)), text
    return zlib.compress(b"".join((*parts, number(2), b"[]")), 1)


def test_a_large_registration_is_read_in_short_steps() -> None:
    steps = decoding_register_body(compressed_registration(30_000), compressed=True)
    times = []
    gc.disable()  # a collection would look at all that pytest holds
    try:
        while True:
            before = time.thread_time()
            next(steps)
            times.append(time.thread_time() - before)
    except StopIteration as stop:
        topics = stop.value.topic_config_serialize_wrapper.topic_config_table
    finally:
        gc.enable()
    assert len(topics) == 30_000
    assert len(times) > 200
    assert max(times) < 0.05


@pytest.mark.parametrize("announced", [1_900, 1_901], ids=["more at the end", "too few"])
def test_a_registration_is_never_inflated_as_a_whole(announced: int) -> None:
    number = struct.Struct(">i").pack
    topic = b"t" * 16_000 + b" 8 8 6 SINGLE_TAG"  # the same again and again
    parts = [number(2), b"{}", number(announced), *[number(len(topic)), topic] * 1_900]
    data = zlib.compress(b"".join((*parts, number(2), b"[]", bytes(4 << 20))))
    tracemalloc.start()
    try:
        with pytest.raises(MalformedHeader):
            bodies.decode_register_body(data, compressed=True)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 2 << 20


@pytest.mark.parametrize("level", [0, 1, 9])
def test_all_of_a_registration_is_read_whatever_a_step_inflates(level: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(register_broker, "_INPUT_A_STEP", 7)
    monkeypatch.setattr(register_broker, "_OUTPUT_A_STEP", 5)
    data = zlib.compress(zlib.decompress(compressed_registration(200)), level)
    body = bodies.decode_register_body(data, compressed=True)
    assert list(body.topic_config_serialize_wrapper.topic_config_table) == [f"t{number}" for number in range(200)]


@pytest.mark.parametrize(
    "data",
    [
        zlib.compress(bytes(MAX_INFLATED + 1)),
        compressed_registration(3, announced=4),
        compressed_registration(3, announced=MAX_REGISTERED + 1),
        compressed_registration(3, announced=-1),
        compressed_registration(3)[:-1],
        zlib.compress(b"\x7f\xff\xff\xff" + bytes(100)),
        zlib.compress(bytes(100)),
    ],
    ids=["bomb", "too few", "too many", "negative", "cut", "long text", "no version"],
)
def test_a_registration_that_lies_about_its_size_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedHeader):
        bodies.decode_register_body(data, compressed=True)


def test_a_plain_registration_of_too_many_filter_servers_is_refused() -> None:
    with pytest.raises(MalformedHeader):
        bodies.decode_register_body(b'{"filterServerList":[%b]}' % b",".join([b'"a"'] * 1001))
