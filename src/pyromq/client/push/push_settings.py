"""The options of a PushConsumer, as its caller gives them and as its parts use them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TypedDict

from msgspec import Struct

from pyromq.client.config import ClientConfig, FlowControl
from pyromq.client.consume.offset_store import OffsetStore
from pyromq.client.consume.queue_changes import OnQueues, QueueChanges
from pyromq.client.consume.start_from import StartFrom, StartPoint
from pyromq.client.consume.subscriptions import Subscription
from pyromq.client.group.allocation import Allocate
from pyromq.client.hooks import ConsumeHook
from pyromq.client.listener.listener import Listener, takes_batches
from pyromq.client.trace.client_metrics import ClientMetrics
from pyromq.client.trace.config import Trace
from pyromq.clock import Clock
from pyromq.errors import ClientError
from pyromq.protocol.acl import Credentials
from pyromq.remoting.tls.client_tls import Tls

_RANGES = {
    "concurrency": (1, 1000),
    "batch_size": (1, 1024),
    "pull_batch": (1, 1024),
    "pull_interval": (0, 65.535),
    "max_reconsume": (0, 2**31 - 1),
}


class PushConsumerOptions(TypedDict, total=False):
    """The keyword arguments of a PushConsumer, for code that passes them on."""

    orderly: bool
    broadcasting: bool
    start_from: StartFrom
    concurrency: int
    batch_size: int
    pull_batch: int
    pull_interval: float
    rate: float | None
    max_reconsume: int | None
    consume_timeout: timedelta | float
    close_timeout: timedelta | float
    flow_control: FlowControl | None
    allocate: Allocate
    on_assigned: OnQueues | None
    on_revoked: OnQueues | None
    hooks: Sequence[ConsumeHook]
    trace: bool | Trace
    metrics: ClientMetrics | None
    offset_store: OffsetStore | None
    namespace: str | None
    credentials: Credentials | None
    tls: bool | Tls | None
    instance_name: str | None
    clock: Clock | None


class PushSettings(Struct, frozen=True, kw_only=True):
    """The options of a PushConsumer; raises ClientError for a number out of range."""

    client: ClientConfig
    group: str
    subscriptions: dict[str, Subscription]
    listener: Listener
    start: StartPoint
    orderly: bool
    broadcasting: bool
    concurrency: int
    batch_size: int
    pull_batch: int
    pull_interval: float
    rate: float | None
    max_reconsume: int | None
    consume_timeout: float
    close_timeout: float
    flow_control: FlowControl
    allocate: Allocate
    changes: QueueChanges
    hooks: Sequence[ConsumeHook]
    offset_store: OffsetStore | None

    def __post_init__(self) -> None:
        for name, (low, high) in _RANGES.items():
            value = getattr(self, name)
            if value is not None and not low <= value <= high:
                raise ClientError(f"{name} must be between {low} and {high}, not {value}")
        if self.rate is not None and self.rate <= 0:
            raise ClientError(f"rate must be a positive number of messages per second, not {self.rate}")
        if self.batch_size > 1 and not takes_batches(self.listener):
            raise ClientError("batch_size needs a listener whose parameter is annotated list[MessageExt]")


def timeout_seconds(name: str, timeout: timedelta | float) -> float:
    """Return a time-out in seconds; raises ClientError if it is not positive."""
    if isinstance(timeout, bool) or not isinstance(timeout, timedelta | int | float):
        raise ClientError(f"{name} takes seconds or a timedelta, not {timeout!r}")
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else float(timeout)
    if seconds <= 0:
        raise ClientError(f"{name} must be positive, not {timeout}")
    return seconds
