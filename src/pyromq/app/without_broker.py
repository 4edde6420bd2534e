"""What a broker would do with a message, for tests that run without one: number it, answer its sender, filter it.

`pyromq.testing.TestApp` and FastStream's test broker share it.
"""

from __future__ import annotations

from typing import Final

from pyromq.client.consume.subscriptions import Expression, Function, Sql
from pyromq.client.send_result import SendResult, SendStatus
from pyromq.clock import Clock
from pyromq.protocol.messages.message import Message, MessageExt, MessageQueue
from pyromq.protocol.messages.properties import UNIQ_KEY, encode_properties
from pyromq.protocol.sql92.sql_filter import compile_sql
from pyromq.protocol.tag_filter import parse_tags

_BROKER: Final = "test"


class StoredMessages:
    """Numbers messages as a broker does whose topics have one queue each."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ends: dict[str, int] = {}
        self._count = 0

    def store(self, message: Message) -> MessageExt:
        """Return a message as its consumers get it."""
        offset = self._ends.get(message.topic, 0)
        self._ends[message.topic] = offset + 1
        self._count += 1
        now_ms = self._clock.now_ms()
        return MessageExt(
            topic=message.topic,
            stored_body=message.body,
            raw_properties=encode_properties({**message.all_properties(), UNIQ_KEY: f"TEST{self._count:028}"}).encode(),
            broker_name=_BROKER,
            queue_offset=offset,
            flag=message.flag,
            born_timestamp_ms=now_ms,
            store_timestamp_ms=now_ms,
        )


def answer(stored: MessageExt) -> SendResult:
    """Return what the sender of a message is told."""
    return SendResult(
        status=SendStatus.SEND_OK,
        message_id=stored.message_id,
        offset_message_id=stored.offset_message_id,
        queue=MessageQueue(stored.topic, _BROKER, stored.queue_id),
        queue_offset=stored.queue_offset,
    )


def passes(expression: Expression, message: MessageExt) -> bool:
    """Return what the broker's filter says; a function of the broker is not here, and lets all pass."""
    if isinstance(expression, Sql):
        return compile_sql(expression.expression).matches(message.properties)
    if isinstance(expression, Function):
        return True
    tags = parse_tags(expression).tags
    return not tags or message.tags in tags
