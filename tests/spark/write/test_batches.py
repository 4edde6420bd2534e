"""Rows become the messages that a producer would have sent."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.pandas.types import from_arrow_schema

from pyromq.client.net.publish_info import queue_for_key
from pyromq.errors import InvalidMessage
from pyromq.protocol.messages.batch import decode_batch
from pyromq.protocol.messages.message import MessageQueue
from pyromq.protocol.messages.properties import decode_properties
from pyromq.protocol.tag_filter import java_hash
from pyromq.spark.options.write_options import write_options
from pyromq.spark.write.batches import MessageBatch, java_hashes, make_batches
from pyromq.spark.write.message_rows import MessageRows, split_batch
from pyromq.spark.write.sink_task import RowIds, SinkTask

TASK = SinkTask("query-7-3", 3)
QUEUES = [MessageQueue("orders", "broker-a", number) for number in range(4)]
TYPES = {
    "body": pa.binary(),
    "keys": pa.list_(pa.string()),
    "properties": pa.map_(pa.string(), pa.string()),
    "queue_id": pa.int32(),
    "delay_ms": pa.int64(),
    "delay_level": pa.int32(),
    "deliver_at": pa.timestamp("us", "UTC"),
    "flag": pa.int64(),
    "number": pa.int64(),
}
Row = dict[str, Any]
Sent = list[tuple[MessageBatch, bytes, dict[str, str]]]


def _batch(rows: list[Row]) -> pa.RecordBatch:
    names = dict.fromkeys(name for row in rows for name in row)
    return pa.RecordBatch.from_pylist(rows, pa.schema([(name, TYPES.get(name, pa.string())) for name in names]))


def _batches(rows: list[Row], first: int = 0, topic: str | None = "orders", **more: str) -> list[MessageBatch]:
    batch = _batch([rows[0], *rows]).slice(1)  # as a slice, whose arrays do not begin at 0
    options = write_options(
        {"namesrv": "a:1", **({"topic": topic} if topic else {}), **more}, from_arrow_schema(batch.schema)
    )
    return list(
        make_batches(
            MessageRows(batch, options, TASK, first, RowIds(TASK)),
            lambda topic: [q._replace(topic=topic) for q in QUEUES],
        )
    )


def _sent(rows: list[Row], first: int = 0, topic: str | None = "orders", **more: str) -> Sent:
    """Return each message with its batch, as a broker would read it."""
    sent: Sent = []
    for batch in _batches(rows, first, topic, **more):
        if batch.properties is not None:
            sent.append((batch, batch.body, decode_properties(batch.properties)))
        else:
            elements = decode_batch(batch.body)
            assert batch.count == len(elements)
            sent += [(batch, element.body, decode_properties(element.properties)) for element in elements]
    return sent


@given(st.lists(st.text(st.characters(codec="utf-8"))))
def test_hashes_of_a_column_are_those_of_java(texts: list[str]) -> None:
    assert java_hashes(pa.array(texts, pa.string())).tolist() == [java_hash(text) for text in texts]


def test_a_row_is_a_message_with_marks_that_a_replay_repeats() -> None:
    rows: list[Row] = [
        {
            "body": b"one",
            "tags": "paid",
            "keys": ["k1", "k2"],
            "properties": {"region": "north", "empty": ""},
            "flag": 9,
        },
        {"body": b"two", "tags": "", "keys": [], "properties": None, "flag": None},
    ]
    (batch, body, properties), (_, second, bare) = _sent(rows, first=65_536)
    assert (batch.topic, batch.queue, body, second) == ("orders", None, b"one", b"two")
    assert [element.flag for element in decode_batch(batch.body)] == [9, 0]
    ours = {"PYROMQ_BATCH": "query-7-3", "PYROMQ_ROW": "65536"}
    unique = properties.pop("UNIQ_KEY")
    assert properties == {"region": "north", "KEYS": "k1 k2", "TAGS": "paid", **ours}
    assert set(bare) == {"PYROMQ_BATCH", "PYROMQ_ROW", "UNIQ_KEY"}
    assert (len(unique), unique[20:28]) == (32, "00000000"), "the time of an id"
    assert [message[2] for message in _sent(rows, first=65_536)][1] == bare


def test_ids_come_from_a_column_if_there_is_one() -> None:
    rows: list[Row] = [{"body": b"a", "message_id": "ID-1"}, {"body": b"b", "message_id": None}]
    first, second = (properties["UNIQ_KEY"] for _, _, properties in _sent(rows))
    assert (first, len(second)) == ("ID-1", 32)
    forth = _sent([{"body": b"a", "number": 1}, {"body": b"b", "number": 2}], idColumn="number")
    back = _sent([{"body": b"b", "number": 2}, {"body": b"a", "number": 1}], idColumn="number")
    assert {body: sent["UNIQ_KEY"] for _, body, sent in forth} == {body: sent["UNIQ_KEY"] for _, body, sent in back}


def test_messages_that_differ_in_anything_have_different_ids() -> None:
    row: Row = {"body": b"a", "tags": "t", "keys": ["k"], "properties": {"p": "v"}, "flag": 1, "order_key": "o"}
    changes: list[Row] = [
        {}, {"body": b"b"}, {"tags": None}, {"keys": ["k", "k2"]}, {"properties": {"p": "w"}}, {"flag": 2},
        {"order_key": "q"}, {"tags": "k", "keys": ["t"]}, {"body": b"a\x02\x02"}, {"topic": "others"},
    ]  # fmt: skip
    rows = [{"topic": "orders", **row, **change} for change in changes]
    alone = [_sent([one], topic=None)[0][2]["UNIQ_KEY"] for one in rows]
    assert len(set(alone)) == len(rows)
    together = {properties["UNIQ_KEY"] for _, _, properties in _sent(rows[::-1], topic=None)}
    assert together == set(alone), "what comes before it does not matter"
    assert len({properties["UNIQ_KEY"] for _, _, properties in _sent([rows[0]] * 5, topic=None)}) == 5


def test_a_key_goes_to_the_queue_that_java_picks_and_its_rows_stay_in_order() -> None:
    rows = [{"body": b"%d" % number, "order_key": f"größe-{number % 5}"} for number in range(1000)]
    sent = _sent([*rows, {"body": b"any", "order_key": None}])
    assert len(sent) == 1001
    for batch, body, properties in sent:
        key = properties.get("__SHARDINGKEY")
        assert batch.queue == (None if key is None else queue_for_key(QUEUES, key)), body
    for queue in QUEUES:
        numbers = [int(body) for batch, body, _ in sent if batch.queue == queue]
        assert numbers == sorted(numbers)


def test_a_copied_message_keeps_its_key_and_loses_what_is_the_systems() -> None:
    properties = {
        "__SHARDINGKEY": "k",
        "TRAN_MSG": "true",
        "DELAY": "3",
        "PYROMQ_ROW": "1",
        "UNIQ_KEY": "x",
        "own": "y",
    }
    row = {"body": b"a", "topic": "other", "broker_name": "broker-z", "queue_id": 9, "properties": properties}
    ((batch, _, sent),) = _sent([row])
    assert (batch.topic, batch.queue) == ("orders", queue_for_key(QUEUES, "k")), "the other topic's queue is no matter"
    assert {"TRAN_MSG", "DELAY"}.isdisjoint(sent)
    assert (sent["own"], sent["PYROMQ_ROW"], sent["PYROMQ_BATCH"]) == ("y", "0", "query-7-3")


def test_rows_choose_topics_and_queues() -> None:
    rows: list[Row] = [
        {"body": b"1", "topic": "a", "broker_name": "broker-a", "queue_id": 3},
        {"body": b"2", "topic": "b", "broker_name": None, "queue_id": None},
        {"body": b"3", "topic": "a", "broker_name": "broker-a", "queue_id": 1},
    ]
    places = {body: (batch.topic, batch.queue and batch.queue.queue_id) for batch, body, _ in _sent(rows, topic=None)}
    assert places == {b"1": ("a", 3), b"2": ("b", None), b"3": ("a", 1)}


def test_delayed_rows_travel_alone() -> None:
    rows: list[Row] = [
        {"body": b"now", "delay_ms": None, "deliver_at": None, "delay_level": 0},
        {"body": b"delay", "delay_ms": 1500, "deliver_at": None, "delay_level": None},
        {"body": b"time", "delay_ms": None, "deliver_at": datetime(2026, 1, 1, 0, 0, 0, 1, UTC), "delay_level": None},
        {"body": b"level", "delay_ms": None, "deliver_at": None, "delay_level": 3},
    ]
    sent = {body: (batch, properties) for batch, body, properties in _sent(rows)}
    assert sent[b"now"][0].properties is None
    assert (sent[b"delay"][0].timed, sent[b"delay"][1]["TIMER_DELAY_MS"]) == (True, "1500")
    assert (sent[b"time"][0].timed, sent[b"time"][1]["TIMER_DELIVER_MS"]) == (True, "1767225600001"), "never early"
    assert (sent[b"level"][0].timed, sent[b"level"][1]["DELAY"]) == (False, "3")


def test_batches_are_cut_by_rows_and_by_bytes() -> None:
    assert [batch.count for batch in _batches([{"body": b"x"}] * 600)] == [250, 250, 100]
    assert [batch.count for batch in _batches([{"body": bytes(600_000)}] * 3)] == [1, 1, 1]


def test_a_body_of_the_full_size_travels_alone_in_its_place() -> None:
    bodies = [b"a", bytes(4 << 20), b"b"]
    sent = _sent([{"body": body, "order_key": "k", "flag": 7} for body in bodies])
    assert [body for _, body, _ in sent] == bodies
    assert [batch.properties is None for batch, _, _ in sent] == [True, False, True]
    assert [properties["PYROMQ_ROW"] for _, _, properties in sent] == ["0", "1", "2"]
    assert sent[1][0].flag == 7


def test_a_batch_of_large_bodies_is_cut_before_it_is_copied() -> None:
    batch = _batch([{"body": bytes(4 << 20)}] * 20 + [{"body": b"x"}])
    parts = list(split_batch(batch, write_options({"namesrv": "a:1", "topic": "t"}, from_arrow_schema(batch.schema))))
    assert sum(part.num_rows for part in parts) == 21
    assert max(part.num_rows for part in parts) <= 8


@pytest.mark.parametrize("large", [pa.large_string(), pa.large_binary()])
def test_columns_with_long_offsets_are_read(large: pa.DataType) -> None:
    batch = pa.record_batch([pa.array(["a"]).cast(pa.string()).cast(large)], names=["body"])
    options = write_options({"namesrv": "a:1", "topic": "t"}, from_arrow_schema(_batch([{"body": b"a"}]).schema))
    (sent,) = make_batches(MessageRows(batch, options, TASK, 0, RowIds(TASK)), lambda topic: QUEUES)
    assert decode_batch(sent.body)[0].body == b"a"


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ({"body": None}, "row 8 of partition 3 cannot be sent: the body is null or empty"),
        ({"body": b""}, "the body is null or empty"),
        ({"body": bytes((4 << 20) + 1)}, "the body has 4194305 bytes, and brokers accept at most 4194304"),
        ({"body": b"x", "order_key": " "}, "the order key is blank"),
        ({"body": b"x", "tags": "a\x02b"}, "column tags contains U+0002"),
        ({"body": b"x", "keys": ["a b"]}, "row 8 of partition 3 cannot be sent: a key contains ' '"),
        ({"body": b"x", "properties": {"a\x01": "b"}}, "row 8 of partition 3 cannot be sent: the name of a"),
        ({"body": b"x", "properties": {"a": "\x02"}}, "row 8 of partition 3 cannot be sent: a property contains"),
        ({"body": b"x", "properties": {"a": "b" * 40_000}}, "its properties have more than 32767 bytes"),
        ({"body": b"x", "flag": 1 << 31}, "row 8 of partition 3 cannot be sent: the flag does not fit 32 bits"),
        ({"body": b"x", "delay_ms": 1, "delay_level": 1}, "more than one of delay_ms, deliver_at, delay_level"),
        ({"body": b"x", "broker_name": "broker-b", "queue_id": 0}, "'orders' has no queue 0 on broker 'broker-b'"),
    ],
)
def test_a_row_that_is_no_message_is_named_in_one_line(row: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidMessage) as caught:
        _batches([{"body": b"fine"}, row], first=7)
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_row_without_a_topic_is_named() -> None:
    with pytest.raises(InvalidMessage, match="row 1 of partition 3 cannot be sent: the column topic is null"):
        _batches([{"body": b"x", "topic": "a"}, {"body": b"x", "topic": None}], topic=None)
