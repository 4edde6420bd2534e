"""Messages that were not consumed: what of one is stored again, and when it is retried no more."""

from __future__ import annotations

from msgspec.structs import replace

from pyromq.errors import BrokerError
from pyromq.protocol.bodies import SubscriptionGroupConfig
from pyromq.protocol.messages.message_id import encode_offset_id
from pyromq.protocol.messages.properties import (
    CAUSE,
    DELAY,
    MAX_PROPERTIES_LENGTH,
    ORIGIN_MESSAGE_ID,
    RETRY_TOPIC,
    TAGS,
    TIMER_NAMES,
    WAIT,
    decode_properties,
    encode_properties,
)
from pyromq.protocol.messages.record import Record, RecordHead, read_head, read_tail
from pyromq.protocol.names import SCHEDULE_TOPIC, SYSTEM_TOPIC_PREFIX, TRANSACTION_HALF_TOPIC, TRANSACTION_OP_TOPIC
from pyromq.protocol.tag_filter import tag_code

MAX_CAUSE = 1000
"""Characters of a cause that are kept: it comes from a peer, and properties have a limit."""

_SENDS_MAX_RECONSUME_TIMES = 121  # version 3.4.9: what an older client has in that field is not meant
_ROOM_TO_PLACE = 256  # bytes that the placing of a delayed message adds: its topic and queue
_SEPARATORS = str.maketrans("\x01\x02", "  ")
# What waits in these is not a consumer's to send anywhere: it would get out before its time.
_NOT_CONSUMED = frozenset({SCHEDULE_TOPIC, TRANSACTION_HALF_TOPIC, TRANSACTION_OP_TOPIC})


def is_exhausted(group: SubscriptionGroupConfig, times: int, client_limit: int | None, client_version: int) -> bool:
    """Tell whether a message was retried as often as the consumer, or else its group, allows."""
    if client_limit is None or client_version < _SENDS_MAX_RECONSUME_TIMES:
        return times >= group.retry_max_times
    return times >= client_limit


class FailedMessage:
    """A copy of a stored message, on its way to a retry topic or to the dead letters; `cause` is why it failed."""

    def __init__(self, stored: bytes, cause: str | None) -> None:
        head = read_head(stored)
        raw_topic, raw_properties = read_tail(stored, head)
        topic = raw_topic.decode("utf-8", "replace")
        if topic in _NOT_CONSUMED or topic.startswith(SYSTEM_TOPIC_PREFIX):
            raise BrokerError(f"the message at physical offset {head.physical_offset} is none for consumers")
        self.times = head.reconsume_times
        """How often it was retried already."""
        self._properties = _carried(decode_properties(raw_properties), topic, head)
        self.origin_topic = self._properties.get(RETRY_TOPIC, topic)
        """The topic that it was first sent to."""
        self._cause = (cause or "").translate(_SEPARATORS).strip()[:MAX_CAUSE]
        self._record = Record(
            topic=topic,
            body=stored[head.body_position : head.body_position + head.body_length],
            tags_code=tag_code(self._properties.get(TAGS)),
            flag=head.flag,
            sys_flag=head.sys_flag,
            born_timestamp_ms=head.born_timestamp_ms,
            born_host=head.born_host,
            store_host=head.store_host,
            reconsume_times=head.reconsume_times + 1,
        )

    def record(self, topic: str, queue_id: int, when: dict[str, str]) -> tuple[Record, dict[str, str]]:
        """Return what is to be stored, and its properties one by one; `when` says by properties when it is due."""
        properties = {**self._properties, **when}
        if self._cause:
            properties[CAUSE] = self._cause
        text = encode_properties(properties).encode()
        if len(text) > MAX_PROPERTIES_LENGTH - _ROOM_TO_PLACE and self._cause:
            del properties[CAUSE]  # better without its cause than not at all
            text = encode_properties(properties).encode()
        return replace(self._record, topic=topic, queue_id=queue_id, properties=text), properties


def _carried(properties: dict[str, str], topic: str, head: RecordHead) -> dict[str, str]:
    """Return the properties that stay: those of an earlier delay have had their effect."""
    for name in (*TIMER_NAMES, DELAY, CAUSE):
        properties.pop(name, None)
    properties.setdefault(RETRY_TOPIC, topic)
    properties.setdefault(ORIGIN_MESSAGE_ID, encode_offset_id(head.store_host, head.physical_offset))
    properties[WAIT] = "false"
    return properties
