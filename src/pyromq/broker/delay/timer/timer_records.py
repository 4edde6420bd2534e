"""The records that the timer writes into the log. After a crash it knows only what is in them.

    waiting     topic rmq_sys_wheel_timer   REAL_TOPIC, REAL_QID and TIMER_OUT_MS, when it is due
    moved       the same                    … and PYROMQ_TIMER_FROM, the place of the record that it replaces
    cancelled   the same, without a body    … and TIMER_DEL_UNIQKEY and PYROMQ_TIMER_FROM, what it cancels
    delivered   its own topic               … and PYROMQ_TIMER_FROM, the place of the record that waited

Names without PYROMQ are those of RocketMQ 5. A record with PYROMQ_TIMER_FROM ends the waiting of another record.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from pyromq.broker.delay.deliveries import stored_again
from pyromq.errors import MessageIllegal, ProtocolError
from pyromq.protocol.messages.message import MessageExt
from pyromq.protocol.messages.properties import (
    KEYS,
    MAX_PROPERTIES_LENGTH,
    PRODUCER_GROUP,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    START_DELIVER_TIME,
    TIMER_DELAY_MS,
    TIMER_DELAY_SEC,
    TIMER_DELETE_UNIQ_KEY,
    TIMER_DELIVER_MS,
    TIMER_DEQUEUE_MS,
    TIMER_ENQUEUE_MS,
    TIMER_FROM,
    TIMER_OUT_MS,
    TIMER_ROLL_TIMES,
    UNIQ_KEY,
    encode_properties,
    find_property,
)
from pyromq.protocol.messages.record import Record, decode_messages
from pyromq.protocol.names import TIMER_TOPIC
from pyromq.store.index.pending_table import Pending

TIMER_QUEUE: Final = 0
MAX_DELAY_MS: Final = 40 * 24 * 3600 * 1000
ROOM: Final = 512
"""Bytes by which a delivery may be longer than the waiting record: a longer topic, a few properties."""

_OF_AN_EARLIER_TIME: Final = (TIMER_ENQUEUE_MS, TIMER_DEQUEUE_MS, TIMER_ROLL_TIMES, TIMER_FROM, TIMER_DELETE_UNIQ_KEY)
_FROM_MARK: Final = f"{TIMER_FROM}\x01".encode()
_TIMER_TOPIC_NAME: Final = TIMER_TOPIC.encode()


class RecordMeaning(NamedTuple):
    """What a record means to the timer: which message begins to wait, and which one ends."""

    begins: Pending | None
    ends: Pending | None


_NOTHING: Final = RecordMeaning(None, None)


# --- what a sender asks for


def due_time(properties: Mapping[str, str], now_ms: int) -> int:
    """Return when a message is due, in ms; raise MessageIllegal if that is not a time or too far ahead.

    If several properties are set, the first in RocketMQ 5's order counts.
    """
    if TIMER_DELAY_SEC in properties:
        due_ms = now_ms + 1000 * _number(properties, TIMER_DELAY_SEC)
    elif TIMER_DELAY_MS in properties:
        due_ms = now_ms + _number(properties, TIMER_DELAY_MS)
    else:
        due_ms = _number(properties, TIMER_DELIVER_MS if TIMER_DELIVER_MS in properties else START_DELIVER_TIME)
    if due_ms - now_ms > MAX_DELAY_MS:
        raise MessageIllegal(
            f"the message is to be delivered in {(due_ms - now_ms) // 1000} s;"
            f" the timer takes {MAX_DELAY_MS // 1000} s (40 days) at most"
        )
    return due_ms


def _number(properties: Mapping[str, str], name: str) -> int:
    text = properties[name]
    try:
        return int(text) if text.isascii() and len(text) < 20 else int("")
    except ValueError:
        raise MessageIllegal(f"the property {name} is not a whole number: {text[:40]!r}") from None


def let_wait(record: Record, properties: dict[str, str], due_ms: int, largest: int) -> None:
    """Turn a record into one that waits; raise MessageIllegal if its delivery would be too large for the log."""
    for name in _OF_AN_EARLIER_TIME:
        properties.pop(name, None)
    properties |= {TIMER_OUT_MS: str(due_ms), REAL_TOPIC: record.topic, REAL_QUEUE_ID: str(record.queue_id)}
    text = encode_properties(properties).encode()
    if len(text) > MAX_PROPERTIES_LENGTH - ROOM or len(record.body) + len(text) + ROOM > largest:
        raise MessageIllegal("the message is too large to be stored again when it is due")
    record.topic, record.queue_id, record.properties = TIMER_TOPIC, TIMER_QUEUE, text


# --- what the timer stores


def delivered(message: MessageExt, now_ms: int) -> MessageExt:
    """Return a due message with the properties of its delivery."""
    return _with(
        message,
        {
            TIMER_ENQUEUE_MS: str(message.store_timestamp_ms),
            TIMER_DEQUEUE_MS: str(now_ms),
            TIMER_FROM: str(message.physical_offset),
        },
    )


def moved(message: MessageExt) -> Record:
    """Return the record that stores a waiting message again, before its file of the log is deleted."""
    rolls = message.properties.get(TIMER_ROLL_TIMES, "0")
    _with(
        message,
        {
            TIMER_FROM: str(message.physical_offset),
            TIMER_ROLL_TIMES: str(int(rolls) + 1 if rolls.isdecimal() else 1),
        },
    )
    return stored_again(message, TIMER_TOPIC, TIMER_QUEUE)


def cancelled(message: MessageExt, group: str, now_ms: int) -> Record:
    """Return the record that cancels a waiting message."""
    properties = {
        name: message.properties[name]
        for name in (TIMER_OUT_MS, REAL_TOPIC, REAL_QUEUE_ID)
        if name in message.properties
    }
    properties |= {TIMER_DELETE_UNIQ_KEY: message.message_id, TIMER_FROM: str(message.physical_offset)}
    properties |= {KEYS: message.message_id} | ({PRODUCER_GROUP: group} if group else {})
    return Record(
        topic=TIMER_TOPIC,
        queue_id=TIMER_QUEUE,
        body=b"",
        properties=encode_properties(properties).encode(),
        born_timestamp_ms=now_ms,
        born_host=message.raw_store_host,
        store_host=message.raw_store_host,
    )


def _with(message: MessageExt, added: Mapping[str, str]) -> MessageExt:
    message.properties.update(added)
    message.raw_properties = encode_properties(message.properties).encode()
    return message


# --- what the timer finds


def meaning(physical_offset: int, properties: bytes) -> RecordMeaning:
    """Return the meaning of a record in the timer's topic; it has none without a due time."""
    due_ms = _read_number(properties, TIMER_OUT_MS)
    if due_ms is None:
        return _NOTHING
    origin = _read_number(properties, TIMER_FROM) if _FROM_MARK in properties else None
    ends = Pending(due_ms, origin) if origin is not None else None
    is_cancel = find_property(properties, TIMER_DELETE_UNIQ_KEY) is not None
    return RecordMeaning(None if is_cancel else Pending(due_ms, physical_offset), ends)


def delivered_origin(topic: bytes, properties: bytes) -> int | None:
    """Return where the message waited if a record may be its delivery, else None."""
    if _FROM_MARK not in properties or topic == _TIMER_TOPIC_NAME:
        return None
    return _read_number(properties, TIMER_FROM)


def is_delivery(record: MessageExt, waiting: MessageExt) -> bool:
    """Return True if a record is the delivery of a waiting one: it names its place and has the same identity.

    The place alone is not enough: a consumer may send a message on with all its properties.
    """
    return (
        record.physical_offset > waiting.physical_offset
        and waiting.topic == TIMER_TOPIC
        and waiting.properties.get(REAL_TOPIC) == record.topic
        and all(record.properties.get(name) == waiting.properties.get(name) for name in (UNIQ_KEY, TIMER_OUT_MS))
        and (record.born_timestamp_ms, record.reconsume_times) == (waiting.born_timestamp_ms, waiting.reconsume_times)
    )


def read_waiting(stored: bytes | None) -> MessageExt | None:
    """Return a stored record as a waiting message; None if it is not one."""
    if stored is None:
        return None
    try:
        (message,) = decode_messages(stored, check_crc=False)  # the store has checked it
    except (ProtocolError, ValueError):
        return None
    begins, _ = meaning(message.physical_offset, message.raw_properties)
    return message if message.topic == TIMER_TOPIC and begins is not None else None


def due_of(message: MessageExt) -> Pending:
    """Return when a waiting message is due, and where it is."""
    return Pending(int(message.properties[TIMER_OUT_MS]), message.physical_offset)


def _read_number(properties: bytes, name: str) -> int | None:
    text = find_property(properties, name) or ""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else None
