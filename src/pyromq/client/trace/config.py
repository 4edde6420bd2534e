"""Trace: the option `trace=` of a producer or push consumer: True, or `Trace(...)` to choose what is written and where.

A traced client writes RocketMQ's trace messages, which Apache's tools and `pyromq message trace` show. It also writes
OpenTelemetry spans, which go to the exporter that the process has set up; by default there is none.
"""

from __future__ import annotations

from msgspec import Struct

from pyromq.errors import ClientError
from pyromq.protocol.names import TRACE_TOPIC, check_topic


class Trace(Struct, frozen=True, kw_only=True):
    """What a traced client writes.

    >>> Producer("shop", trace=Trace(topic="shop-traces", spans=False))
    """

    topic: str = TRACE_TOPIC
    """The topic of trace messages; a broker has it if it creates topics by itself, or with `traceTopicEnable=true`."""
    messages: bool = True
    """Whether to write trace messages."""
    spans: bool = True
    """Whether to write OpenTelemetry spans, and to pass on their context in the properties of messages."""


def chosen_trace(trace: bool | Trace) -> Trace | None:
    """Return what is to be traced, None if nothing; raises ClientError or LocalProtocolError for a wrong value."""
    if isinstance(trace, bool):
        return Trace() if trace else None
    if not isinstance(trace, Trace):
        raise ClientError(f"trace= is True, False or Trace(...), not {trace!r}")
    check_topic(trace.topic)
    return trace if trace.messages or trace.spans else None
