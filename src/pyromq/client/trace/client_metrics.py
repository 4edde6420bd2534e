"""Metrics of a client, for Prometheus or OpenTelemetry: the option `metrics=` of producers and consumers.

    metrics=None               no metrics: the default
    metrics="prometheus"       into prometheus-client's default registry, which the application exposes as it likes
    metrics="opentelemetry"    through the meter provider that the application has set up; names and attributes follow
                               OpenTelemetry's conventions for messaging

Producers and push consumers report through hooks, so a client without metrics does no work for them. Both libraries are
loaded by the first client that wants them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Final, Literal, Protocol, TypeAlias

from pyromq.client.hooks import ConsumeContext, ConsumeHook, SendContext, SendHook
from pyromq.clock import Clock
from pyromq.errors import ClientError
from pyromq.protocol.messages.message import MessageExt

ClientMetrics: TypeAlias = Literal["prometheus", "opentelemetry"]
"""Where the metrics of a client go."""

_BEGAN: Final = "metrics_began"
_ONEWAY: Final = "ONEWAY"
_LONG: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0)


class MetricsRecorder(Protocol):
    """Takes what clients report; one for all clients of a process."""

    def sent(self, group: str, topic: str, outcome: str, messages: int, seconds: float) -> None:
        """Count an attempt to send: its outcome is a send status, ONEWAY or the name of an exception."""

    def received(self, group: str, topic: str, ages: Sequence[float]) -> None:
        """Count messages that a consumer hands out, each with the seconds since it was stored."""

    def consumed(self, group: str, topic: str, outcome: str, messages: int, seconds: float) -> None:
        """Count a call of a listener; of a consumer that is polled there are none."""


def recorder_for(metrics: ClientMetrics | None) -> MetricsRecorder | None:
    """Return what takes the metrics of a client; None if it has none. Raises ClientError for a wrong value."""
    match metrics:
        case None:
            return None
        case "prometheus":
            return _prometheus()
        case "opentelemetry":
            return _opentelemetry()
    raise ClientError(f'metrics= is "prometheus", "opentelemetry" or None, not {metrics!r}')


def send_hooks(metrics: ClientMetrics | None, clock: Clock) -> list[SendHook]:
    """Return the hooks of a producer."""
    recorder = recorder_for(metrics)
    return [] if recorder is None else [SendMetricsHook(recorder, clock)]


def consume_hooks(metrics: ClientMetrics | None, clock: Clock) -> list[ConsumeHook]:
    """Return the hooks of a push consumer."""
    recorder = recorder_for(metrics)
    return [] if recorder is None else [ConsumeMetricsHook(recorder, clock)]


class SendMetricsHook(SendHook):
    """Reports every attempt to send."""

    def __init__(self, recorder: MetricsRecorder, clock: Clock) -> None:
        self._recorder = recorder
        self._clock = clock

    def before(self, context: SendContext) -> None:
        """Note when it began."""
        context.notes[_BEGAN] = self._clock.monotonic()

    def after(self, context: SendContext) -> None:
        """Report how it ended."""
        if context.error is not None:
            outcome = type(context.error).__name__
        else:
            outcome = _ONEWAY if context.result is None else context.result.status.name
        messages = len(context.messages) or 1
        seconds = _since(context.notes, self._clock)
        self._recorder.sent(context.group, context.message.topic, outcome, messages, seconds)


class ConsumeMetricsHook(ConsumeHook):
    """Reports every call of a listener."""

    def __init__(self, recorder: MetricsRecorder, clock: Clock) -> None:
        self._recorder = recorder
        self._clock = clock

    def before(self, context: ConsumeContext) -> None:
        """Note when it began, and report how old the messages are."""
        context.notes[_BEGAN] = self._clock.monotonic()
        report_received(self._recorder, self._clock, context.group, context.messages)

    def after(self, context: ConsumeContext) -> None:
        """Report how it ended."""
        seconds = _since(context.notes, self._clock)
        self._recorder.consumed(context.group, context.queue.topic, context.status, len(context.messages), seconds)


def report_received(recorder: MetricsRecorder, clock: Clock, group: str, messages: Sequence[MessageExt]) -> None:
    """Report messages that a consumer hands out."""
    now_ms = clock.now_ms()
    ages: dict[str, list[float]] = {}
    for message in messages:
        ages.setdefault(message.topic, []).append(max(now_ms - message.store_timestamp_ms, 0) / 1000)
    for topic, seconds in ages.items():
        recorder.received(group, topic, seconds)


def _since(notes: dict[str, object], clock: Clock) -> float:
    began = notes.get(_BEGAN)
    return clock.monotonic() - began if isinstance(began, float) else 0.0


@cache
def _prometheus() -> MetricsRecorder:
    from prometheus_client import Counter, Histogram

    labels = ("group", "topic")
    with_outcome = (*labels, "outcome")
    sent = Counter("pyromq_client_sent_messages", "Messages in attempts to send, by outcome.", with_outcome)
    send_time = Histogram("pyromq_client_send_seconds", "Time of an attempt to send.", labels)
    received = Counter("pyromq_client_received_messages", "Messages handed to a listener or a caller.", labels)
    age = Histogram("pyromq_client_delivery_seconds", "Time from store to hand-out.", labels, buckets=_LONG)
    consumed = Counter("pyromq_client_consumed_messages", "Messages that a listener was called with.", with_outcome)
    work_time = Histogram("pyromq_client_listener_seconds", "Time of a call of a listener.", labels, buckets=_LONG)

    class PrometheusRecorder:
        def sent(self, group: str, topic: str, outcome: str, messages: int, seconds: float) -> None:
            sent.labels(group, topic, outcome).inc(messages)
            send_time.labels(group, topic).observe(seconds)

        def received(self, group: str, topic: str, ages: Sequence[float]) -> None:
            received.labels(group, topic).inc(len(ages))
            for seconds in ages:
                age.labels(group, topic).observe(seconds)

        def consumed(self, group: str, topic: str, outcome: str, messages: int, seconds: float) -> None:
            consumed.labels(group, topic, outcome).inc(messages)
            work_time.labels(group, topic).observe(seconds)

    return PrometheusRecorder()


@cache
def _opentelemetry() -> MetricsRecorder:
    from opentelemetry.metrics import get_meter

    meter = get_meter("pyromq")
    sent = meter.create_counter("messaging.client.sent.messages", "{message}", "Messages in attempts to send.")
    operation = meter.create_histogram("messaging.client.operation.duration", "s", "Time of an attempt to send.")
    received = meter.create_counter("messaging.client.consumed.messages", "{message}", "Messages handed out.")
    age = meter.create_histogram("pyromq.client.delivery.duration", "s", "Time from store to hand-out.")
    process = meter.create_histogram("messaging.process.duration", "s", "Time of a call of a listener.")

    def attributes(name: str, group: str, topic: str, outcome: str = "") -> dict[str, str]:
        found = {
            "messaging.system": "rocketmq",
            "messaging.operation.name": name,
            "messaging.destination.name": topic,
            "messaging.consumer.group.name" if name != "send" else "messaging.rocketmq.client_group": group,
        }
        return found | ({"error.type": outcome} if outcome else {})

    class OpenTelemetryRecorder:
        def sent(self, group: str, topic: str, outcome: str, messages: int, seconds: float) -> None:
            has = attributes("send", group, topic, "" if outcome in ("SEND_OK", _ONEWAY) else outcome)
            sent.add(messages, has)
            operation.record(seconds, has)

        def received(self, group: str, topic: str, ages: Sequence[float]) -> None:
            has = attributes("receive", group, topic)
            received.add(len(ages), has)
            for seconds in ages:
                age.record(seconds, has)

        def consumed(self, group: str, topic: str, outcome: str, messages: int, seconds: float) -> None:
            process.record(seconds, attributes("process", group, topic, "" if outcome == "SUCCESS" else outcome))

    return OpenTelemetryRecorder()
