from __future__ import annotations

from typing import Any

import pytest

from pyromq.errors import InvalidMessage, MalformedHeader
from pyromq.protocol.messages.compression import compress
from pyromq.protocol.messages.message import MAX_BODY_SIZE, Message, MessageExt, MessageQueue
from pyromq.protocol.messages.properties import decode_properties


def test_a_message_is_made_of_what_its_writer_knows() -> None:
    message = Message(topic="orders", body=b"...", tags="created", keys=["o-1", "o-2"], properties={"region": "north"})
    message.check()
    assert message.all_properties() == {"region": "north", "KEYS": "o-1 o-2", "WAIT": "true", "TAGS": "created"}


def test_one_key_may_stand_without_a_list() -> None:
    assert Message("orders", b"x", keys="o-1").keys == ("o-1",)


def test_a_message_without_extras_carries_only_whether_to_wait() -> None:
    assert Message("orders", b"x", wait=False).all_properties() == {"WAIT": "false"}


@pytest.mark.parametrize("body", ["text", None, 5, {"id": 1}])
def test_a_body_must_be_bytes(body: Any) -> None:
    with pytest.raises(InvalidMessage, match=f"must be bytes, not {type(body).__name__}: .*send\\(topic, value\\)"):
        Message("orders", body)


@pytest.mark.parametrize("kind", [bytearray, memoryview])
def test_a_buffer_is_copied_into_the_message(kind: Any) -> None:
    buffer = bytearray(b"x")
    message = Message("orders", kind(buffer))
    buffer[0] = 0
    assert message.body == b"x"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"topic": ""}, "blank"),
        ({"topic": "a b"}, "characters"),
        ({"topic": "t" * 128}, "128"),
        ({"topic": 5}, "must be a str, not int"),
        ({"body": b""}, "empty"),
        ({"body": bytes(MAX_BODY_SIZE + 1)}, "more than the limit of 4194304"),
        ({"properties": {"UNIQ_KEY": "x"}}, "UNIQ_KEY is reserved"),
        ({"properties": {"a": "b\x01c"}}, r"'a' contains U\+0001"),
        ({"properties": {"a\x02": "b"}}, r"U\+0002"),
        ({"properties": {" ": "b"}}, "blank"),
        ({"properties": {"a": ""}}, "blank"),
        ({"properties": {"a": 5}}, "must be str"),
        ({"properties": {"a": "\ud800"}}, "surrogate"),
        ({"properties": {"a": "x" * 32768}}, "more than the limit of 32767"),
        ({"properties": {"a": "订" * 10_923}}, "more than the limit of 32767"),
        ({"tags": "a\x02b"}, "'TAGS' contains"),
        ({"tags": ""}, "blank"),
        ({"keys": ["a b"]}, "contains a blank"),
        ({"keys": [""]}, "blank"),
    ],
)
def test_a_message_that_no_broker_would_take_says_why_in_one_line(changes: dict[str, Any], reason: str) -> None:
    message = Message(**({"topic": "orders", "body": b"x"} | changes))
    with pytest.raises(InvalidMessage, match=reason) as failure:
        message.check()
    assert "\n" not in str(failure.value)


@pytest.mark.parametrize("tags", ["a||b", "a || b", ["a", "b"], 5])
def test_a_filter_is_not_a_tag(tags: Any) -> None:
    with pytest.raises(InvalidMessage, match=r"a message has one tag, a str: not .*; only subscriptions name several"):
        Message("orders", b"x", tags=tags)


@pytest.mark.parametrize("keys", [5, None])
def test_keys_must_be_a_list(keys: Any) -> None:
    with pytest.raises(InvalidMessage, match=f"keys are a list of str, not {keys}"):
        Message("orders", b"x", keys=keys)


def test_the_body_s_limit_can_be_set() -> None:
    Message("orders", bytes(MAX_BODY_SIZE)).check()
    with pytest.raises(InvalidMessage, match="limit of 10"):
        Message("orders", bytes(11)).check(max_body_size=10)


def test_properties_up_to_the_limit_pass() -> None:
    room = 32767 - len("a\x01") - len("\x02WAIT\x01true")
    Message("orders", b"x", properties={"a": "x" * room}).check()
    with pytest.raises(InvalidMessage, match="32768 bytes"):
        Message("orders", b"x", properties={"a": "x" * (room + 1)}).check()


def test_a_message_shows_itself_without_its_body() -> None:
    assert repr(Message("orders", b"secret", tags="t", keys=["k"])) == (
        "Message(topic='orders', tags='t', keys=('k',), body of 6 bytes)"
    )
    assert "secret" not in repr(MessageExt("orders", b"secret", queue_id=1, queue_offset=2, broker_name="b"))
    assert "at=b:1:2" in repr(MessageExt("orders", b"secret", queue_id=1, queue_offset=2, broker_name="b"))


def test_a_compressed_body_is_inflated_when_it_is_asked_for() -> None:
    message = MessageExt("orders", compress(b"x" * 5000), sys_flag=1)
    assert message.body == b"x" * 5000
    assert message.body is message.body
    assert len(message.stored_body) < 100


def test_a_damaged_compressed_body_leaves_the_rest_readable() -> None:
    message = MessageExt("orders", b"garbage", b"TAGS\x01t", sys_flag=1)
    with pytest.raises(MalformedHeader, match="damaged"):
        message.body  # noqa: B018
    assert message.tags == "t"
    assert "body of 7 bytes" in repr(message)


def test_properties_are_the_same_before_and_after_all_were_read() -> None:
    raw = b"MYTAGS\x01other\x02KEYS\x01a  b\tc\x02UNIQ_KEY\x01U1"
    message = MessageExt("orders", b"", raw)
    before = (message.tags, message.keys, message.message_id)
    assert message.properties == decode_properties(raw)
    assert (message.tags, message.keys, message.message_id) == before == (None, ("a", "b\tc"), "U1")


def test_without_a_producer_s_id_a_message_has_that_of_its_place() -> None:
    message = MessageExt("orders", b"", raw_store_host=bytes.fromhex("0A00000500002A9F"), physical_offset=0x1234)
    assert message.message_id == "0A00000500002A9F0000000000001234"


def test_times_come_with_their_zone() -> None:
    message = MessageExt("orders", b"", born_timestamp_ms=1640000000001, store_timestamp_ms=-1)
    assert message.born_at.isoformat() == "2021-12-20T11:33:20.001000+00:00"
    assert message.stored_at.isoformat() == "1969-12-31T23:59:59.999000+00:00"
    with pytest.raises(MalformedHeader, match="not a time"):
        MessageExt("orders", b"", born_timestamp_ms=2**62).born_at  # noqa: B018


def test_queues_sort_by_topic_broker_and_number() -> None:
    queues = [
        MessageQueue("t", "b", 10),
        MessageQueue("t", "b", 2),
        MessageQueue("t", "a", 3),
        MessageQueue("s", "z", 9),
    ]
    assert sorted(queues) == [queues[3], queues[2], queues[1], queues[0]]
