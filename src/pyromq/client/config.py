"""What clients can be told, and what they assume otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from msgspec import Struct

from pyromq.client.hooks import SendHook
from pyromq.client.net.address import DEFAULT_NAMESRV
from pyromq.client.trace.config import Trace
from pyromq.clock import Clock
from pyromq.protocol.acl import Credentials


class ClientConfig(Struct, frozen=True, kw_only=True):
    """What every client has."""

    namesrv: str | Sequence[str] = DEFAULT_NAMESRV
    """`host:port`, or several separated by semicolons."""
    instance_name: str | None = None
    """The part of the client id after `ip@`; by default unlike any other."""
    namespace: str | None = None
    """Topics and groups are those of this namespace."""
    credentials: Credentials | None = None
    """The account that signs all requests."""
    route_interval: float = 30.0
    """How often routes are asked for again."""
    heartbeat_interval: float = 30.0
    """How often brokers hear that this client lives; they forget it after 120 s."""
    topic_queues: int = 4
    """Queues on each broker that a topic gets when a send creates it."""


class FlowControl(Struct, frozen=True, kw_only=True):
    """How much of one queue may be held before it is asked for; a pull waits while any bound is passed."""

    messages: int = 1000
    size: int = 16 * 1024 * 1024
    """Bytes of stored records."""
    span: int = 2000
    """Offsets between the lowest and the highest message that is not consumed; for concurrent push consumers."""


class ProducerOptions(TypedDict, total=False):
    """The options of a Producer, for those that pass them on."""

    send_timeout: float
    retries: int
    retry_other_broker_when_not_stored: bool
    latency_fault_tolerance: bool
    compress_over: int
    topic_queues: int
    max_message_size: int
    max_in_flight: int
    linger: float | None
    hooks: Sequence[SendHook]
    trace: bool | Trace
    namespace: str | None
    credentials: Credentials | None
    instance_name: str | None
    clock: Clock | None
