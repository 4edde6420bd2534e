"""Conditions over whole messages: properties, and fields of a JSON body."""

from __future__ import annotations

import json

import pytest

from pyromq.errors import LocalProtocolError
from pyromq.protocol.messages.message import MessageExt
from pyromq.protocol.messages.properties import encode_properties
from pyromq.protocol.sql92.conditions import MessageCondition
from pyromq.protocol.sql92.sql_filter import compile_sql

ORDER = {
    "id": 7,
    "amount": 12.5,
    "paid": True,
    "note": None,
    "state": "new",
    "customer": {"name": "Ada", "home": {"city": "London"}},
    "items": [{"sku": "a-1", "count": 2}, {"sku": "b-2"}],
    "order-id": "o-7",
    "huge": 10**30,
    "größe": 3,
}


def message(body: bytes | object = ORDER, **properties: str) -> MessageExt:
    stored = body if isinstance(body, bytes) else json.dumps(body).encode()
    return MessageExt(topic="orders", stored_body=stored, raw_properties=encode_properties(properties).encode())


def matches(expression: str, **properties: str) -> bool:
    return MessageCondition(expression).matches(message(**properties))


@pytest.mark.parametrize(
    "expression",
    [
        "body.id = 7",
        "body.amount > 12",
        "body.amount > 12.4 AND body.amount < 13",
        "body.amount BETWEEN 12 AND 13",
        "12 < body.amount",
        "body.paid",
        "body.paid = TRUE",
        "NOT (body.paid = FALSE)",
        "body.note IS NULL",
        "body.missing IS NULL AND body.customer.missing.deep IS NULL",
        "body.items IS NOT NULL",
        "body.state = 'new'",
        "body.state <> 'old'",
        "body.state IN ('new', 'old')",
        "body.state NOT IN ('gone')",
        "body.id IN ('7')",
        "body.customer.home.city = 'London'",
        "body.items.0.sku = 'a-1'",
        "body.items.1.count IS NULL",
        "body.items.5.sku IS NULL",
        "body.\"order-id\" = 'o-7'",
        "body.huge > 9000000000000000000",
        "body.größe = 3",
        "body.id < body.amount",
        "TAGS = 'paid' AND KEYS = 'k-1' AND amount > 10 AND body.id = 7",
    ],
)
def test_a_condition_that_holds(expression: str) -> None:
    assert matches(expression, TAGS="paid", KEYS="k-1", amount="11")


@pytest.mark.parametrize(
    "expression",
    [
        "body.id = 8",
        "body.amount > 13",
        "body.missing = 1",
        "NOT (body.missing = 1)",
        "body.state > 5",
        "body.customer.name.more = 'x'",
        "body.items.sku = 'a-1'",
        "body.note",
        "body.id",
    ],
)
def test_a_condition_that_does_not_hold(expression: str) -> None:
    assert not matches(expression)


@pytest.mark.parametrize("body", [b"no JSON", b"\xff\xfe", b'{"id": ', b"[" * 5000, b""])
def test_a_body_that_is_not_json_has_no_fields(body: bytes) -> None:
    assert MessageCondition("body.id IS NULL").matches(message(body))
    assert MessageCondition("TAGS = 'x' OR body.id = 7").matches(message(body, TAGS="x"))


def test_a_compressed_body_that_is_damaged_has_no_fields() -> None:
    broken = message(b"never compressed")
    broken.sys_flag = 1
    assert MessageCondition("body.id IS NULL").matches(broken)


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("body.a >", "at character 9, found the end"),
        ("body. = 1", "unknown token at character 5: '. = 1'"),
        ("body.a = 1 body.b = 2", "'body.b = 2' at character 12 of 'body.a = 1 body.b = 2' would be ignored"),
        ("other.a = 1", "unknown token at character 6"),
        ("body.a > 'x'", "'x'\" cannot be ordered"),
    ],
)
def test_a_wrong_condition_names_the_place(expression: str, reason: str) -> None:
    with pytest.raises(LocalProtocolError, match="SQL92") as caught:
        MessageCondition(expression)
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "expression",
    ["body.a.b = 1", "NOT (body.\"a b\" IN ('x', 'y'))", "body.a.0 NOT IN ('x')", "(body.a = TRUE) AND (b > 1)"],
)
def test_a_condition_is_written_as_it_can_be_read(expression: str) -> None:
    assert str(MessageCondition(expression)) == expression


def test_brokers_do_not_know_the_body() -> None:
    with pytest.raises(LocalProtocolError, match="unknown token at character 5"):
        compile_sql("body.id = 7")
