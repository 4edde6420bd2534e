"""OpenTelemetry spans of sends and listeners, by its semantic conventions for messaging.

The context of a send's span travels in the properties of the message: `traceparent` and whatever else the process's
propagator writes. The listener's span has it as a link, and as its parent if the listener got only that message.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import Token
from typing import Final, TypeVar

from opentelemetry import propagate
from opentelemetry.context import Context, attach, detach
from opentelemetry.trace import (
    Link,
    ProxyTracerProvider,
    Span,
    SpanKind,
    StatusCode,
    get_current_span,
    get_tracer,
    get_tracer_provider,
    set_span_in_context,
)

from pyromq.client.hooks import ConsumeContext, ConsumeHook
from pyromq.client.send_result import SendResult, TransactionResult
from pyromq.protocol.messages.message import Message, MessageExt
from pyromq.protocol.messages.properties import (
    DELAY,
    NAME_VALUE_SEPARATOR,
    PROPERTY_SEPARATOR,
    RESERVED_NAMES,
    TIMER_DELIVER_MS,
)
from pyromq.protocol.names import without_namespace

T = TypeVar("T")
_Value = str | int | Sequence[str]
Attributes = dict[str, _Value]

_NAME: Final = "pyromq"
_NOTE: Final = "span"
_DELAYS: Final = {DELAY: "delay_time_level", TIMER_DELIVER_MS: "delivery_timestamp"}


class SendSpans:
    """Spans around the sends of one producer."""

    def __init__(self, namespace: str | None) -> None:
        self._tracer = get_tracer(_NAME)
        self._shared = _shared_attributes("send", namespace)
        self._master: Callable[[str], str | None] = lambda broker_name: None

    def opened(self, client_id: str, master: Callable[[str], str | None]) -> None:
        """Take the producer's id, and a function that returns a broker's address."""
        self._shared["messaging.client.id"] = client_id
        self._master = master

    def context(self) -> Mapping[str, str]:
        """Return the current span's context as properties; empty if spans are not recorded."""
        carrier: dict[str, str] = {}
        propagate.inject(carrier)
        return {name: value for name, value in carrier.items() if _may_travel(name, value)}

    async def around(
        self,
        messages: Sequence[Message],
        sending: Awaitable[T],
        kind: str = "normal",
        order_key: str | None = None,
        system: Mapping[str, str] | None = None,
    ) -> T:
        """Await `sending` inside a span and return its result; `system` are properties that delay the message."""
        if not _is_recorded():
            return await sending
        topic = messages[0].topic if messages else ""
        attributes = self._shared | _message_attributes(messages) | _kind_attributes(kind, order_key, system or {})
        with self._tracer.start_as_current_span(f"send {topic}", kind=SpanKind.PRODUCER, attributes=attributes) as span:
            try:
                outcome = await sending
            except BaseException as error:
                span.set_attribute("error.type", type(error).__qualname__)
                raise
            if isinstance(outcome, SendResult):
                self._describe(span, outcome)
            return outcome

    def _describe(self, span: Span, result: SendResult) -> None:
        span.set_attributes(
            {
                "messaging.message.id": result.message_id,
                "messaging.destination.partition.id": str(result.queue.queue_id),
                **_server(self._master(result.queue.broker_name)),
            }
        )
        if isinstance(result, TransactionResult):
            span.add_event("transaction ended", {"state": result.state.name})


class ConsumeSpans(ConsumeHook):
    """Spans around the listener of one consumer; it runs inside them, on any thread."""

    def __init__(self, group: str, namespace: str | None, *, broadcasting: bool) -> None:
        self._tracer = get_tracer(_NAME)
        self._shared = _shared_attributes("process", namespace)
        self._shared["messaging.consumer.group.name"] = without_namespace(group, namespace)
        self._shared["messaging.rocketmq.consumption_model"] = "broadcasting" if broadcasting else "clustering"

    def opened(self, client_id: str) -> None:
        """Take the consumer's id."""
        self._shared["messaging.client.id"] = client_id

    def before(self, context: ConsumeContext) -> None:
        """Start a span and make it current for the listener."""
        if not _is_recorded():
            return
        sent = [propagate.extract(message.properties, Context()) for message in context.messages]
        created = [get_current_span(one).get_span_context() for one in sent]
        parent = sent[0] if len(sent) == 1 else Context()
        attributes = self._shared | _message_attributes(context.messages)
        if len(context.messages) == 1:
            attributes["messaging.message.id"] = context.messages[0].message_id
        attributes["messaging.destination.partition.id"] = str(context.queue.queue_id)
        span = self._tracer.start_span(
            f"process {context.messages[0].topic}",
            parent,
            SpanKind.CONSUMER,
            attributes,
            [Link(one) for one in created if one.is_valid],
        )
        context.notes[_NOTE] = (span, attach(set_span_in_context(span, parent)))

    def after(self, context: ConsumeContext) -> None:
        """End the span, with the listener's exception."""
        if _NOTE not in context.notes:
            return
        span, token = _noted(context)
        detach(token)
        if not context.success:
            error = context.error
            span.set_attribute("error.type", type(error).__qualname__ if error else context.status)
            span.set_status(StatusCode.ERROR, str(error) if error else context.status)
            if error is not None:
                span.record_exception(error)
        span.end()


def _is_recorded() -> bool:
    """Return True if the process has set up an OpenTelemetry SDK; otherwise all work on spans would be wasted."""
    return not isinstance(get_tracer_provider(), ProxyTracerProvider)


def _may_travel(name: str, value: str) -> bool:
    whole = name + value
    has_separator = NAME_VALUE_SEPARATOR in whole or PROPERTY_SEPARATOR in whole
    return bool(name and value) and not has_separator and name not in RESERVED_NAMES


def _noted(context: ConsumeContext) -> tuple[Span, Token[Context]]:
    noted: tuple[Span, Token[Context]] = context.notes[_NOTE]  # type: ignore[assignment]
    return noted


def _shared_attributes(operation: str, namespace: str | None) -> Attributes:
    shared: Attributes = {
        "messaging.system": "rocketmq",
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
    }
    return shared | ({"messaging.rocketmq.namespace": namespace} if namespace else {})


def _message_attributes(messages: Sequence[Message] | Sequence[MessageExt]) -> Attributes:
    if not messages:
        return {}
    found: Attributes = {"messaging.destination.name": messages[0].topic}
    if len(messages) > 1:
        return found | {"messaging.batch.message_count": len(messages)}
    message = messages[0]
    found["messaging.message.body.size"] = len(message.body)
    if message.tags:
        found["messaging.rocketmq.message.tag"] = message.tags
    if message.keys:
        found["messaging.rocketmq.message.keys"] = list(message.keys)
    return found


def _kind_attributes(kind: str, order_key: str | None, system: Mapping[str, str]) -> Attributes:
    found: Attributes = {"messaging.rocketmq.message.type": kind}
    if order_key is not None:
        found["messaging.rocketmq.message.group"] = order_key
    for name, attribute in _DELAYS.items():
        if name in system:
            found[f"messaging.rocketmq.message.{attribute}"] = int(system[name])
    return found


def _server(address: str | None) -> Attributes:
    if not address:
        return {}
    host, _, port = address.rpartition(":")
    return {"server.address": host.strip("[]"), "server.port": int(port)}
