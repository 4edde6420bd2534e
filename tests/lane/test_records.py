"""Answers to pulls: the lane makes the same messages of them as the decoder in Python, or leaves them to it."""

from __future__ import annotations

import random
from types import ModuleType

import pytest

from pyromq.errors import CorruptRecord, MalformedHeader
from pyromq.lane import native
from pyromq.lane.records import decode_messages
from pyromq.protocol.messages.message import MessageExt
from pyromq.protocol.messages.record import Record, encode_record, shared_topic
from tests.lane.answers import difference, mangled_answer
from tests.lane.places import BORN, HOST

MODULE = native("records")
needs_native = pytest.mark.skipif(MODULE is None, reason="the native lane is not built")


def record(body: bytes, topic: bytes = b"orders", properties: bytes = b"TAGS\x01a") -> bytes:
    made = Record(topic="", body=body, queue_id=3, born_timestamp_ms=5, born_host=BORN, store_host=HOST)
    made.properties = properties
    return encode_record(made, topic, 7, 4096, 6)


def test_records_become_messages_in_their_order() -> None:
    first, second, third = decode_messages(record(b"a") + record(b"b" * 100, b"other") + record(b""), "broker-a")
    assert [first.body, second.body, third.body] == [b"a", b"b" * 100, b""]
    assert (first.topic, second.topic, third.topic) == ("orders", "other", "orders")
    assert (first.queue_id, first.queue_offset, first.physical_offset, first.broker_name) == (3, 7, 4096, "broker-a")
    assert (first.tags, first.raw_born_host, first.raw_store_host) == ("a", BORN, HOST)
    assert decode_messages(b"", None) == []


def test_damage_is_told_as_ever() -> None:
    good = record(b"body")
    with pytest.raises(CorruptRecord):
        decode_messages(good + good.replace(b"body", b"bodY"), None)
    with pytest.raises(MalformedHeader):
        decode_messages(good + good[:-1], None)


@needs_native
def test_the_native_lane_agrees_about_mangled_answers() -> None:
    assert isinstance(MODULE, ModuleType)
    chance = random.Random(11)
    answers = [mangled_answer(chance) for _ in range(2000)]
    assert [text for one in answers if (text := difference(MODULE, one))] == []
    taken = sum(MODULE.decode(one, None, MessageExt, shared_topic) is not None for one in answers)
    assert 500 < taken < 1900


@needs_native
def test_an_error_of_the_class_is_passed_on() -> None:
    assert isinstance(MODULE, ModuleType)

    def refuse(*fields: object) -> None:
        raise ValueError(len(fields))

    with pytest.raises(ValueError, match="17"):
        MODULE.decode(record(b"x") * 2, None, refuse, shared_topic)
    with pytest.raises(ZeroDivisionError):
        MODULE.decode(record(b"x"), None, MessageExt, lambda topic: 1 // 0)
