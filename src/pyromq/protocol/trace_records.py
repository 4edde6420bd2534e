"""Records of message traces: the text in the body of a trace message.

    body of a trace message = record record ...
    record                  = type U+0001 field U+0001 field ... U+0002

The classes below list the fields of each type in order. A missing value is written `null`. The keys of a trace message
are the ids and keys of all messages in its records, so that any of them finds the records.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from enum import IntEnum
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import astuple

from pyromq.protocol.headers.transactions import TransactionState

_FIELD: Final = "\x01"
_RECORD: Final = "\x02"
_NULL: Final = "null"
_PUB_WITHOUT_PLACE: Final = 12
"""Fields of a Pub by older clients, which do not write the offset message id."""


class MessageType(IntEnum):
    """The kind of message that a record is about."""

    NORMAL = 0
    HALF = 1
    COMMIT = 2
    DELAY = 3


class ConsumeCode(IntEnum):
    """The outcome of a listener, with RocketMQ's names."""

    SUCCESS = 0
    TIME_OUT = 1
    EXCEPTION = 2
    RETURNNULL = 3
    FAILED = 4


TRANSACTION_STATES: Final = {
    TransactionState.COMMIT: "COMMIT_MESSAGE",
    TransactionState.ROLLBACK: "ROLLBACK_MESSAGE",
    TransactionState.UNKNOWN: "UNKNOW",
}


class Pub(Struct, frozen=True, array_like=True, gc=False):
    """A message was sent and stored."""

    timestamp_ms: int
    """When the send began."""
    region: str | None
    group: str | None
    topic: str | None
    message_id: str
    """For a batch sent by a Java client: all ids, joined by commas."""
    tags: str | None
    keys: str | None
    """Separated by blanks, as in all classes below."""
    store_host: str | None
    body_length: int
    """Bytes sent: the compressed size if the body was compressed."""
    cost_ms: int
    message_type: int
    offset_message_id: str | None
    success: bool


class SubBefore(Struct, frozen=True, array_like=True, gc=False):
    """A listener is about to receive a message."""

    timestamp_ms: int
    region: str | None
    group: str | None
    request_id: str
    """The same id as in the SubAfter of this call."""
    message_id: str
    retry_times: int
    keys: str | None


class SubAfter(Struct, frozen=True, array_like=True, gc=False):
    """A listener has returned or failed."""

    request_id: str
    message_id: str
    cost_ms: int
    """For a batch, the share of each message."""
    success: bool
    keys: str | None
    code: int = ConsumeCode.SUCCESS
    timestamp_ms: int = 0
    """When the listener ended; clients of cloud services leave this and the group out."""
    group: str | None = None


class EndTransaction(Struct, frozen=True, array_like=True, gc=False):
    """The outcome of a transaction is about to be sent to the broker."""

    timestamp_ms: int
    region: str | None
    group: str | None
    topic: str | None
    message_id: str
    tags: str | None
    keys: str | None
    store_host: str | None
    message_type: int
    transaction_id: str | None
    state: str
    from_check: bool


TraceRecord = Pub | SubBefore | SubAfter | EndTransaction

_TYPES: Final[dict[str, type[TraceRecord]]] = {
    kind.__name__: kind for kind in (Pub, SubBefore, SubAfter, EndTransaction)
}


def encode_trace_record(record: TraceRecord) -> str:
    """Return a record as the text in the body of a trace message."""
    return _FIELD.join([type(record).__name__, *map(_text, astuple(record))]) + _RECORD


def _text(value: object) -> str:
    if value is None:
        return _NULL
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else str(int(value))  # type: ignore[call-overload]


def record_keys(record: TraceRecord) -> list[str]:
    """Return the keys that must find the trace message of this record."""
    return [record.message_id, *(key for key in (record.keys or "").split(" ") if key)]


def decode_trace_records(body: bytes) -> Iterator[TraceRecord]:
    """Yield the records of a trace message; skip what is malformed or of an unknown type."""
    for text in body.decode(errors="replace").split(_RECORD):
        name, *values = text.split(_FIELD)
        kind = _TYPES.get(name)
        if kind is None:
            continue
        if kind is Pub and len(values) == _PUB_WITHOUT_PLACE:
            values.insert(-1, _NULL)
        given = [None if value == _NULL else value for value in values]
        with suppress(msgspec.ValidationError):
            yield msgspec.convert(given, kind, strict=False)
