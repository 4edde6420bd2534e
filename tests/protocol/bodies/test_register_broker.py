"""The body of REGISTER_BROKER in both forms."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.errors import LocalProtocolError, ProtocolError
from pyromq.protocol import bodies
from pyromq.protocol.bodies import (
    TopicConfig,
    TopicFilterType,
)

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


@given(st.binary(max_size=100), st.booleans())
def test_any_bytes_are_a_registration_or_a_protocol_error(data: bytes, compressed: bool) -> None:
    with pytest.raises(ProtocolError):
        bodies.decode_register_body(data, compressed=compressed)


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
