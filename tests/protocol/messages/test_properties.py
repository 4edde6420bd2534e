from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.errors import LocalProtocolError
from pyromq.protocol.messages.properties import (
    RESERVED_NAMES,
    decode_properties,
    encode_properties,
    find_property,
    join_properties,
)

NAMES = st.text(st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs"]), min_size=1)
VALUES = st.text(st.characters(exclude_characters="\x02", exclude_categories=["Cs"]), min_size=1)
PIECES = st.lists(st.sampled_from(["TAGS", "MYTAGS", "KEYS", "a", "\x01", "\x01", "\x02", "\x02"]), max_size=20)


@given(st.dictionaries(NAMES, VALUES))
def test_properties_read_back_as_they_were_written(properties: dict[str, str]) -> None:
    text = encode_properties(properties)
    assert decode_properties(text) == decode_properties(text.encode()) == properties
    assert decode_properties(text + "\x02") == properties


@pytest.mark.parametrize(
    ("text", "properties"),
    [
        ("", {}),
        ("\x02\x02", {}),
        ("a\x01b\x02", {"a": "b"}),
        ("a\x01b\x02c", {"a": "b"}),
        ("a\x01\x02\x01b\x02ab", {}),
        ("a\x01b\x01c", {"a": "b\x01c"}),
        ("a\x01b\x02a\x01c", {"a": "c"}),
        ("a\x01\x01", {"a": "\x01"}),
    ],
)
def test_pieces_that_are_no_properties_are_left_out(text: str, properties: dict[str, str]) -> None:
    assert decode_properties(text) == properties


def test_bytes_that_are_no_utf8_are_replaced() -> None:
    assert decode_properties(b"a\x01\xff\x02b\x01c") == {"a": "\ufffd", "b": "c"}
    assert find_property(b"a\x01\xff\x02b\x01c", "a") == "\ufffd"


@pytest.mark.parametrize("properties", [{"": "a"}, {"a": ""}, {"a\x01": "b"}, {"a\x02": "b"}, {"a": "b\x02"}])
def test_what_could_not_be_read_back_is_not_written(properties: dict[str, str]) -> None:
    with pytest.raises(LocalProtocolError):
        encode_properties(properties)


def test_a_value_may_hold_the_separator_of_names() -> None:
    assert decode_properties(encode_properties({"a": "b\x01c", "d": "e"})) == {"a": "b\x01c", "d": "e"}


@given(PIECES, st.sampled_from(["TAGS", "KEYS", "a"]))
def test_one_property_is_found_as_if_all_were_read(pieces: list[str], name: str) -> None:
    text = "".join(pieces)
    assert find_property(text, name) == decode_properties(text).get(name)
    assert find_property(text.encode(), name) == decode_properties(text).get(name)


def test_a_name_that_ends_alike_is_another_name() -> None:
    assert find_property(b"MYTAGS\x01a", "TAGS") is None
    assert find_property("MYTAGS\x01a\x02TAGS\x01b", "TAGS") == "b"


def test_the_last_of_equal_names_wins_unless_it_is_empty() -> None:
    assert find_property("TAGS\x01a\x02TAGS\x01b", "TAGS") == "b"
    assert find_property("TAGS\x01a\x02TAGS\x01\x02", "TAGS") == "a"


def test_joining_puts_exactly_one_separator_between() -> None:
    assert join_properties(b"a\x01b", b"c\x01d") == b"a\x01b\x02c\x01d"
    assert join_properties(b"a\x01b\x02", b"c\x01d") == b"a\x01b\x02c\x01d"
    assert join_properties(b"", b"c\x01d") == b"c\x01d"
    assert join_properties(b"a\x01b", b"") == b"a\x01b"


def test_users_may_set_what_java_clients_let_them_set() -> None:
    assert {"KEYS", "TAGS", "UNIQ_KEY", "CLUSTER", "INNER_MULTI_QUEUE_OFFSET"} <= RESERVED_NAMES
    allowed = {"CHECK_IMMUNITY_TIME_IN_SECONDS", "INNER_MULTI_DISPATCH", "TRANSACTION_CHECK_TIMES", "__SHARDINGKEY"}
    assert not allowed & RESERVED_NAMES
