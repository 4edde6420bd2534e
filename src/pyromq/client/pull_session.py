"""PullSession: the parts of a LitePullConsumer while it is open, and how they are joined."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from msgspec import Struct

from pyromq.client.assignment import Assignment
from pyromq.client.commits import Commits
from pyromq.client.config import ClientConfig, FlowControl
from pyromq.client.fetch import Fetcher
from pyromq.client.instance import ClientInstance
from pyromq.client.offset_store import BrokerOffsets, OffsetStore
from pyromq.client.periodic import Periodic
from pyromq.client.process_queue import ProcessQueue
from pyromq.client.pull_loop import PullLoop
from pyromq.client.rebalance import Allocate, Rebalance
from pyromq.client.start_from import Start
from pyromq.clock import Clock
from pyromq.errors import NoRoute
from pyromq.protocol.bodies import ConsumeFromWhere, ConsumerData, ConsumeType, SubscriptionData
from pyromq.protocol.filter import TagFilter
from pyromq.protocol.message import MessageQueue

REBALANCE_INTERVAL = 20.0


class PullSettings(Struct, frozen=True, kw_only=True):
    """What a LitePullConsumer was told, checked."""

    client: ClientConfig
    group: str
    filters: dict[str, TagFilter]
    start: Start
    auto_commit: bool
    auto_commit_interval: float
    pull_batch: int
    flow_control: FlowControl
    allocate: Allocate
    offset_store: OffsetStore | None


class PullSession:
    """One stay in a group: from joining it, or from the first queue assigned by hand, to leaving."""

    def __init__(self, settings: PullSettings, clock: Clock) -> None:
        self.settings = settings
        self.instance = ClientInstance(settings.client, clock)
        self.filters = dict(settings.filters)
        self.version_ms = clock.now_ms()
        api, routes = self.instance.api, self.instance.routes
        self.offsets = settings.offset_store or BrokerOffsets(api, routes, settings.group)
        self.commits = Commits(self.offsets)
        self._clock = clock
        self._fetcher = Fetcher(
            api=api,
            routes=routes,
            offsets=self.offsets,
            group=settings.group,
            filters=self.filters,
            start=settings.start,
            pull_batch=settings.pull_batch,
            namespace=settings.client.namespace,
        )
        self.assignment = Assignment(self._new_loop, self._release)
        self._rebalance = Rebalance(
            api=api,
            routes=routes,
            heartbeats=self.instance.heartbeats,
            group=settings.group,
            client_id=self.instance.client_id,
            topics=lambda: settings.filters,
            assign=self._assign_topic,
            allocate=settings.allocate,
        )
        self._rebalancing = Periodic("rebalance", clock, REBALANCE_INTERVAL, self._rebalance.run)
        self._committing = Periodic("auto-commit", clock, settings.auto_commit_interval, self._commit_settled)
        routes.on_change.append(self._route_changed)

    @property
    def subscribed(self) -> bool:
        """Whether the group shares out the queues; otherwise the caller assigns them."""
        return bool(self.settings.filters)

    async def start(self) -> None:
        """Begin; join the group and take a first share of the queues if there are subscriptions."""
        self.instance.start()
        if self.settings.auto_commit:
            self._committing.start()
        if not self.subscribed:
            return
        for topic in self.settings.filters:
            await self._look_up(topic)
        await self.instance.add_consumer(self.settings.group, self)
        shared_out = await self._rebalance.run()
        self._rebalancing.start()
        if not shared_out:
            self._rebalancing.wake()

    async def close(self, *, commit_all: bool) -> None:
        """Stop pulling, commit, leave the group, close the connections."""
        await self._rebalancing.stop()
        await self._committing.stop()
        await self.assignment.stop()
        if self.settings.auto_commit:
            if commit_all:
                self.assignment.settle()
            await self._commit_settled()
        await self.instance.close()

    async def _look_up(self, topic: str) -> None:
        with suppress(NoRoute):  # rebalancing asks again until somebody creates it
            await self.instance.routes.refresh(topic)

    # --- as a member of the group ------------------------------------------------------------------------------------

    def consumer_data(self) -> ConsumerData:
        """Return what heartbeats say of this consumer."""
        return ConsumerData(
            group_name=self.settings.group,
            consume_type=ConsumeType.CONSUME_ACTIVELY,
            consume_from_where=_consume_from_where(self.settings.start),
            subscription_data_set=[self._subscription(topic) for topic in self.settings.filters],
        )

    def _subscription(self, topic: str) -> SubscriptionData:
        wanted = self.settings.filters[topic]
        return SubscriptionData(
            topic=topic,
            sub_string=wanted.expression,
            tags_set=list(wanted.tags),
            code_set=sorted(wanted.codes),
            sub_version=self.version_ms,
        )

    def members_changed(self) -> None:
        """Hear that someone joined or left the group."""
        self._rebalancing.wake()

    def _route_changed(self, topic: str) -> None:
        if topic in self.settings.filters:
            self._rebalancing.wake()

    # --- queues ------------------------------------------------------------------------------------------------------

    async def assign(self, queues: Iterable[MessageQueue], wanted: TagFilter) -> None:
        """Read these queues, and no others, whatever the group does."""
        queues = list(queues)
        self.filters.update({queue.topic: wanted for queue in queues})
        await self.assignment.replace(queues)

    async def _assign_topic(self, topic: str, queues: list[MessageQueue]) -> None:
        await self.assignment.replace(queues, topic)

    def _new_loop(self, held: ProcessQueue) -> PullLoop:
        return PullLoop(
            held,
            self._fetcher,
            self.settings.flow_control,
            self._clock,
            on_messages=self.assignment.note_messages,
            on_failure=self.instance.refresh_soon,
        )

    async def _release(self, held: ProcessQueue) -> None:
        if self.settings.auto_commit:
            await self.commits.release(held)

    async def _commit_settled(self) -> bool:
        return await self.commits.settled(self.assignment)


def _consume_from_where(start: Start) -> ConsumeFromWhere:
    if start == "latest":
        return ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
    if start == "earliest":
        return ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
    return ConsumeFromWhere.CONSUME_FROM_TIMESTAMP
