"""What the fields of a body are worth in an expression."""

from __future__ import annotations

import pytest

from pyromq.protocol.messages.message import MessageExt
from pyromq.protocol.sql92.body_fields import MessageFields, as_text, body_value
from pyromq.protocol.sql92.tree import Number, NumberKind


def fields(body: bytes) -> MessageFields:
    return MessageFields(MessageExt(topic="orders", stored_body=body, raw_properties=b"a\x011\x02b\x012"))


def test_json_values_keep_their_kind() -> None:
    found = fields(b'{"n": 1, "d": 1.5, "huge": 18446744073709551616, "t": "x", "b": true, "l": [1, {"a": null}]}')
    assert body_value(found, ("n",)) == Number(1, NumberKind.INT64)
    assert body_value(found, ("d",)) == Number(1.5, NumberKind.DOUBLE)
    assert body_value(found, ("huge",)) == Number(2.0**64, NumberKind.DOUBLE)
    assert body_value(found, ("t",)) == "x"
    assert body_value(found, ("b",)) is True
    assert body_value(found, ("l",)) == '[1,{"a":null}]'
    assert body_value(found, ("l", "1", "a")) is None


def test_texts_are_those_of_json() -> None:
    assert [as_text(value) for value in (True, False, "x", Number(7, NumberKind.INT64))] == ["true", "false", "x", "7"]


def test_properties_are_there_too() -> None:
    found = fields(b"{}")
    assert (dict(found), len(found), found.get("a"), found.get("c")) == ({"a": "1", "b": "2"}, 2, "1", None)


def test_properties_alone_have_no_body() -> None:
    with pytest.raises(TypeError):
        body_value({"a": "1"}, ("a",))
