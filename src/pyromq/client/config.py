"""The options of clients, and their defaults."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TypedDict

from msgspec import Struct

from pyromq.client.hooks import SendHook
from pyromq.client.net.address import DEFAULT_NAMESRV
from pyromq.client.net.publish_info import Select
from pyromq.client.trace.client_metrics import ClientMetrics
from pyromq.client.trace.config import Trace
from pyromq.clock import Clock
from pyromq.codecs.topic_codecs import CodecChoice
from pyromq.protocol.acl import Credentials
from pyromq.protocol.messages.message import MessageQueue
from pyromq.remoting.tls.client_tls import Tls


class ClientConfig(Struct, frozen=True, kw_only=True):
    """The settings that all clients have."""

    namesrv: str | Sequence[str] = DEFAULT_NAMESRV
    """`host:port`, or several separated by semicolons."""
    instance_name: str | None = None
    """The part of the client id after `ip@`; unique by default. Clients of the same name share their connections."""
    namespace: str | None = None
    """The namespace of all topics and groups."""
    credentials: Credentials | None = None
    """The account that signs all requests."""
    tls: bool | Tls | None = None
    """Whether and how connections are encrypted; None: as PYROMQ_TLS and PYROMQ_TLS_* say."""
    route_interval: float = 30.0
    """How often routes are refreshed, in seconds."""
    heartbeat_interval: float = 30.0
    """How often heartbeats are sent, in seconds; brokers forget a client after 120 s without one."""
    topic_queues: int = 4
    """How many queues a topic gets on each broker if a send creates it."""


class FlowControl(Struct, frozen=True, kw_only=True):
    """How much of one queue is buffered: while a limit is exceeded, no more is pulled."""

    messages: int = 1000
    size: int = 16 * 1024 * 1024
    """Bytes of stored records."""
    span: int = 2000
    """The distance between the lowest and the highest offset in the buffer; for concurrent push consumers."""


class ProducerOptions(TypedDict, total=False):
    """The options of a Producer, for functions that pass them on."""

    send_timeout: float
    retries: int
    retry_other_broker_when_not_stored: bool
    latency_fault_tolerance: bool
    compress_over: int
    topic_queues: int
    max_message_size: int
    max_in_flight: int
    linger: float | None
    codec: CodecChoice
    hooks: Sequence[SendHook]
    trace: bool | Trace
    metrics: ClientMetrics | None
    namespace: str | None
    credentials: Credentials | None
    tls: bool | Tls | None
    instance_name: str | None
    clock: Clock | None


class SendOptions(TypedDict, total=False):
    """Where and when one message is sent, for functions that pass it on."""

    order_key: str | None
    queue: MessageQueue | None
    select: Select | None
    timeout: float | None
    delay: timedelta | float | None
    at: datetime | None
    level: int | None
