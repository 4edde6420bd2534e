"""Message properties: their names, and the text form `name 0x01 value 0x02 name 0x01 value …`.

Readers split at 0x02. They ignore a piece without 0x01, or with nothing before or after its first 0x01. A value may
contain 0x01. The last of two equal names wins. A separator at the end, which RocketMQ up to 4.9.0 writes, is ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from pyromq.errors import LocalProtocolError

NAME_VALUE_SEPARATOR = "\x01"
PROPERTY_SEPARATOR = "\x02"
MAX_PROPERTIES_LENGTH = 32767
"""Bytes of the whole text, whose length is stored as a signed 16-bit number."""

KEYS = "KEYS"
TAGS = "TAGS"
WAIT = "WAIT"
DELAY = "DELAY"
RETRY_TOPIC = "RETRY_TOPIC"
REAL_TOPIC = "REAL_TOPIC"
REAL_QUEUE_ID = "REAL_QID"
TRANSACTION_PREPARED = "TRAN_MSG"
PRODUCER_GROUP = "PGROUP"
MIN_OFFSET = "MIN_OFFSET"
MAX_OFFSET = "MAX_OFFSET"
BUYER_ID = "BUYER_ID"
ORIGIN_MESSAGE_ID = "ORIGIN_MESSAGE_ID"
TRANSFER_FLAG = "TRANSFER_FLAG"
CORRECTION_FLAG = "CORRECTION_FLAG"
MQ2_FLAG = "MQ2_FLAG"
RECONSUME_TIME = "RECONSUME_TIME"
MAX_RECONSUME_TIMES = "MAX_RECONSUME_TIMES"
MSG_REGION = "MSG_REGION"
TRACE_ON = "TRACE_ON"
UNIQ_KEY = "UNIQ_KEY"
CONSUME_START_TIME = "CONSUME_START_TIME"
TRANSACTION_PREPARED_QUEUE_OFFSET = "TRAN_PREPARED_QUEUE_OFFSET"
TRANSACTION_CHECK_TIMES = "TRANSACTION_CHECK_TIMES"
CHECK_IMMUNITY_TIME_IN_SECONDS = "CHECK_IMMUNITY_TIME_IN_SECONDS"
INSTANCE_ID = "INSTANCE_ID"
CORRELATION_ID = "CORRELATION_ID"
REPLY_TO_CLIENT = "REPLY_TO_CLIENT"
TTL = "TTL"
ARRIVE_TIME = "ARRIVE_TIME"
PUSH_REPLY_TIME = "PUSH_REPLY_TIME"
CLUSTER = "CLUSTER"
MSG_TYPE = "MSG_TYPE"
INNER_MULTI_DISPATCH = "INNER_MULTI_DISPATCH"
INNER_MULTI_QUEUE_OFFSET = "INNER_MULTI_QUEUE_OFFSET"
START_DELIVER_TIME = "__STARTDELIVERTIME"
TIMER_DELAY_SEC = "TIMER_DELAY_SEC"  # this and the next seven come from RocketMQ 5
TIMER_DELAY_MS = "TIMER_DELAY_MS"
TIMER_DELIVER_MS = "TIMER_DELIVER_MS"
TIMER_OUT_MS = "TIMER_OUT_MS"
TIMER_ENQUEUE_MS = "TIMER_ENQUEUE_MS"
TIMER_DEQUEUE_MS = "TIMER_DEQUEUE_MS"
TIMER_ROLL_TIMES = "TIMER_ROLL_TIMES"
TIMER_DELETE_UNIQ_KEY = "TIMER_DEL_UNIQKEY"
TRANSACTION_ID = "__transactionId__"
SHARDING_KEY = "__SHARDINGKEY"

# PyroMQ's own: the physical offset of the timed message that a record delivers, cancels or replaces.
TIMER_FROM = "PYROMQ_TIMER_FROM"
TIMER_NAMES = frozenset(
    {
        START_DELIVER_TIME, TIMER_DELAY_SEC, TIMER_DELAY_MS, TIMER_DELIVER_MS, TIMER_OUT_MS, TIMER_ENQUEUE_MS,
        TIMER_DEQUEUE_MS, TIMER_ROLL_TIMES, TIMER_DELETE_UNIQ_KEY, TIMER_FROM,
    }
)  # fmt: skip
"""The properties of timed delivery; they must be dropped when the message is stored again."""

# PyroMQ's own: why a message was not consumed, and where a resent dead letter comes from.
CAUSE = "PYROMQ_CAUSE"
ORIGIN_TOPIC = "PYROMQ_ORIGIN_TOPIC"
ORIGIN_GROUP = "PYROMQ_ORIGIN_GROUP"
ORIGIN_ID = "PYROMQ_ORIGIN_MESSAGE_ID"
RESENDS = "PYROMQ_RESENDS"

# PyroMQ's own: which batch of a Spark sink sent a message, and for which of its rows.
SINK_BATCH = "PYROMQ_BATCH"
SINK_ROW = "PYROMQ_ROW"

RESERVED_NAMES = frozenset(
    {
        KEYS, TAGS, WAIT, DELAY, RETRY_TOPIC, REAL_TOPIC, REAL_QUEUE_ID, TRANSACTION_PREPARED, PRODUCER_GROUP,
        MIN_OFFSET, MAX_OFFSET, BUYER_ID, ORIGIN_MESSAGE_ID, TRANSFER_FLAG, CORRECTION_FLAG, MQ2_FLAG, RECONSUME_TIME,
        MAX_RECONSUME_TIMES, MSG_REGION, TRACE_ON, UNIQ_KEY, CONSUME_START_TIME, INSTANCE_ID, CORRELATION_ID,
        REPLY_TO_CLIENT, TTL, ARRIVE_TIME, PUSH_REPLY_TIME, CLUSTER, MSG_TYPE, INNER_MULTI_QUEUE_OFFSET,
    }
)  # fmt: skip
"""Names that a user's property may not have, the same as in Java clients."""


def encode_properties(properties: Mapping[str, str]) -> str:
    """Write properties as text; raise LocalProtocolError for what no reader could read back."""
    text = PROPERTY_SEPARATOR.join([f"{name}\x01{value}" for name, value in properties.items()])
    count = len(properties)
    if (
        text.count(NAME_VALUE_SEPARATOR) != count
        or text.count(PROPERTY_SEPARATOR) != count - 1
        or "" in properties
        or "" in properties.values()
    ):
        _check_readable(properties)  # the quick check found something unusual, which may still be legal
    return text


def _check_readable(properties: Mapping[str, str]) -> None:
    for name, value in properties.items():
        if not name or not value:
            raise LocalProtocolError(f"the property {name!r} has an empty name or value")
        if NAME_VALUE_SEPARATOR in name or PROPERTY_SEPARATOR in name or PROPERTY_SEPARATOR in value:
            raise LocalProtocolError(f"the property {name!r} contains a separator")


def decode_properties(raw: str | bytes) -> dict[str, str]:
    """Read properties from text; skip malformed pieces and replace bytes that are not UTF-8."""
    text = raw if isinstance(raw, str) else raw.decode("utf-8", "replace")
    properties = {}
    for piece in text.split(PROPERTY_SEPARATOR):
        name, _, value = piece.partition(NAME_VALUE_SEPARATOR)
        if name and value:
            properties[name] = value
    return properties


def find_property(raw: str | bytes, name: str) -> str | None:
    """Return one property without reading the others: the value that `decode_properties` would give, or None."""
    value = _find_in_text(raw, name) if isinstance(raw, str) else _find_in_bytes(raw, name)
    if value == "":  # an empty value is ignored; an earlier one of the same name may count
        return decode_properties(raw).get(name)
    return value


# The search is for the name between both separators, because `MYTAGS` ends like `TAGS`. It goes from the right, because
# the last one wins, and uses partition, which is faster than find and slices.


def _find_in_text(raw: str, name: str) -> str | None:
    _, found, rest = ("\x02" + raw).rpartition(f"\x02{name}\x01")
    return rest.partition("\x02")[0] if found else None


def _find_in_bytes(raw: bytes, name: str) -> str | None:
    _, found, rest = (b"\x02" + raw).rpartition(_needle(name))
    return str(rest.partition(b"\x02")[0], "utf-8", "replace") if found else None


@lru_cache(maxsize=256)
def _needle(name: str) -> bytes:
    return f"\x02{name}\x01".encode()


def join_properties(first: bytes, second: bytes) -> bytes:
    """Join two texts of properties with one separator between them."""
    if not first or not second or first.endswith(b"\x02"):
        return first + second
    return first + b"\x02" + second
