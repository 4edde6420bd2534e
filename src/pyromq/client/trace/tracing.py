"""Tracing: all that a traced client needs for its traces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pyromq.client.config import ClientConfig
from pyromq.client.hooks import ConsumeHook, SendHook
from pyromq.client.trace.config import Trace
from pyromq.client.trace.dispatcher import TraceCounts, TraceDispatcher, TraceSender
from pyromq.client.trace.trace_hooks import ConsumeTraceHook, SendTraceHook
from pyromq.clock import Clock

if TYPE_CHECKING:
    from pyromq.client.trace.spans import ConsumeSpans, SendSpans


class Tracing:
    """The traces of one client: trace messages with a sender of their own, and spans."""

    def __init__(
        self, trace: Trace, config: ClientConfig, group: str, kind: Literal["PRODUCE", "CONSUME"], clock: Clock
    ) -> None:
        self._trace = trace
        self._group = group
        self._namespace = config.namespace
        self._clock = clock
        self._sender = TraceSender(config, group, kind, clock)
        self._dispatcher = TraceDispatcher(trace.topic, clock, self._sender.send)

    @property
    def counts(self) -> TraceCounts:
        """The counts of trace records so far."""
        return self._dispatcher.counts

    async def open(self) -> None:
        """Start; no broker is asked before the first trace message."""
        if self._trace.messages:
            await self._sender.start()

    async def close(self) -> None:
        """Send the waiting trace messages, and write no more."""
        if self._trace.messages:
            try:
                await self._dispatcher.close()
            finally:
                await self._sender.close()

    # --- hooks and spans for the client ------------------------------------------------------------------------------

    def send_hooks(self) -> list[SendHook]:
        """Return the hooks of a producer."""
        if not self._trace.messages:
            return []
        return [SendTraceHook(self._dispatcher.put, self._trace.topic, self._clock, self._namespace)]

    def consume_hooks(self) -> list[ConsumeHook]:
        """Return the hooks of a push consumer, without its spans."""
        if not self._trace.messages:
            return []
        return [ConsumeTraceHook(self._dispatcher.put, self._trace.topic, self._clock, self._namespace)]

    def send_spans(self) -> SendSpans | None:
        """Return the spans of a producer, if they are wanted."""
        if not self._trace.spans:
            return None
        from pyromq.client.trace.spans import SendSpans  # loads OpenTelemetry: only traced clients should pay for it

        return SendSpans(self._namespace)

    def consume_spans(self, *, broadcasting: bool) -> ConsumeSpans | None:
        """Return the spans of a push consumer, if they are wanted."""
        if not self._trace.spans:
            return None
        from pyromq.client.trace.spans import ConsumeSpans

        return ConsumeSpans(self._group, self._namespace, broadcasting=broadcasting)
