from __future__ import annotations

import json
import time
import tracemalloc
from enum import Enum
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.errors import LocalProtocolError, MalformedHeader, ProtocolError
from pyromq.protocol.bodies.fastjson import MAX_VALUES, FrozenKey, dumps, dumps_pretty, java_double, loads
from pyromq.protocol.bodies.fastjson_reader import MAX_DEPTH, read_dialect

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
SCALARS = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | FLOATS | TEXTS
STANDARD = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4), max_leaves=10
)


class Colour(Enum):
    RED = 1


class Point(NamedTuple):
    x_value: int
    name: str


# --- writing --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"b": 1, "a": None, "c": []}, '{"b":1,"c":[]}'),
        ({0: "a:1", 10: "b:2"}, '{0:"a:1",10:"b:2"}'),
        ({Point(1, "p"): 7}, '{{"name":"p","xValue":1}:7}'),
        ([None, True, False, 1.5, Colour.RED], '[null,true,false,1.5,"RED"]'),
        ({}, "{}"),
        ((1, 2), "[1,2]"),
        ('订单/"\\', '"订单/\\"\\\\"'),
        ("\x00\x01\x07\b\t\n\x0b\f\r\x1f", r'"\u0000\u0001\u0007\b\t\n\u000B\f\r\u001F"'),
        ("\x7f\x80\x9f\xa0\u2028\u2029", '"\\u007F\\u0080\\u009F\xa0\\u2028\\u2029"'),
        (float("nan"), "null"),
        (float("inf"), "null"),
        ("\ud800", '"?"'),
    ],
)
def test_values_are_written_as_java_writes_them(value: object, text: str) -> None:
    assert dumps(value).decode() == text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0.0"), (-0.0, "-0.0"), (1.5, "1.5"), (100.0, "100.0"), (0.001, "0.001"), (9999999.0, "9999999.0"),
        (1e7, "1.0E7"), (1e10, "1.0E10"), (12345678.9, "1.23456789E7"), (1e-4, "1.0E-4"), (-1.5e-7, "-1.5E-7"),
        (1e22, "1.0E22"), (5e-324, "5E-324".replace("5E", "5.0E")), (1.7976931348623157e308, "1.7976931348623157E308"),
    ],
)  # fmt: skip
def test_doubles_look_as_in_java(number: float, text: str) -> None:
    assert java_double(number) == text


@given(FLOATS)
def test_doubles_keep_their_value(number: float) -> None:
    assert float(java_double(number)) == number


def test_standard_form_is_ascii_with_quoted_keys() -> None:
    written = dumps({0: "集", Point(1, "p"): "\U0001f600"}, quoted_keys=True)
    assert written == rb'{"0":"\u96C6","{\"name\":\"p\",\"xValue\":1}":"\uD83D\uDE00"}'
    assert json.loads(written) == {"0": "集", '{"name":"p","xValue":1}': "\U0001f600"}


def test_what_has_no_json_is_our_mistake() -> None:
    with pytest.raises(LocalProtocolError, match="cannot write object"):
        dumps({"a": object()})


def test_files_are_written_in_lines() -> None:
    assert dumps_pretty({"a": [1, {"b": "c"}], "d": {}, "e": [], "f": {1: {"g": 2}}}).decode() == (
        '{\n\t"a":[\n\t\t1,\n\t\t{\n\t\t\t"b":"c"\n\t\t}\n\t],\n\t"d":{},\n\t"e":[],\n'
        '\t"f":{1:{\n\t\t\t"g":2\n\t\t}\n\t}\n}'
    )


# --- reading --------------------------------------------------------------------------------------------------------


@given(STANDARD, st.sampled_from([None, 1, "\t"]))
def test_standard_json_is_read_alike_by_both_readers(value: Any, indent: Any) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=indent == 1)
    assert loads(text.encode()) == loads(text) == read_dialect(text) == value


@given(STANDARD)
def test_what_is_written_reads_back(value: Any) -> None:
    assert loads(dumps_pretty(value)) == loads(dumps(value)) == loads(dumps(value, quoted_keys=True))
    assert read_dialect(dumps(value).decode()) == msgspec.json.decode(dumps(value))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{0:1,-5:2}", {"0": 1, "-5": 2}),
        ('{{"b":"x","a":1}:7}', {FrozenKey((("b", "x"), ("a", 1))): 7}),
        ("{'a':'b\"c'}", {"a": 'b"c'}),
        ("{name:true,_b$:null}", {"name": True, "_b$": None}),
        ("[1,2,]", [1, 2]),
        ('{"a":1,}', {"a": 1}),
        ("{ 0 : [ ] ,\n\t1 : { } }\n", {"0": [], "1": {}}),
        (
            r"""{0:"\b\f\n\r\t\v\0\'\"\\\/\x41\u4e2d\ud83d\ude00\ud800"}""",
            {"0": "\b\f\n\r\t\v\0'\"\\/A中\U0001f600\ufffd"},
        ),
        ('{0:"raw\nline"}', {"0": "raw\nline"}),
        ("{0:1.5,1:-2e3,2:1E2}", {"0": 1.5, "1": -2000.0, "2": 100.0}),
        ('{"a":1}\n', {"a": 1}),
        ("{0:-9223372036854775808}", {"0": -(2**63)}),
        ('\ufeff{"a":1}', {"a": 1}),
    ],
)
def test_the_dialect_is_read(text: str, value: object) -> None:
    assert loads(text.encode()) == value


def test_bytes_that_are_no_utf8_are_replaced() -> None:
    assert loads(b'{"a":"\xff"}') == {"a": "\ufffd"}


@pytest.mark.parametrize(
    "text",
    ["", " ", "{", "[1", '{"a"}', '{"a":}', "{:1}", "{1.5:1}", "{[1]:2}", "[1 2]", "[,]", "{0:tru}", "nan", "{0:1}x",
     '{0:"abc}', "{{0:[]}:1}", "{0:1,,1:2}", "{0:0x10}", "]", "{0:--1}", "{0:1.2.3}", "{0:" + "9" * 50 + "}"],
)  # fmt: skip
def test_what_is_no_value_is_malformed(text: str) -> None:
    with pytest.raises(MalformedHeader):
        loads(text)


@given(st.binary(max_size=60) | st.text("{}[]:,\"'\\0123456789-.eE$refabnul \n", max_size=60).map(str.encode))
def test_any_bytes_are_a_value_or_a_protocol_error(data: bytes) -> None:
    try:
        loads(data)
    except ProtocolError:
        return


@pytest.mark.parametrize("opening", ["[", '{"a":', "{0:", "{{"])
def test_deep_nesting_is_refused(opening: str) -> None:
    with pytest.raises(MalformedHeader):
        loads(opening * 100_000)
    with pytest.raises(MalformedHeader, match="deeper"):
        read_dialect(opening * (MAX_DEPTH + 2))


def test_a_flood_of_values_is_refused_before_it_takes_memory() -> None:
    data = b"[" + b"[]," * (MAX_VALUES + 1) + b"0]"
    tracemalloc.start()
    try:
        with pytest.raises(MalformedHeader, match="more than"):
            loads(data)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_long_strings_of_escapes_take_no_more_memory_than_their_length() -> None:
    text = "{0:'" + r"\n" * 500_000 + "'}"
    tracemalloc.start()
    try:
        assert loads(text) == {"0": "\n" * 500_000}
        assert tracemalloc.get_traced_memory()[1] < 40 << 20
    finally:
        tracemalloc.stop()


# --- references -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a":{"b":1},"c":{"$ref":"$.a"}}', {"a": {"b": 1}, "c": {"b": 1}}),
        ('{"a":[{"b":1},{"$ref":"$.a[0]"}]}', {"a": [{"b": 1}, {"b": 1}]}),
        ('{"a":{"b":{"c":[5]}},"d":{"$ref":"$.a.b"}}', {"a": {"b": {"c": [5]}}, "d": {"c": [5]}}),
        ('{a:{0:{b:1}},c:{"$ref":"$.a.0"}}', {"a": {"0": {"b": 1}}, "c": {"b": 1}}),
        ('{"x.y":{"b":1},"c":{"$ref":"$.x\\\\.y"},"d":{"$ref":"$[\\"x.y\\"]"}}',
         {"x.y": {"b": 1}, "c": {"b": 1}, "d": {"b": 1}}),
        ('[{"a":1},{"$ref":"$[0]"},{"$ref":"$[0]"}]', [{"a": 1}] * 3),
        ('[{"a":1},{"b":{"$ref":"$[0]"}},{"$ref":"$[1]"}]', [{"a": 1}, {"b": {"a": 1}}, {"b": {"a": 1}}]),
        ('{"a":{"$ref":"x","other":1}}', {"a": {"$ref": "x", "other": 1}}),
    ],
)  # fmt: skip
def test_references_are_replaced_by_what_they_refer_to(text: str, value: object) -> None:
    assert loads(text) == value


@pytest.mark.parametrize(
    "text",
    [
        '{"a":{"$ref":"$"}}',
        '{"a":{"$ref":"$.a"}}',
        '{"a":{"$ref":"$.b"},"b":{"$ref":"$.a"}}',
        '{"a":{"b":{"$ref":"$.a"}}}',
        '{"a":{"$ref":".."}}',
        '{"a":{"$ref":"@"}}',
        '{"a":{"$ref":"$.nowhere"}}',
        '{"a":{"$ref":"$.b.c"},"b":5}',
        '{"a":[{"$ref":"$.a[7]"}]}',
        '{"a":{"$ref":"$.b]"},"b":5}',
        '{"a":{"$ref":"$.b"},"b":{"c":1}}',  # Java has not written it yet
        '[{"a":1},{"$ref":"$[0]"},{"$ref":"$[1]"}]',  # it would refer to the first
        '{"b":5,"a":{"$ref":"$.b"}}',
        '{"b":"text","a":[{"$ref":"$.b"}]}',
    ],
)
def test_references_that_lead_nowhere_or_round_are_malformed(text: str) -> None:
    with pytest.raises(MalformedHeader):
        loads(text)


def test_references_that_multiply_are_refused_quickly() -> None:
    levels = ",".join(f'"l{n + 1}":[{{"$ref":"$.l{n}"}},{{"$ref":"$.l{n}"}}]' for n in range(40))
    began = time.process_time()
    with pytest.raises(MalformedHeader, match="too many"):
        loads(f'{{"l0":[1],{levels}}}')
    assert time.process_time() - began < 5
