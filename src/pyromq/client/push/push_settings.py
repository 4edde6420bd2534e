"""The options of a PushConsumer."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from pyromq.client.config import ClientConfig, FlowControl
from pyromq.client.consume.offset_store import OffsetStore
from pyromq.client.consume.start_from import StartPoint
from pyromq.client.consume.subscriptions import Subscription
from pyromq.client.group.allocation import Allocate
from pyromq.client.hooks import ConsumeHook
from pyromq.client.push.listener import Listener


class PushSettings(Struct, frozen=True, kw_only=True):
    """Its options, checked."""

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
    flow_control: FlowControl
    allocate: Allocate
    hooks: Sequence[ConsumeHook]
    offset_store: OffsetStore | None
