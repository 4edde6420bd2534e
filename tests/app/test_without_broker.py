"""What a broker would do with a message, without one."""

from __future__ import annotations

import pytest

from pyromq import Message
from pyromq.app.without_broker import StoredMessages, answer, passes
from pyromq.client.consume.subscriptions import Expression, Function, Sql
from pyromq.testing import TestClock


def test_messages_get_offsets_by_topic_ids_of_their_own_and_the_time() -> None:
    clock = TestClock()
    stored = StoredMessages(clock)
    before = clock.now_ms()
    got = [stored.store(Message(topic=topic, body=b"x", flag=7, keys="k")) for topic in ("a", "b", "a")]
    assert [(message.topic, message.queue_offset) for message in got] == [("a", 0), ("b", 0), ("a", 1)]
    assert len({message.message_id for message in got}) == 3
    assert {(message.flag, message.keys, message.body) for message in got} == {(7, ("k",), b"x")}
    assert before <= got[0].store_timestamp_ms == got[0].born_timestamp_ms <= clock.now_ms()
    result = answer(got[2])
    assert (result.message_id, result.queue_offset, result.queue.topic) == (got[2].message_id, 1, "a")


@pytest.mark.parametrize(
    ("expression", "expected"),
    [("*", True), ("created || paid", True), ("changed", False), (Sql("region = 'north'"), True),
     (Sql("region = 'south'"), False), (Function("any"), True)],
)  # fmt: skip
def test_filters_decide_as_the_broker_does(expression: Expression, expected: bool) -> None:
    message = Message(topic="orders", body=b"", tags="paid", properties={"region": "north"})
    stored = StoredMessages(TestClock()).store(message)
    assert passes(expression, stored) is expected
