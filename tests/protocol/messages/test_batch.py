from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.errors import LocalProtocolError, MalformedHeader, ProtocolError
from pyromq.protocol.messages.batch import (
    BatchElement,
    check_batch,
    decode_batch,
    element_size,
    encode_batch,
    has_few,
    parts_of_batch,
)

ELEMENTS = st.builds(BatchElement, st.integers(-(2**31), 2**31 - 1), st.binary(max_size=50), st.binary(max_size=50))


@given(st.lists(ELEMENTS, min_size=1, max_size=10))
def test_a_batch_reads_back_as_it_was_written(elements: list[BatchElement]) -> None:
    body = encode_batch(elements)
    assert decode_batch(body) == elements
    assert len(body) == sum(element_size(len(element.body), len(element.properties)) for element in elements)


@given(st.lists(ELEMENTS, min_size=1, max_size=3), st.data())
def test_a_batch_cut_anywhere_but_between_messages_is_refused(
    elements: list[BatchElement], data: st.DataObject
) -> None:
    body = encode_batch(elements)
    ends = {len(encode_batch(elements[:count])) for count in range(len(elements) + 1)}
    cut = data.draw(st.integers(0, len(body) - 1).filter(lambda length: length not in ends))
    with pytest.raises(MalformedHeader):
        decode_batch(body[:cut])


@given(st.binary(max_size=200) | st.lists(ELEMENTS, min_size=1, max_size=3).map(encode_batch), st.data())
def test_damaged_batches_raise_nothing_but_protocol_errors(body: bytes, data: st.DataObject) -> None:
    damaged = bytearray(body)
    if damaged:
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    try:
        elements = decode_batch(bytes(damaged))
    except ProtocolError:
        return
    assert sum(element_size(len(element.body), len(element.properties)) for element in elements) == len(damaged)


def test_an_empty_batch_is_refused() -> None:
    with pytest.raises(MalformedHeader, match="empty"):
        decode_batch(b"")


def test_a_message_that_lies_about_its_size_is_refused() -> None:
    body = encode_batch([BatchElement(0, b"body", b"a\x01b")])
    with pytest.raises(MalformedHeader, match="claims"):
        decode_batch((len(body) + 1).to_bytes(4, "big") + body[4:])


def test_magic_and_checksum_are_not_looked_at() -> None:
    body = encode_batch([BatchElement(0, b"body")])
    assert decode_batch(body[:4] + b"\xff" * 8 + body[12:]) == [BatchElement(0, b"body")]


def test_properties_too_long_for_their_length_field_are_our_mistake() -> None:
    with pytest.raises(LocalProtocolError, match="does not fit"):
        encode_batch([BatchElement(0, b"body", bytes(32768))])


@given(st.lists(ELEMENTS, min_size=1, max_size=10), st.integers(1, 12), st.integers(0, 100))
def test_parts_of_a_batch_hold_its_messages_in_order(elements: list[BatchElement], most: int, most_bytes: int) -> None:
    body = encode_batch(elements)
    parts = list(parts_of_batch(body, most, most_bytes))
    assert [element for part in parts for element in part] == elements
    for part in parts:
        assert 1 <= len(part) <= most
        assert len(part) == 1 or sum(len(element.properties) for element in part) <= most_bytes
    assert has_few(body, most) == (len(elements) <= most)


@given(st.binary(max_size=100))
def test_any_bytes_are_counted_and_checked_without_a_loop(body: bytes) -> None:
    has_few(body, 5)
    try:
        expected = len(decode_batch(body))
    except ProtocolError:
        with pytest.raises(ProtocolError):
            list(check_batch(body))
    else:
        assert list(check_batch(body)) == []
        assert expected <= 100
