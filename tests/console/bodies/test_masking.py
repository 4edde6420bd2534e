from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.console.bodies.masking import MASKED, FieldMask, MaskingRule, MaskingRules
from pyromq.errors import ConfigError


def masked(value: Any, *fields: str) -> Any:
    return MaskingRules([MaskingRule.parse("*", field) for field in fields]).of_topics(["orders"]).apply(value)


def test_a_field_is_masked_and_its_neighbours_are_not() -> None:
    order = {"id": 1, "customer": {"name": "Ann", "card": "4111"}}
    assert masked(order, "customer.card") == {"id": 1, "customer": {"name": "Ann", "card": MASKED}}


def test_lists_do_not_count_in_a_path() -> None:
    assert masked([{"items": [{"price": 1}, {"price": 2, "n": 3}]}], "items.price") == [
        {"items": [{"price": MASKED}, {"price": MASKED, "n": 3}]}
    ]


def test_a_star_is_any_field_and_two_are_any_number_of_them() -> None:
    value = {"a": {"pin": 1}, "pin": 2, "b": {"c": {"pin": 3}}}
    assert masked(value, "*.pin") == {"a": {"pin": MASKED}, "pin": 2, "b": {"c": {"pin": 3}}}
    assert masked(value, "**.pin") == {"a": {"pin": MASKED}, "pin": MASKED, "b": {"c": {"pin": MASKED}}}


def test_a_star_may_be_a_place_in_a_list_and_case_makes_no_difference() -> None:
    assert masked({"Items": [{"price": 1, "n": 2}]}, "items.*.Price") == {"Items": [{"price": MASKED, "n": 2}]}


def test_a_single_name_is_masked_everywhere_and_as_a_property() -> None:
    assert masked({"a": [{"Card": 1}], "card": 2}, "card") == {"a": [{"Card": MASKED}], "card": MASKED}
    mask = MaskingRules([MaskingRule.parse("*", "card"), MaskingRule.parse("*", "a.pin")]).of_topics(["orders"])
    assert mask.properties({"CARD": "4111", "pin": "1"}) == {"CARD": "•••", "pin": "1"}


def test_a_named_field_without_fields_is_masked_as_a_whole() -> None:
    assert masked({"customer": "Ann 4111"}, "customer.card") == {"customer": MASKED}
    assert masked({"customer": [4111]}, "customer.card") == {"customer": [MASKED]}
    assert masked({"customer": None}, "customer.card") == {"customer": None}


def test_json_inside_a_text_does_not_leak() -> None:
    assert masked({"payload": '{"card": "4111"}'}, "**.card") == {"payload": MASKED}
    assert masked({"payload": '{"card": "41'}, "**.card") == {"payload": MASKED}
    assert masked(['{"card": "4111"}'], "card") == [MASKED]
    assert masked(['{"a": {"card": "4111"}}'], "a.card") == [MASKED]
    assert masked({"payload": '{"id": 1}', "text": "plain"}, "**.card") == {"payload": '{"id": 1}', "text": "plain"}


def test_rules_count_for_the_topics_of_their_pattern() -> None:
    rules = MaskingRules([MaskingRule.parse("orders*", "card")])
    assert rules.of_topics(["orders-eu"])
    assert rules.of_topics(["%DLQ%billing", "orders"])
    assert not rules.of_topics(["payments", None])


@pytest.mark.parametrize(("topic", "field"), [("", "a"), ("a", ""), ("a", "b..c"), ("a", "**"), ("a", "**.**")])
def test_a_rule_that_says_nothing_is_refused(topic: str, field: str) -> None:
    with pytest.raises(ConfigError, match="masking rule"):
        MaskingRule.parse(topic, field)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=12,
)


def holds(value: Any, secret: object) -> bool:
    if isinstance(value, dict):
        return any(holds(each, secret) for each in value.values())
    if isinstance(value, list):
        return any(holds(each, secret) for each in value)
    return value is secret


@given(VALUES, st.sampled_from(["x", "a.x", "b.c.x"]))
def test_no_value_reaches_the_end_of_a_masked_path(value: Any, field: str) -> None:
    secret = "-secret-"
    for name in reversed(field.split(".")):
        value, secret_inside = {name: [secret, value] if name == "x" else [value]}, True
    assert secret_inside
    assert not holds(masked(value, field), secret)


def test_a_mask_without_rules_changes_nothing() -> None:
    value = {"a": 1}
    assert FieldMask().apply(value) is value
