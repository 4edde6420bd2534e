"""Codecs: what goes in comes out, and what is wrong is named."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypedDict

import pytest
from google.protobuf.struct_pb2 import Struct as ProtobufStruct
from google.protobuf.wrappers_pb2 import Int64Value, StringValue
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct
from pydantic import BaseModel

from pyromq.codecs import Avro, Codec, Json, MessagePack, Protobuf
from pyromq.codecs.topic_codecs import TopicCodecs
from pyromq.errors import ClientError, PayloadError


class Line(Struct):
    name: str
    cents: int


class Order(Struct):
    id: str
    lines: list[Line] = []


@dataclass
class Payment:
    id: str
    at: dt.datetime
    note: str | None = None


class Address(TypedDict):
    street: str
    number: int


class Customer(BaseModel):
    name: str
    age: int
    orders: list[str] = []


class Mixed(Struct):
    customer: Customer


class Database:
    """Nothing that a message could hold."""


SCHEMA = {
    "type": "record",
    "name": "Line",
    "fields": [{"name": "name", "type": "string"}, {"name": "cents", "type": "long"}],
}
texts = st.text(st.characters(codec="utf-8"))
lines = st.builds(Line, name=texts, cents=st.integers(-(2**63), 2**63 - 1))
times = st.datetimes(timezones=st.just(dt.UTC))
VALUES: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (Order, st.builds(Order, id=texts, lines=st.lists(lines, max_size=3))),
    (Payment, st.builds(Payment, id=texts, at=times, note=st.none() | texts)),
    (Address, st.fixed_dictionaries({"street": texts, "number": st.integers(0, 2**31)})),
    (Customer, st.builds(Customer, name=texts, age=st.integers(0, 200), orders=st.lists(texts, max_size=2))),
    (Mixed, st.builds(Mixed, customer=st.builds(Customer, name=texts, age=st.integers(0, 200)))),
    (dict[str, Any], st.dictionaries(texts, st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts)),
    (list[int], st.lists(st.integers(-(2**53), 2**53))),
    (str, texts),
    (bytes, st.binary()),
]


@pytest.mark.parametrize("codec", [Json(), MessagePack()], ids=repr)
@pytest.mark.parametrize(("kind", "values"), VALUES, ids=[str(kind) for kind, _ in VALUES])
def test_what_is_encoded_is_decoded_again(codec: Codec, kind: Any, values: st.SearchStrategy[Any]) -> None:
    decode = codec.decoder(kind)

    @settings(max_examples=30)
    @given(values)
    def check(value: Any) -> None:
        assert decode(codec.encode(value)) == value

    check()


@given(lines)
def test_avro_and_protobuf_keep_values_too(line: Line) -> None:
    avro = Avro(SCHEMA)
    assert avro.decoder(Line)(avro.encode(line)) == line
    assert avro.decoder(dict)(avro.encode(line)) == {"name": line.name, "cents": line.cents}
    message = Int64Value(value=line.cents)
    assert Protobuf().decoder(Int64Value)(Protobuf().encode(message)) == message
    assert Protobuf(ProtobufStruct).decoder(dict[str, str])(Protobuf(ProtobufStruct).encode({"a": line.name})) == {
        "a": line.name
    }


@settings(max_examples=40)
@given(st.binary())
@pytest.mark.parametrize(
    ("codec", "kind"),
    [
        (Json(), Order),
        (Json(), Customer),
        (Json(), str),
        (MessagePack(), Order),
        (Avro(SCHEMA), Line),
        (Protobuf(), StringValue),
    ],
    ids=repr,
)
def test_any_bytes_are_decoded_or_refused_with_a_payload_error(codec: Codec, kind: Any, body: bytes) -> None:
    with suppress(PayloadError):
        codec.decoder(kind)(body)


def test_text_is_sent_as_it_is_and_so_are_bytes_of_every_kind() -> None:
    assert Json().encode("hello") == b"hello"
    assert [Json().encode(each) for each in (b"a", bytearray(b"a"), memoryview(b"a"))] == [b"a"] * 3


@pytest.mark.parametrize(
    ("kind", "body", "text", "field"),
    [
        (Order, b'{"id": 1}', "field id: expected str, got int", "id"),
        (Order, b"{}", "field id: it is required and missing", "id"),
        (
            Order,
            b'{"id": "1", "lines": [{"name": "a"}]}',
            "field lines[0].cents: it is required and missing",
            "lines[0].cents",
        ),
        (Order, b'{"id": "1", "lines": [{"name": "a", "cents": "x"}]}', "expected int, got str", "lines[0].cents"),
        (Order, b"<xml>", "JSON is malformed", ""),
        (Order, b'{"id": "\xff"}', "the body is not UTF-8", ""),
        (Customer, b'{"name": "a", "age": "old"}', "field age: input should be a valid integer", "age"),
        (Customer, b"{}", "field name: field required (and 1 more)", "name"),
        (Mixed, b'{"customer": {"name": 1, "age": 1}}', "field customer: field name: input should be", "customer"),
        (str, b"\xff", "the body is not UTF-8 text (byte 0); take it as bytes", ""),
    ],
)
def test_the_error_names_the_field(kind: Any, body: bytes, text: str, field: str) -> None:
    with pytest.raises(PayloadError) as caught:
        Json().decoder(kind)(body)
    assert text in str(caught.value)
    assert caught.value.field == field
    assert str(caught.value.about("orders at broker-a:0:7")).startswith("orders at broker-a:0:7: ")


@pytest.mark.parametrize(
    ("codec", "value", "text"),
    [
        (
            Json(),
            Database(),
            "a value of type Database cannot be sent: a Database cannot be encoded; use a msgspec.Str",
        ),
        (MessagePack(), {"db": Database()}, "a value of type dict cannot be sent: a Database cannot be encoded"),
        (Json(), "\ud800", "a value of type str cannot be sent"),
        (Avro(SCHEMA), {"name": "a", "cents": "b"}, "Line.cents"),
        (Avro(SCHEMA), Database(), "a Database cannot be encoded"),
        (Protobuf(), {"a": 1}, "Protobuf(Order) converts dicts too"),
        (Protobuf(StringValue), Int64Value(), "this topic has google.protobuf.StringValue"),
    ],
)
def test_what_cannot_be_sent_is_refused_with_the_reason(codec: Codec, value: object, text: str) -> None:
    with pytest.raises(PayloadError) as caught:
        codec.encode(value)
    assert text in str(caught.value)


@pytest.mark.parametrize("kind", [Database, list[Database], dict[str, Database | None]], ids=str)
@pytest.mark.parametrize("codec", [Json(), MessagePack(), Avro(SCHEMA)], ids=repr)
def test_a_type_that_no_message_holds_is_refused_before_the_first_message(codec: Codec, kind: Any) -> None:
    with pytest.raises(ClientError, match=r"Database cannot be decoded from a message; use a msgspec\.Struct"):
        codec.decoder(kind)


def test_protobuf_refuses_types_that_its_class_cannot_become() -> None:
    with pytest.raises(ClientError, match="generated classes, not dict"):
        Protobuf().decoder(dict)
    with pytest.raises(ClientError, match=r"this topic has google\.protobuf\.StringValue, not Int64Value"):
        Protobuf(StringValue).decoder(Int64Value)
    with pytest.raises(ClientError, match="takes a generated class, not str"):
        Protobuf(str)


def test_bytes_behind_an_avro_record_are_not_ignored() -> None:
    codec = Avro(SCHEMA)
    with pytest.raises(PayloadError, match="1 bytes behind"):
        codec.decoder(Line)(codec.encode(Line("a", 1)) + b"x")


def test_a_schema_of_avro_may_be_text_and_is_checked() -> None:
    assert Avro('"string"').decoder(str)(Avro('"string"').encode("a")) == "a"
    with pytest.raises(ClientError, match="not an Avro schema"):
        Avro({"type": "recrod"})


def test_a_topic_has_its_own_codec_and_the_others_have_json() -> None:
    pack = MessagePack()
    assert TopicCodecs(pack).of("orders") is pack
    codecs = TopicCodecs({"orders": pack})
    assert (codecs.of("orders"), type(codecs.of("paid"))) == (pack, Json)


@pytest.mark.parametrize(("choice", "form"), [("json", "Json(), or"), (Json, "Json(),"), ({"a": MessagePack}, "k(),")])
def test_a_wrong_codec_is_refused_with_the_right_form(choice: Any, form: str) -> None:
    with pytest.raises(ClientError) as caught:
        TopicCodecs(choice)
    assert form in str(caught.value)


def test_schemas_say_what_bodies_look_like() -> None:
    schema = Json().schema(Order, "#/components/schemas/{name}")
    assert schema.schema == {"$ref": "#/components/schemas/Order"}
    assert set(schema.definitions) == {"Order", "Line"}
    assert Json().schema(Customer).schema["properties"]["age"]["type"] == "integer"
    assert "string value = 1;" in Protobuf().schema(StringValue).schema
    assert Avro(SCHEMA).schema(Line).schema == SCHEMA


def test_json_needs_no_extra() -> None:
    """Nobody pays for pydantic, fastavro and protobuf who does not use them."""
    program = (
        "import sys; from pyromq.codecs import Json; Json().decoder(dict)(Json().encode({}));"
        "print(sorted({'pydantic', 'fastavro', 'google.protobuf'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


@pytest.mark.parametrize(("name", "module"), [("Avro", "fastavro"), ("Protobuf", "google.protobuf")])
def test_a_missing_extra_is_named(name: str, module: str) -> None:
    program = (
        f"import sys; sys.modules[{module!r}] = None\n"
        f"try:\n    from pyromq.codecs import {name}\nexcept Exception as error:\n    print(error)"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "pip install 'pyromq[schemas]'" in found.stdout
