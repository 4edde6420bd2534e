"""Read message traces: what happened to a message, as the clients that handled it recorded it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from pyromq.admin.messages.key_source import KeySource
from pyromq.admin.messages.lookup import reader_of
from pyromq.admin.messages.search import TimeRange
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.protocol.bodies import BrokerData
from pyromq.protocol.messages.message import MessageExt
from pyromq.protocol.names import TRACE_TOPIC
from pyromq.protocol.trace_records import (
    ConsumeCode,
    EndTransaction,
    MessageType,
    Pub,
    SubAfter,
    SubBefore,
    TraceRecord,
    decode_trace_records,
    record_keys,
)


class TraceEvent(Struct, frozen=True, kw_only=True):
    """Something that happened to a message; `client` is the address of the client that recorded it."""

    message_id: str
    timestamp_ms: int
    group: str | None
    client: str
    keys: tuple[str, ...] = ()


class SendEvent(TraceEvent, frozen=True, kw_only=True):
    """It was sent and stored."""

    topic: str | None
    tags: str | None
    broker: str | None
    """The broker's address."""
    body_size: int
    duration_ms: int
    message_type: str
    """NORMAL, HALF (of a transaction) or DELAY."""
    offset_message_id: str | None
    success: bool
    """False if it was stored less safely than requested."""


class ConsumeEvent(TraceEvent, frozen=True, kw_only=True):
    """A listener received it."""

    request_id: str
    retry_times: int | None = None
    """How often the group had received it before; None if the record of the start is missing."""
    duration_ms: int | None = None
    """None if the record of the end is missing: the listener is still running, or its client died."""
    status: str | None = None
    """SUCCESS, FAILED (the listener asked for a retry), EXCEPTION, TIME_OUT or RETURNNULL."""
    success: bool | None = None


class TransactionEvent(TraceEvent, frozen=True, kw_only=True):
    """A producer told the broker how its transaction ended."""

    topic: str | None
    tags: str | None
    broker: str | None
    state: str
    """COMMIT_MESSAGE, ROLLBACK_MESSAGE or UNKNOW."""
    from_check: bool
    """True if the broker had asked."""


class MessageTrace(Struct, frozen=True):
    """Everything that is known about one message, in order of time."""

    message_id: str
    events: Sequence[TraceEvent]

    @property
    def sends(self) -> list[SendEvent]:
        """Its sends: more than one if it was sent again."""
        return [event for event in self.events if isinstance(event, SendEvent)]

    @property
    def consumptions(self) -> list[ConsumeEvent]:
        """Its deliveries to listeners."""
        return [event for event in self.events if isinstance(event, ConsumeEvent)]

    @property
    def transactions(self) -> list[TransactionEvent]:
        """The ends of its transaction that brokers were told."""
        return [event for event in self.events if isinstance(event, TransactionEvent)]


class Traces:
    """Finds traces of our clients and of Apache's in a trace topic."""

    def __init__(self, api: BrokerApi) -> None:
        self._api = api

    async def of(self, message_id: str, *, topic: str = TRACE_TOPIC) -> MessageTrace:
        """Return the trace of a message by the id that `send` returned; raises NoRoute if there is no trace topic."""
        written = _written_records(await self._find(topic, message_id))
        return _assemble(message_id, [one for one in written if message_id in _ids(one.record)])

    async def by_key(self, key: str, *, topic: str = TRACE_TOPIC) -> list[MessageTrace]:
        """Return the traces of all messages with a key, in the order of their first events."""
        written = [one for one in _written_records(await self._find(topic, key)) if key in record_keys(one.record)]
        ids = dict.fromkeys(message_id for one in written for message_id in _ids(one.record))
        traces = [_assemble(found, [one for one in written if found in _ids(one.record)]) for found in ids]
        return sorted(traces, key=lambda trace: trace.events[0].timestamp_ms)

    async def _find(self, topic: str, key: str) -> list[MessageExt]:
        route = await self._api.route(topic)
        found = await asyncio.gather(*[self._find_on(broker, topic, key) for broker in route.broker_datas])
        return [message for messages in found for message in messages]

    async def _find_on(self, broker: BrokerData, topic: str, key: str) -> list[MessageExt]:
        source = KeySource(self._api, reader_of(broker), broker.broker_name, topic, key, TimeRange())
        found: list[MessageExt] = []
        while page := await source.next_block():
            found += page
        return found[::-1]


class _WrittenRecord(Struct, frozen=True):
    record: TraceRecord
    client: str


def _written_records(messages: Iterable[MessageExt]) -> list[_WrittenRecord]:
    """Return the records of trace messages; a trace message may be sent twice, but its records count once."""
    found = {
        record: _WrittenRecord(record, one.born_host) for one in messages for record in decode_trace_records(one.body)
    }
    return list(found.values())


def _ids(record: TraceRecord) -> list[str]:
    return record.message_id.split(",")


def _assemble(message_id: str, written: Sequence[_WrittenRecord]) -> MessageTrace:
    events: list[TraceEvent] = []
    consumed: dict[str, ConsumeEvent] = {}
    for one in written:
        record = one.record
        if isinstance(record, SubBefore | SubAfter):
            known = consumed.get(record.request_id)
            consumed[record.request_id] = _merge(known, _consume_event(message_id, record, one.client))
        elif isinstance(record, Pub):
            events.append(_send_event(message_id, record, one.client))
        else:
            events.append(_transaction_event(message_id, record, one.client))
    events += consumed.values()
    return MessageTrace(message_id, sorted(events, key=lambda event: event.timestamp_ms))


def _send_event(message_id: str, record: Pub, client: str) -> SendEvent:
    kinds = {int(kind): kind.name for kind in MessageType}
    return SendEvent(
        message_id=message_id,
        timestamp_ms=record.timestamp_ms,
        group=record.group,
        client=client,
        keys=_keys(record),
        topic=record.topic,
        tags=record.tags,
        broker=record.store_host,
        body_size=record.body_length,
        duration_ms=record.cost_ms,
        message_type=kinds.get(record.message_type, str(record.message_type)),
        offset_message_id=record.offset_message_id,
        success=record.success,
    )


def _consume_event(message_id: str, record: SubBefore | SubAfter, client: str) -> ConsumeEvent:
    event = ConsumeEvent(
        message_id=message_id,
        timestamp_ms=record.timestamp_ms,
        group=record.group,
        client=client,
        keys=_keys(record),
        request_id=record.request_id,
    )
    if isinstance(record, SubBefore):
        return replace(event, retry_times=record.retry_times)
    codes = {int(code): code.name for code in ConsumeCode}
    status = codes.get(record.code, str(record.code))
    return replace(event, duration_ms=record.cost_ms, status=status, success=record.success)


def _merge(one: ConsumeEvent | None, other: ConsumeEvent) -> ConsumeEvent:
    """Combine the records written before and after the listener."""
    if one is None:
        return other
    before, after = (one, other) if one.status is None else (other, one)
    return replace(before, duration_ms=after.duration_ms, status=after.status, success=after.success)


def _transaction_event(message_id: str, record: EndTransaction, client: str) -> TransactionEvent:
    return TransactionEvent(
        message_id=message_id,
        timestamp_ms=record.timestamp_ms,
        group=record.group,
        client=client,
        keys=_keys(record),
        topic=record.topic,
        tags=record.tags,
        broker=record.store_host,
        state=record.state,
        from_check=record.from_check,
    )


def _keys(record: TraceRecord) -> tuple[str, ...]:
    return tuple(record_keys(record)[1:])
