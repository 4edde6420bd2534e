"""Values that are sent as they are: `send("orders", value)` makes a Message by the topic's codec."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Final

from pyromq.client.send.prepare import not_a_message
from pyromq.codecs.topic_codecs import TopicCodecs
from pyromq.errors import InvalidMessage, PayloadError
from pyromq.protocol.messages.message import Message


class Missing(Enum):
    """The default of an argument for which None is a value too."""

    MISSING = "missing"


MISSING: Final = Missing.MISSING


def message_of(
    codecs: TopicCodecs,
    topic: Message | str,
    value: object,
    tags: str | None,
    keys: Sequence[str] | str,
    properties: Mapping[str, str] | None,
) -> Message:
    """Return what the arguments of `send` stand for; raises InvalidMessage, or PayloadError if it cannot be encoded."""
    if isinstance(topic, Message):
        if value is not MISSING:
            raise InvalidMessage("a Message has its body: send(message), or send(topic, value)")
        if tags is not None or keys or properties:
            raise InvalidMessage("tags, keys and properties belong into the Message: Message(topic, body, tags=...)")
        return topic
    if not isinstance(topic, str) or value is MISSING:
        raise not_a_message(topic)
    if isinstance(value, Message):
        raise InvalidMessage("a Message has its topic: send(message), or send(topic, value)")
    try:
        body = codecs.of(topic).encode(value)
    except PayloadError as error:
        raise error.about(f"a message to {topic}") from None
    return Message(topic, body, tags=tags, keys=keys, properties=properties or {})
