"""Large bodies in steps: the same values as at once, and every step is short whatever the peer sent."""

from __future__ import annotations

import gc
import json
import time
import tracemalloc
from collections.abc import Iterator
from typing import Annotated, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Meta, field

from pyromq.errors import MalformedHeader
from pyromq.protocol.bodies import (
    ConsumerData,
    DataVersion,
    HeartbeatData,
    LockBatchRequestBody,
    MessageModel,
    ProducerData,
    RegisterBrokerBody,
    SubscriptionData,
    TopicConfig,
    TopicConfigSerializeWrapper,
    encode,
)
from pyromq.protocol.bodies.codec import Body
from pyromq.protocol.bodies.json_steps import SMALL, Steps, T, decoding, encoding
from pyromq.protocol.messages.message import MessageQueue

MOST_OF_A_STEP = 0.05


@pytest.fixture(autouse=True)
def no_garbage_collection() -> Iterator[None]:
    """A collection would look at all that pytest and its plug-ins hold."""
    gc.disable()
    yield
    gc.enable()


def finish(steps: Steps[T]) -> T:
    """Take all steps; none may take long."""
    while True:
        before = time.thread_time()
        try:
            next(steps)
        except StopIteration as stop:
            result: T = stop.value
            return result
        finally:
            assert time.thread_time() - before < MOST_OF_A_STEP


def registration(count: int) -> RegisterBrokerBody:
    topics = {f"t{number}": TopicConfig(topic_name=f"t{number}", perm=number % 7) for number in range(count)}
    return RegisterBrokerBody(TopicConfigSerializeWrapper(DataVersion(1, count), topics), ["f:1"])


LARGE = [
    registration(200),
    registration(25_000),
    HeartbeatData(
        client_id="c",
        producer_data_set=[ProducerData(f"p{number}") for number in range(900)],
        consumer_data_set=[
            ConsumerData(
                group_name=f"g{number}",
                message_model=MessageModel.BROADCASTING,
                subscription_data_set=[SubscriptionData(topic=f"t{n}", tags_set=["a", "b"]) for n in range(30)],
            )
            for number in range(300)
        ],
    ),
    LockBatchRequestBody("g", "c", [MessageQueue("t", "b", number) for number in range(65_535)]),
]


@pytest.mark.parametrize("body", LARGE)
def test_a_large_body_is_written_and_read_in_steps(body: Any) -> None:
    data = finish(encoding(body))
    assert data == encode(body)
    assert len(data) > SMALL
    assert finish(decoding(type(body), data)) == body


def test_a_large_body_is_copied_once_at_the_end() -> None:
    """The last step of 20 MB took 50 ms when each container copied what was inside it."""
    body = LockBatchRequestBody("g", "c", [MessageQueue("topic" * 40, "broker", number) for number in range(40_000)])
    steps = encoding(body)
    next(steps)
    tracemalloc.start()
    try:
        data = finish(steps)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(data) > 10_000_000
    assert peak < 2.3 * len(data), "the parts and the whole"


def test_a_small_body_may_be_in_any_dialect() -> None:
    assert finish(decoding(HeartbeatData, b"{clientID:'c'}")) == HeartbeatData(client_id="c")


def test_other_spellings_unknown_members_and_nulls_are_read_as_in_small_bodies() -> None:
    text = json.dumps(
        {
            "topic_config_serialize_wrapper": {
                "dataVersion": {"counter": "7", "timestamp": 1, "more": []},
                "topicConfigTable": {f"t{number}": {"topicName": f"t{number}", "perm": "6"} for number in range(2000)},
            },
            "filterServerList": None,
            "unknown": ["x" * SMALL] * 3,
        },
        indent=1,
    )
    found = finish(decoding(RegisterBrokerBody, text.encode())).topic_config_serialize_wrapper
    assert found.data_version == DataVersion(1, 7)
    assert found.topic_config_table["t1999"] == TopicConfig(topic_name="t1999", perm=6)


@settings(max_examples=40)
@given(st.recursive(st.none() | st.integers(0, 9) | st.text(max_size=3), lambda inner: st.lists(inner, max_size=3)))
def test_items_are_cut_where_they_end(item: object) -> None:
    """Unknown members hold anything; what follows them is found."""
    members = {f"unknown{number}": [item, "]}", {"a": item}] for number in range(2)}
    text = json.dumps({**members, "padding": "x" * SMALL, "clientID": "found"})
    assert finish(decoding(HeartbeatData, text.encode())).client_id == "found"


class Limited(Body):
    """Has a limit for each of its containers."""

    by_name: Annotated[dict[str, str], Meta(max_length=100)] = field(default_factory=dict)
    by_number: Annotated[dict[int, int], Meta(max_length=5_000)] = field(default_factory=dict)
    names: Annotated[list[str], Meta(max_length=3)] = field(default_factory=list)


@pytest.mark.parametrize(
    "body",
    [
        Limited(by_name={str(number): "x" * 200 for number in range(101)}),
        Limited(by_number={number: number for number in range(5_001)}),
        Limited(names=["x" * SMALL] * 4),
    ],
)
def test_what_has_too_many_items_is_refused(body: Limited) -> None:
    data = encode(body, quoted_keys=True)
    assert len(data) > SMALL
    with pytest.raises(MalformedHeader):
        finish(decoding(Limited, data))


def test_numbers_as_keys_are_read_from_standard_json() -> None:
    body = Limited(by_number={number: -number for number in range(4_000)})
    assert finish(decoding(Limited, encode(body, quoted_keys=True))) == body


MANY = 200_000
HOSTILE = {
    "lists": b'{"producerDataSet":[' + b"[]," * MANY + b"[]]}",
    "objects": b'{"producerDataSet":[' + b"{}," * MANY + b"{}]}",
    "subscriptions": b'{"consumerDataSet":[{"subscriptionDataSet":[' + b"{}," * MANY + b"{}]}]}",
    "dialect": b"{producerDataSet:[" + b"{}," * MANY + b"{}]}",
    "escaped quotes": b'{"producerDataSet":["' + b'\\"' * MANY + b"]}",
    "open strings": b'{"producerDataSet":[' + b'{"' * MANY,
    "blanks": b'{"producerDataSet":[' + b" " * 4 * MANY,
    "a list for a text": b'{"clientID":[' + b"1," * MANY + b"1]}",
    "nesting": b'{"producerDataSet":' + b"[" * MANY,
    "unbalanced": b'{"producerDataSet":[' + b"]" * MANY + b"}",
    "references": b'{"producerDataSet":[' + b'{"$ref":"$"},' * 50_000 + b"{}]}",
    "no object": b"1" * MANY,
    "cut short": encode(LARGE[1])[:-1],
    "followed by more": encode(LARGE[1]) + b",",
    "commas": b"{" + b"," * MANY + b"}",
    "a long text": b'{"clientID":"' + b"x" * 16 * MANY + b'"}',
    "a long name": b'{"' + b"\\a" * 16 * MANY + b'":1}',
    "a long number": b'{"clientID":' + b"1" * 16 * MANY + b"}",
    "a long text in a list": b'{"consumerDataSet":[[' + b'1],["' + b"\\a" * 8 * MANY + b'"]]}',
    "a flat object": b'{"consumerDataSet":[{' + b'"a":"b",' * 2 * MANY + b'"b":2}',
    "not UTF-8": b'{"clientID":"' + b"\xff" * MANY + b'"}',
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_body_is_refused_and_no_step_takes_long(name: str) -> None:
    with pytest.raises(MalformedHeader):
        finish(decoding(RegisterBrokerBody if "short" in name or "more" in name else HeartbeatData, HOSTILE[name]))
