"""The tries of a dead letter, from real retries."""

from __future__ import annotations

from pyromq import Message, MessageExt, Producer, PushConsumer
from pyromq.admin import AdminClient, Letter
from pyromq.admin.letters.tries import tries_of
from pyromq.protocol.messages.properties import encode_properties
from pyromq.protocol.names import dlq_topic
from pyromq.testing import LocalCluster, eventually


def copy(topic: str, times: int, body: bytes = b"x", **properties: str) -> MessageExt:
    text = encode_properties(properties).encode()
    return MessageExt(topic, body, text, reconsume_times=times, store_timestamp_ms=10_000 * (times + 1))


def test_each_try_has_the_cause_that_the_next_copy_names() -> None:
    tries = tries_of(
        [
            copy("%DLQ%billing", 2, PYROMQ_CAUSE="second", RETRY_TOPIC="orders", color="red"),
            copy("orders", 0, color="blue"),
            copy("%RETRY%billing", 1, b"y", PYROMQ_CAUSE="first", RETRY_TOPIC="orders", color="blue", size="1"),
        ]
    )
    assert [(one.number, one.cause, one.is_last) for one in tries] == [
        (0, "first", False),
        (1, "second", False),
        (2, None, True),
    ]
    assert [one.waited for one in tries] == [None, 10.0, 10.0]
    assert [one.body_changed for one in tries] == [False, True, True]
    assert [[(change.name, change.before, change.after) for change in one.changes] for one in tries] == [
        [],
        [("size", None, "1")],
        [("color", "blue", "red"), ("size", "1", None)],
    ]


def test_nothing_is_no_tries() -> None:
    assert tries_of([]) == []


async def test_the_copies_of_a_message_that_failed_are_found(cluster: LocalCluster, topic: str) -> None:
    group = f"{topic}-group"

    async def fail(message: MessageExt) -> None:
        raise ValueError(f"try {message.reconsume_times}")

    consumer = PushConsumer(
        group, cluster.namesrv, {topic: "*"}, fail, clock=cluster.clock, max_reconsume=2, start_from="earliest"
    )
    async with (
        AdminClient(cluster.namesrv, clock=cluster.clock) as admin,
        Producer("shop", cluster.namesrv, clock=cluster.clock) as producer,
    ):
        sent = await producer.send(Message(topic=topic, body=b"one", properties={"color": "blue"}))
        async with consumer:

            async def is_dead() -> bool:
                await cluster.clock.advance_async(seconds=20)
                return dlq_topic(group) in await admin.topics.names()

            await eventually(is_dead)
        (letter,) = [letter async for letter in admin.dead_letters.read(group)]
        tries = await admin.dead_letters.tries(letter)
        again = await admin.messages.resend(letter.message)
        copies = [message async for message in admin.messages.find(topic) if message.message_id == again.message_id]
    assert letter.message.message_id == sent.message_id
    assert [one.number for one in tries] == [0, 1, 2, 3]
    assert [one.is_last for one in tries] == [False, False, False, True]
    assert [cause and cause.partition(" (")[0] for cause in (one.cause for one in tries)] == [
        "ValueError: try 0",
        "ValueError: try 1",
        "ValueError: try 2",
        None,
    ]
    assert all(not one.changes and not one.body_changed for one in tries)
    assert [Letter(message).resends for message in copies] == [1]
    assert copies[0].properties["color"] == "blue"
