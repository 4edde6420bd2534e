"""The options of a LitePullConsumer, as its caller gives them and as its parts use them."""

from __future__ import annotations

from typing import TypedDict

from msgspec import Struct

from pyromq.client.config import ClientConfig, FlowControl
from pyromq.client.consume.offset_store import OffsetStore
from pyromq.client.consume.queue_changes import OnQueues, QueueChanges
from pyromq.client.consume.start_from import StartFrom, StartPoint
from pyromq.client.consume.subscriptions import Subscription
from pyromq.client.group.allocation import Allocate
from pyromq.client.trace.client_metrics import ClientMetrics
from pyromq.clock import Clock
from pyromq.protocol.acl import Credentials
from pyromq.remoting.tls.client_tls import Tls


class LitePullConsumerOptions(TypedDict, total=False):
    """The keyword arguments of a LitePullConsumer, for code that passes them on."""

    start_from: StartFrom
    auto_commit: bool
    auto_commit_interval: float
    pull_batch: int
    poll_timeout: float
    flow_control: FlowControl | None
    allocate: Allocate
    on_assigned: OnQueues | None
    on_revoked: OnQueues | None
    metrics: ClientMetrics | None
    offset_store: OffsetStore | None
    namespace: str | None
    credentials: Credentials | None
    tls: bool | Tls | None
    instance_name: str | None
    clock: Clock | None


class PollSettings(Struct, frozen=True, kw_only=True):
    """The checked options of a LitePullConsumer."""

    client: ClientConfig
    group: str
    subscriptions: dict[str, Subscription]
    start: StartPoint
    auto_commit: bool
    auto_commit_interval: float
    pull_batch: int
    flow_control: FlowControl
    allocate: Allocate
    changes: QueueChanges
    offset_store: OffsetStore | None
