"""The options of clients, and their defaults."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, TypedDict

from msgspec import Struct

from pyromq.client.hooks import SendHook
from pyromq.client.net.address import DEFAULT_NAMESRV
from pyromq.client.net.publish_info import Select
from pyromq.client.trace.client_metrics import ClientMetrics
from pyromq.client.trace.config import Trace
from pyromq.clock import Clock
from pyromq.codecs.topic_codecs import CodecChoice
from pyromq.errors import ClientError
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


# --- checks: a wrong kind is refused when a client is made, with the right form in the text

Check = tuple[Callable[[object], bool], str]
"""Whether a value is of the right kind, and how that kind is written."""


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _at_least(low: int) -> Check:
    return lambda value: isinstance(value, int) and _is_whole(value) and value >= low, f"a whole number from {low} on"


def _seconds(*, more_than_none: bool = False) -> Check:
    def fits(value: object) -> bool:
        return isinstance(value, int | float) and _is_number(value) and (value > 0 if more_than_none else value >= 0)

    return fits, "a positive number of seconds" if more_than_none else "a number of seconds"


def _or_none(check: Check) -> Check:
    return lambda value: value is None or check[0](value), f"{check[1]}, or None"


_WHOLE: Final[Check] = (_is_whole, "a whole number")
_NUMBER: Final[Check] = (_is_number, "a number")
_SWITCH: Final[Check] = (lambda value: isinstance(value, bool), "True or False")
_TEXT: Final[Check] = (lambda value: isinstance(value, str), "a str")
_HOOKS: Final[Check] = (
    lambda value: isinstance(value, Sequence) and not isinstance(value, str),
    "a list: hooks=[hook]",
)
_FLOW: Final[Check] = (lambda value: isinstance(value, FlowControl), "FlowControl(messages=..., size=...)")
_ACCOUNT: Final[Check] = (lambda value: isinstance(value, Credentials), "Credentials(access_key, secret_key)")
_FUNCTION: Final[Check] = (callable, "a function such as allocate_averagely")
_OFFSETS: Final[Check] = (
    lambda value: all(hasattr(value, name) for name in ("load", "commit")),
    "an object with load and commit, such as LocalOffsets(path)",
)

CHECKS: Final[dict[str, Check]] = {
    "send_timeout": _seconds(more_than_none=True),
    "retries": _at_least(0),
    "retry_other_broker_when_not_stored": _SWITCH,
    "latency_fault_tolerance": _SWITCH,
    "compress_over": _at_least(0),
    "topic_queues": _at_least(1),
    "max_message_size": _at_least(1),
    "max_in_flight": _at_least(1),
    "linger": _or_none(_seconds()),
    "orderly": _SWITCH,
    "broadcasting": _SWITCH,
    "concurrency": _WHOLE,
    "batch_size": _WHOLE,
    "pull_batch": _at_least(1),
    "pull_interval": _NUMBER,
    "rate": _or_none(_NUMBER),
    "max_reconsume": _or_none(_WHOLE),
    "auto_commit": _SWITCH,
    "auto_commit_interval": _seconds(more_than_none=True),
    "poll_timeout": _seconds(),
    "flow_control": _or_none(_FLOW),
    "allocate": _FUNCTION,
    "hooks": _HOOKS,
    "offset_store": _or_none(_OFFSETS),
    "namespace": _or_none(_TEXT),
    "instance_name": _or_none(_TEXT),
    "credentials": _or_none(_ACCOUNT),
}


def check_options(options: Mapping[str, object]) -> None:
    """Raise ClientError if one of the options is of the wrong kind; names that are no options are passed over."""
    for name, (fits, form) in CHECKS.items():
        if name in options and not fits(options[name]):
            raise ClientError(f"{name}= takes {form}, not {options[name]!r:.80}")
