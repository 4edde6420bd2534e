from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.errors import LocalProtocolError
from pyromq.protocol.tag_filter import java_hash, parse_tags, subscription_data, tag_code


def plain_hash(text: str) -> int:
    value = 0
    for character in text:
        units = character.encode("utf-16-be", "surrogatepass")
        for position in range(0, len(units), 2):
            value = value * 31 + int.from_bytes(units[position : position + 2], "big")
    return (value + 2**31) % 2**32 - 2**31


@given(st.text(st.characters(), max_size=200))
def test_the_hash_is_that_of_java(text: str) -> None:
    assert java_hash(text) == plain_hash(text)
    assert tag_code(text) == (plain_hash(text) if text else 0)
    assert tag_code(text) == tag_code(text)


def test_no_tag_has_the_code_0() -> None:
    assert tag_code(None) == tag_code("") == 0


def test_many_and_long_tags_do_not_fill_the_memory() -> None:
    from pyromq.protocol.tag_filter import _tag_codes

    for number in range(12_000):
        tag_code(f"tag-{number}")
    tag_code("long" * 1000)
    assert len(_tag_codes) <= 10_000
    assert max(map(len, _tag_codes)) <= 128
    assert tag_code("tag-1") == java_hash("tag-1")


@pytest.mark.parametrize("expression", [None, "", "*"])
def test_no_expression_means_everything(expression: str | None) -> None:
    tags = parse_tags(expression)
    assert (tags.expression, tags.tags, tags.codes) == ("*", (), frozenset())
    assert tags.everything
    assert tags.accepts(None)
    assert tags.accepts("any")


@pytest.mark.parametrize(
    ("expression", "tags"),
    [
        ("a", ("a",)),
        (" a || b ", ("a", "b")),
        ("a||b||", ("a", "b")),
        ("||a", ("a",)),
        ("a||||b", ("a", "b")),
        ("a || a", ("a",)),
        ("a || *", ("a", "*")),
        ("a | b", ("a | b",)),
        ("A || a", ("A", "a")),
        ("\t\x01a\n", ("a",)),
        ("\u3000a", ("\u3000a",)),
    ],
)
def test_an_expression_names_tags(expression: str, tags: tuple[str, ...]) -> None:
    parsed = parse_tags(expression)
    assert parsed.tags == tags
    assert parsed.codes == {java_hash(tag) for tag in tags}
    assert parsed.expression == expression
    assert not parsed.everything
    assert all(map(parsed.accepts, tags))
    assert not parsed.accepts("other")
    assert not parsed.accepts(None)


@pytest.mark.parametrize("expression", ["||", "||||"])
def test_separators_alone_are_an_error(expression: str) -> None:
    with pytest.raises(LocalProtocolError, match="no tag"):
        parse_tags(expression)


@pytest.mark.parametrize("expression", [" ", " || "])
def test_blanks_alone_are_accepted_and_match_nothing_at_the_broker(expression: str) -> None:
    tags = parse_tags(expression)
    assert not tags.everything
    assert tags.codes == frozenset()


def test_a_subscription_carries_tags_and_codes() -> None:
    data = subscription_data("orders", "created || paid", 42)
    assert (data.topic, data.sub_string, data.sub_version) == ("orders", "created || paid", 42)
    assert (data.tags_set, data.code_set) == (["created", "paid"], [java_hash("created"), java_hash("paid")])
    assert (data.expression_type, data.class_filter_mode) == ("TAG", False)
    everything = subscription_data("orders", None, 1)
    assert (everything.sub_string, everything.tags_set, everything.code_set) == ("*", [], [])
