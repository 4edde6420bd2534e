"""The column decoder against the plain one: every column of every record must agree with `decode_messages`."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import lz4.frame
import numpy as np
import pyarrow as pa
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from pyromq.errors import CorruptRecord
from pyromq.protocol.messages.message import MessageExt
from pyromq.protocol.messages.record import Record, decode_messages, encode_host, encode_record
from pyromq.spark import arrow
from pyromq.spark.read.decode.columns import Columns
from pyromq.spark.read.decode.property_columns import Properties, UniformProperties
from pyromq.spark.read.decode.records import Records, record_starts
from pyromq.spark.schema import COLUMN_TYPES, DEFAULT_COLUMNS

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
HOSTS = st.one_of(st.binary(min_size=8, max_size=8), st.binary(min_size=20, max_size=20))
REGULAR = st.dictionaries(
    st.sampled_from(["KEYS", "TAGS", "UNIQ_KEY", "CLUSTER", "a", "änderung"]),
    st.text(st.characters(codec="utf-8", exclude_characters="\x01\x02"), min_size=1, max_size=12),
    max_size=5,
).map(lambda values: "\x02".join(f"{name}\x01{value}" for name, value in values.items()).encode())
IRREGULAR = st.lists(
    st.sampled_from(["\x01", "\x02", "a", "TAGS", "TAGS\x01x", "KEYS\x01k  l ", " "]), max_size=12
).map("".join)
PROPERTIES = st.one_of(REGULAR, REGULAR.map(lambda text: text + b"\x02" if text else text), IRREGULAR.map(str.encode))
BODIES = st.one_of(
    st.tuples(st.binary(max_size=40), st.just(0)),
    st.tuples(st.binary(max_size=40).map(zlib.compress), st.sampled_from([0x1, 0x301])),
    st.tuples(st.binary(max_size=40).map(lz4.frame.compress), st.just(0x101)),
    st.tuples(st.binary(max_size=40).map(zstandard.compress), st.just(0x201)),
)


def _record(
    body: bytes = b"hello",
    properties: bytes = b"",
    topic: str = "orders",
    sys_flag: int = 0,
    *,
    queue_offset: int = 5,
    physical_offset: int = 0x1234,
    store_timestamp_ms: int = 1_640_000_000_005,
    **fields: Any,
) -> bytes:
    record = Record(topic=topic, body=body, properties=properties, sys_flag=sys_flag, **fields)
    return encode_record(record, topic.encode(), queue_offset, physical_offset, store_timestamp_ms)


@st.composite
def stored_records(draw: st.DrawFn) -> bytes:
    body, sys_flag = draw(BODIES)
    return _record(
        body,
        draw(PROPERTIES),
        draw(st.one_of(st.just("orders"), st.text(st.characters(codec="utf-8"), max_size=20))),
        sys_flag | draw(st.sampled_from([0, 0x2, 0x8])),
        queue_id=draw(INT32),
        flag=draw(INT32),
        born_timestamp_ms=draw(st.one_of(st.integers(0, 2**41), INT64)),
        born_host=draw(HOSTS),
        store_host=draw(HOSTS),
        reconsume_times=draw(INT32),
        prepared_transaction_offset=draw(INT64),
        queue_offset=draw(INT64),
        physical_offset=draw(INT64),
        store_timestamp_ms=draw(INT64),
    )


def _records(stored: Sequence[bytes]) -> Records:
    body = b"".join(stored)
    return Records(body + b"\x00", np.array(record_starts(body), np.int64))


def _decode(stored: Sequence[bytes], names: Sequence[str] = tuple(COLUMN_TYPES), **options: Any) -> pa.RecordBatch:
    return Columns(_records(stored), "broker-a").batch(names, **options)


def _microseconds(timestamp_ms: int) -> int | None:
    return timestamp_ms * 1000 if abs(timestamp_ms * 1000) < 2**63 else None


def _expected(message: MessageExt) -> dict[str, Any]:
    plain = {name: getattr(message, name) for name in COLUMN_TYPES if hasattr(message, name)}
    keys = message.properties.get("KEYS")
    return plain | {
        "properties": list(message.properties.items()),
        "keys": None if keys is None else [key for key in keys.split(" ") if key],
        "born_timestamp": _microseconds(message.born_timestamp_ms),
        "store_timestamp": _microseconds(message.store_timestamp_ms),
    }


def _as_rows(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    columns = {name: batch.column(name) for name in batch.schema.names}
    columns |= {name: column.view(pa.int64()) for name, column in columns.items() if name.endswith("_timestamp")}
    return [
        dict(zip(columns, row, strict=True)) for row in zip(*map(pa.Array.to_pylist, columns.values()), strict=True)
    ]


@settings(deadline=None)
@given(st.lists(stored_records(), min_size=1, max_size=8))
def test_every_column_says_what_the_plain_decoder_says(stored: list[bytes]) -> None:
    rows = _as_rows(_decode(stored))
    for row, message in zip(rows, decode_messages(b"".join(stored), "broker-a"), strict=True):
        expected = _expected(message)
        assert dict(row.pop("properties")) == dict(expected.pop("properties"))
        assert row == expected


@settings(deadline=None)
@given(st.lists(stored_records(), max_size=5), st.permutations(list(COLUMN_TYPES)), st.integers(1, len(COLUMN_TYPES)))
def test_any_choice_of_columns_gives_the_same_values(stored: list[bytes], order: list[str], count: int) -> None:
    everything, some = _decode(stored), _decode(stored, order[:count])
    assert some.schema.names == order[:count]
    for name in some.schema.names:
        assert some.column(name).equals(everything.column(name))


@pytest.mark.parametrize("rows", [0, 1, 3])
def test_arrow_types_are_those_spark_expects(rows: int) -> None:
    types = {
        "string": pa.string(),
        "int": pa.int32(),
        "bigint": pa.int64(),
        "binary": pa.binary(),
        "timestamp": pa.timestamp("us", "UTC"),
        "array<string>": pa.list_(pa.string()),
        "map<string,string>": pa.map_(pa.string(), pa.string()),
    }
    batch = _decode([_record()] * rows)
    assert batch.schema.equals(pa.schema([(name, types[kind]) for name, kind in COLUMN_TYPES.items()]))
    batch.validate(full=True)
    assert batch.num_rows == rows


def test_the_records_of_the_fact_sheet_are_read() -> None:
    plain = bytes.fromhex(
        "00000087daa320a73610a68600000000000000070000000000000000000000000000000000000000"
        "00000000000003e87f0000010000162e000001a1e059a1217f00000100002a9f000000020000000000000000"
        "0000000568656c6c6f06546f706963410021"
        "554e49515f4b455901554b3102544147530154616741024b455953016b31206b32"
    )
    ipv6 = bytes.fromhex(
        "0000007bdaa320a7770659160000000000000007000000000000000100000000000001970000003000000000000003e8"
        "000000000000000000000000000000010000162e000001a1e059a14e"
        "0000000000000000000000000000000200002a9f000000020000000000000000000000027636"
        "06546f706963410000"
    )
    first, second = _as_rows(_decode([plain, ipv6]))
    assert (first["message_id"], first["tags"], first["keys"]) == ("UK1", "TagA", ["k1", "k2"])
    assert (first["born_host"], first["store_host"]) == ("127.0.0.1:5678", "127.0.0.1:10911")
    assert first["offset_message_id"] == "7F00000100002A9F0000000000000000"
    assert (second["born_host"], second["store_host"]) == ("[::1]:5678", "[::2]:10911")
    assert second["message_id"] == "00000000000000000000000000000002" + "00002A9F" + "0000000000000197"
    assert (second["tags"], second["keys"], second["properties"]) == (None, None, [])
    assert (second["body"], second["queue_offset"], second["store_size"]) == (b"v6", 1, 123)


def test_the_last_of_two_equal_properties_wins_and_a_map_has_it_once() -> None:
    batch = _decode([_record(properties=b"TAGS\x01a\x02k\x01v\x02TAGS\x01b"), _record(properties=b"TAGS\x01a")])
    assert batch.column("tags").to_pylist() == ["b", "a"]
    assert [sorted(row) for row in batch.column("properties").to_pylist()] == [
        [("TAGS", "b"), ("k", "v")],
        [("TAGS", "a")],
    ]


def test_an_irregular_row_leaves_its_neighbours_alone() -> None:
    texts = [b"TAGS\x01a\x02k\x01v", b"\x01x\x02TAGS\x01b\x01c\x02\x02e\x01", b"TAGS\x01d\x02", b""]
    batch = _decode([_record(properties=text) for text in texts])
    assert batch.column("tags").to_pylist() == ["a", "b\x01c", "d", None]
    assert batch.column("properties").to_pylist() == [
        [("TAGS", "a"), ("k", "v")],
        [("TAGS", "b\x01c")],
        [("TAGS", "d")],
        [],
    ]


def test_properties_as_text_are_the_bytes_as_stored() -> None:
    texts = [b"TAGS\x01a\x02", b"", b"\x01\x02odd"]
    batch = _decode([_record(properties=text) for text in texts], ["properties"], properties_as_text=True)
    assert batch.column("properties").to_pylist() == [text.decode() for text in texts]


def test_bytes_that_are_no_text_reach_spark_as_they_are() -> None:
    batch = _decode([_record(properties=b"TAGS\x01\xff\xfe\x02k\x01v"), _record(properties=b"TAGS\x01a\x02\xffb\x01v")])
    assert batch.column("tags").view(pa.binary()).to_pylist() == [b"\xff\xfe", b"a"]
    names = batch.column("properties").keys
    assert names.view(pa.binary()).to_pylist() == [b"TAGS", b"k", b"TAGS", b"\xffb"]


def test_bodies_stay_as_stored_without_decompression() -> None:
    stored = [_record(zlib.compress(b"plain"), sys_flag=1), _record(b"never compressed", sys_flag=1)]
    batch = Columns(_records(stored), inflate=False).batch(["body", "broker_name"])
    assert batch.column("body").to_pylist() == [zlib.compress(b"plain"), b"never compressed"]
    assert batch.column("broker_name").to_pylist() == [None, None]


def test_a_damaged_compressed_body_is_named() -> None:
    stored = [_record(), _record(b"never compressed", sys_flag=1, queue_offset=77, physical_offset=4711)]
    with pytest.raises(CorruptRecord, match=r"physical offset 4711, queue offset 77; decompress=false"):
        _decode(stored, ["body"])
    assert _decode(stored, ["tags"]).num_rows == 2, "a column that was not asked for is not touched"


def test_bodies_that_would_grow_too_large_are_left_for_the_next_batch() -> None:
    large = _record(zlib.compress(bytes(1000)), sys_flag=1)
    stored = [_record(), large, large, _record(), large]
    assert [Columns(_records(stored)).fitting(limit) for limit in (1, 1000, 2000, 2999, 3000)] == [1, 2, 4, 4, 5]
    assert Columns(_records([large])).fitting(1) == 1, "one record always fits"
    assert Columns(_records(stored), inflate=False).fitting(1) == 5


def test_tags_are_compared_as_text() -> None:
    stored = [_record(properties=text) for text in (b"TAGS\x01Aa", b"TAGS\x01BB", b"", b"TAGS\x01x\x02TAGS\x01Aa")]
    assert Columns(_records(stored)).tagged(["Aa"]).tolist() == [True, False, False, True], "Aa and BB have one hash"


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_damage_is_found_or_harmless(data: st.DataObject) -> None:
    """Any bytes give a batch or CorruptRecord, and never a read outside the buffer."""
    damaged = bytearray(b"".join(data.draw(st.lists(stored_records(), min_size=1, max_size=3))))
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(0, len(damaged) - 1))
        damaged[position] = data.draw(st.integers(0, 255))
    with suppress(CorruptRecord):
        _decode([bytes(damaged)]).validate()


@pytest.mark.parametrize(
    ("position", "value"),
    [(4, 0), (84, 0x7F), (84, 0xFF), (87, 4), (36 + 3, 0x30), (93, 0xFF), (93, 200), (100, 0x80), (101, 1)],
)
def test_a_damaged_record_is_named_by_its_offsets(position: int, value: int) -> None:
    second = bytearray(_record(b"hello", queue_offset=9, physical_offset=4711))
    second[position] = value
    with pytest.raises(CorruptRecord, match="damaged record at physical offset 4711, queue offset 9"):
        _decode([_record(), bytes(second), _record()])


@pytest.mark.parametrize("size", [0, -1, 90, 1000, 2**31 - 1])
def test_sizes_that_do_not_add_up_are_refused(size: int) -> None:
    body = _record() + size.to_bytes(4, "big", signed=True) + _record()[4:]
    with pytest.raises(CorruptRecord, match=f"no whole record at byte {len(_record())} of {len(body)}"):
        record_starts(body)


def test_records_may_lie_anywhere_in_the_buffer_and_in_any_order() -> None:
    one, two = _record(b"one"), _record(b"two", b"TAGS\x01t", born_host=encode_host("::1", 5))
    data = b"junk" + one + b"more junk" + two + b"\x00"
    starts = np.array([4 + len(one) + 9, 4], np.int64)
    batch = Columns(Records(data, starts)).batch(["body", "tags", "born_host"])
    assert batch.to_pylist() == [
        {"body": b"two", "tags": "t", "born_host": "[::1]:5"},
        {"body": b"one", "tags": None, "born_host": "0.0.0.0:0"},
    ]


def test_the_byte_after_the_last_record_must_be_there() -> None:
    with pytest.raises(CorruptRecord):
        Records(_record(), np.array([0], np.int64))


def test_default_columns_are_those_of_the_contract() -> None:
    assert ",".join(DEFAULT_COLUMNS) == (
        "topic,broker_name,queue_id,queue_offset,message_id,keys,tags,body,properties,"
        "born_timestamp,store_timestamp,reconsume_times"
    )


VALUES = st.text(st.characters(min_codepoint=3, max_codepoint=0x3FF), min_size=1, max_size=9)
NAMES = st.lists(VALUES, min_size=1, max_size=6, unique=True)


@given(NAMES.flatmap(lambda names: st.tuples(st.just(names), st.lists(st.tuples(*[VALUES] * len(names)), min_size=1))))
def test_properties_with_the_same_names_everywhere_are_read_as_any_others(
    rows: tuple[list[str], list[tuple[str, ...]]],
) -> None:
    names, values = rows
    pairs = (zip(names, row, strict=True) for row in values)
    texts = ["".join(f"{name}\x01{value}\x02" for name, value in row).encode() for row in pairs]
    column = arrow.take_ranges(
        pa.binary(),
        pa.py_buffer(b"".join(texts) + b"\0"),
        np.cumsum([0, *map(len, texts[:-1])]),
        np.cumsum([*map(len, texts)]),
    )
    quick, plain = (Properties._cut(column, look_for_uniform=look) for look in (True, False))
    assert isinstance(quick, UniformProperties)
    assert isinstance(plain, Properties)
    assert quick.as_map() == plain.as_map()
    for name in (*names, "no such name"):
        assert quick.get(name) == plain.get(name)
