"""Hooks that write RocketMQ's trace records of what a client sends and consumes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import cast

from msgspec import Struct

from pyromq.client.hooks import ConsumeContext, ConsumeHook, EndContext, SendContext, SendHook
from pyromq.client.net.message_ids import message_ids
from pyromq.client.send_result import SendResult, SendStatus
from pyromq.clock import Clock
from pyromq.protocol.messages import properties as names
from pyromq.protocol.messages.message import Message, MessageExt
from pyromq.protocol.names import DEFAULT_REGION, without_namespace
from pyromq.protocol.trace_records import (
    TRANSACTION_STATES,
    ConsumeCode,
    EndTransaction,
    MessageType,
    Pub,
    SubAfter,
    SubBefore,
    TraceRecord,
)

PutRecords = Callable[[Sequence[TraceRecord]], None]
"""Takes records to be written."""


class SendTraceHook(SendHook):
    """Writes a Pub for each stored message, and an EndTransaction for the end of each transaction."""

    def __init__(self, put: PutRecords, topic: str, clock: Clock, namespace: str | None) -> None:
        self._put = put
        self._topic = topic
        self._clock = clock
        self._namespace = namespace

    def before(self, context: SendContext) -> None:
        """Note the time."""
        context.notes["trace began"] = self._clock.now_ms(), self._clock.monotonic()

    def after(self, context: SendContext) -> None:
        """Write what was stored; like Apache's client, nothing for a send that failed."""
        result = context.result
        if result is None or not context.region or not context.trace_on or self._is_trace(context.message):
            return
        began_ms, began = cast(tuple[int, float], context.notes["trace began"])
        cost_ms = _ms_since(began, self._clock)
        if context.messages:  # one record for each message of a batch, so that each can be found by its id
            parts = zip_longest(context.messages, result.message_id.split(","), result.offset_message_id.split(","))
        else:
            parts = zip_longest([context.message], [result.message_id], [result.offset_message_id])
        self._put([self._pub(context, result, began_ms, cost_ms, *part) for part in parts])

    def _pub(
        self,
        context: SendContext,
        result: SendResult,
        began_ms: int,
        cost_ms: int,
        message: Message,
        message_id: str,
        offset_message_id: str | None,
    ) -> Pub:
        return Pub(
            timestamp_ms=began_ms,
            region=context.region,
            group=without_namespace(context.group, self._namespace),
            topic=context.queue.topic,
            message_id=message_id,
            tags=message.tags or None,
            keys=_joined(message),
            store_host=context.address,
            body_length=len(message.body) if context.messages else context.body_size,
            cost_ms=cost_ms,
            message_type=_message_type(context),
            offset_message_id=offset_message_id,
            success=result.status is SendStatus.SEND_OK,
        )

    def end(self, context: EndContext) -> None:
        """Write how a transaction ended."""
        message = context.message
        if self._is_trace(message):
            return
        self._put(
            [
                EndTransaction(
                    timestamp_ms=self._clock.now_ms(),
                    region=message.properties.get(names.MSG_REGION) or DEFAULT_REGION,
                    group=without_namespace(context.group, self._namespace),
                    topic=without_namespace(message.topic, self._namespace),
                    message_id=context.message_id,
                    tags=message.tags or None,
                    keys=_joined(message),
                    store_host=context.address,
                    message_type=MessageType.COMMIT,
                    transaction_id=context.message_id,
                    state=TRANSACTION_STATES[context.state],
                    from_check=context.from_check,
                )
            ]
        )

    def _is_trace(self, message: Message | MessageExt) -> bool:
        return message.topic.startswith(self._topic)


class _Call(Struct, frozen=True):
    """One call of the listener, with its traced messages."""

    began_ms: int
    began: float
    """The same by the clock's monotonic time."""
    request_id: str
    messages: list[MessageExt]


class ConsumeTraceHook(ConsumeHook):
    """Writes a SubBefore and a SubAfter for each message that the listener gets."""

    def __init__(self, put: PutRecords, topic: str, clock: Clock, namespace: str | None) -> None:
        self._put = put
        self._topic = topic
        self._clock = clock
        self._namespace = namespace
        self._ids = message_ids()

    def before(self, context: ConsumeContext) -> None:
        """Write which messages the listener is about to get."""
        now_ms = self._clock.now_ms()
        traced = [message for message in context.messages if self._is_traced(message)]
        if traced:
            call = context.notes["trace"] = _Call(now_ms, self._clock.monotonic(), self._ids.next(now_ms), traced)
            group = without_namespace(context.group, self._namespace)
            self._put([_sub_before(message, group, call) for message in traced])

    def after(self, context: ConsumeContext) -> None:
        """Write how it ended."""
        call = context.notes.get("trace")
        if not isinstance(call, _Call):
            return
        now_ms, cost_ms = self._clock.now_ms(), _ms_since(call.began, self._clock)
        self._put(
            [
                SubAfter(
                    request_id=call.request_id,
                    message_id=message.message_id,
                    cost_ms=cost_ms // len(context.messages),
                    success=context.success,
                    keys=_joined(message),
                    code=ConsumeCode[context.status],
                    timestamp_ms=now_ms,
                    group=without_namespace(context.group, self._namespace),
                )
                for message in call.messages
            ]
        )

    def _is_traced(self, message: MessageExt) -> bool:
        # Unlike Apache's client: tracing the trace messages that a traced consumer reads would never end.
        return message.properties.get(names.TRACE_ON) != "false" and not message.topic.startswith(self._topic)


def _sub_before(message: MessageExt, group: str, call: _Call) -> SubBefore:
    return SubBefore(
        timestamp_ms=call.began_ms,
        region=message.properties.get(names.MSG_REGION),
        group=group,
        request_id=call.request_id,
        message_id=message.message_id,
        retry_times=message.reconsume_times,
        keys=_joined(message),
    )


def _joined(message: Message | MessageExt) -> str | None:
    return " ".join(message.keys) or None


def _message_type(context: SendContext) -> MessageType:
    if context.delayed:
        return MessageType.DELAY
    return MessageType.HALF if context.half else MessageType.NORMAL


def _ms_since(began: float, clock: Clock) -> int:
    return int((clock.monotonic() - began) * 1000)
