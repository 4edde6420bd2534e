"""PushSession: the parts of a PushConsumer while it is open, and how they are connected."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from contextvars import copy_context
from typing import TYPE_CHECKING

from msgspec.structs import replace

from pyromq.client.background import Periodic, run_all
from pyromq.client.consume.assignment import Assignment
from pyromq.client.consume.commits import Commits
from pyromq.client.consume.consumer_stats import SAMPLE_INTERVAL, ConsumerStats
from pyromq.client.consume.fetch import Fetcher, PullTerms
from pyromq.client.consume.filter_support import FilterSupport
from pyromq.client.consume.initial_offset import InitialOffset
from pyromq.client.consume.listener_report import listener_property
from pyromq.client.consume.offset_store import BrokerOffsets, LocalOffsets, OffsetStore, default_offsets_path
from pyromq.client.consume.process_queue import ProcessQueue
from pyromq.client.consume.pull_loop import PullLoop
from pyromq.client.consume.running_info import consumer_properties, running_info
from pyromq.client.consume.stall_report import BlockedQueue, blocked_property, in_progress_property
from pyromq.client.consume.start_from import consume_from_where
from pyromq.client.consume.subscriptions import Subscription
from pyromq.client.group.membership import Membership
from pyromq.client.group.ownership import Ownership
from pyromq.client.group.queue_locks import RENEWAL_INTERVAL, QueueLocks
from pyromq.client.hooks import accepted_by
from pyromq.client.listener.listener import is_async
from pyromq.client.listener.listener_threads import ListenerThreads
from pyromq.client.listener.listener_times import bind_sampled
from pyromq.client.net.sharing import borrow_instance
from pyromq.client.push.consumption import (
    ConcurrentConsumption,
    ConsumeSettings,
    Consumption,
    OrderlyConsumption,
)
from pyromq.client.push.direct_consumption import DirectConsumption
from pyromq.client.push.push_settings import PushSettings
from pyromq.client.push.send_back import SendBack
from pyromq.client.push.workers import Workers
from pyromq.client.reply.replier import Replier
from pyromq.client.trace.tracing import Tracing
from pyromq.clock import Clock
from pyromq.protocol.bodies import (
    ConsumeMessageDirectlyResult,
    ConsumerData,
    ConsumerRunningInfo,
    ConsumeType,
    MessageModel,
)
from pyromq.protocol.codes import PULL_SUSPEND_FLAG
from pyromq.protocol.messages.message import MessageExt, MessageQueue, reply_channel, time_channel
from pyromq.protocol.names import retry_topic, without_namespace
from pyromq.protocol.tag_filter import EVERYTHING

if TYPE_CHECKING:
    from pyromq.client.trace.spans import ConsumeSpans

logger = logging.getLogger(__name__)

COMMIT_INTERVAL = 5.0
_BROKER_WAIT_MS = 15_000
_LONGEST_TIMEOUT_CHECK = 60.0


class PushSession:
    """A PushConsumer from joining its group to leaving it."""

    def __init__(
        self,
        settings: PushSettings,
        clock: Clock,
        tracing: Tracing | None = None,
        spans: ConsumeSpans | None = None,
    ) -> None:
        self.settings = settings
        self._handle = borrow_instance(settings.client, clock)
        self.instance = self._handle.instance
        self.closing = asyncio.Event()
        self._tracing = tracing
        self._spans = spans
        self.retry_topic = retry_topic(settings.group)
        self.paused = False
        self._started_ms = clock.now_ms()
        self.subscriptions = self._subscriptions(self._started_ms)
        self._clock = clock
        self.offsets = settings.offset_store or self._own_offsets()
        self.commits = Commits(self.offsets)
        self.stats = ConsumerStats(clock.monotonic())
        self._build_queue_parts()
        self._build_listener_parts()
        self._renewing = Periodic("lock renewal", clock, RENEWAL_INTERVAL, self._renew)
        self._tasks = [
            Periodic("commit", clock, COMMIT_INTERVAL, self._commit),
            self._renewing,
            Periodic("statistics", clock, SAMPLE_INTERVAL, self._sample),
            Periodic("consume time-out", clock, self._timeout_check_interval(), self._expire),
        ]

    # --- building ----------------------------------------------------------------------------------------------------

    def _subscriptions(self, now_ms: int) -> dict[str, Subscription]:
        wanted = {topic: replace(kept, version_ms=now_ms) for topic, kept in self.settings.subscriptions.items()}
        if not self.settings.broadcasting:
            wanted[self.retry_topic] = Subscription(self.retry_topic, EVERYTHING, version_ms=now_ms)
        return wanted

    def _own_offsets(self) -> OffsetStore:
        group = self.settings.group
        if self.settings.broadcasting:
            return LocalOffsets(default_offsets_path(self.instance.client_id, group))
        return BrokerOffsets(self.instance.api, self.instance.routes, group)

    def _build_queue_parts(self) -> None:
        settings, instance = self.settings, self.instance
        api, routes, group = instance.api, instance.routes, settings.group
        self.support = FilterSupport(api, routes, instance.client_id, group)
        self.fetcher = Fetcher(
            api=api,
            routes=routes,
            group=group,
            subscriptions=self.subscriptions,
            terms=PullTerms(
                flags=PULL_SUSPEND_FLAG,
                wait_ms=_BROKER_WAIT_MS,
                batch=settings.pull_batch,
                commits=not settings.broadcasting and settings.offset_store is None,
                own_filters=False,
            ),
            namespace=settings.client.namespace,
            accept=accepted_by(settings.hooks),
            support=self.support,
            observe=self.stats.count_pull,
        )
        self.membership = Membership(
            self._handle,
            group,
            topics=lambda: self.subscriptions,
            assign=self._assign_topic,
            allocate=None if settings.broadcasting else settings.allocate,
        )
        locks = None if settings.broadcasting else QueueLocks(api, routes, group, instance.client_id, self._clock)
        self._ownership = Ownership(
            locks,
            self.offsets,
            self.commits,
            InitialOffset(api, routes, self.offsets, group, settings.start),
            self._clock,
            strict=settings.orderly,
            is_orphan=self.membership.is_orphan,
            is_alone=self.membership.is_alone,
            resume=self._resume,
        )
        self.assignment: Assignment[ProcessQueue] = Assignment(
            self._new_loop, self._ownership.release, self.settings.changes.shown_as(self._shown)
        )

    def _build_listener_parts(self) -> None:
        settings, api, routes = self.settings, self.instance.api, self.instance.routes
        self.context = copy_context()  # the context in which listeners run
        self.context.run(reply_channel.set, Replier(api, routes, self._clock))
        self.context.run(time_channel.set, self._extend)
        self._threads = ListenerThreads()
        kind: type[Consumption] = OrderlyConsumption if settings.orderly else ConcurrentConsumption
        send_back = SendBack(
            api, routes, settings.group, max_reconsume=settings.max_reconsume, namespace=settings.client.namespace
        )
        self.consumption = kind(
            ConsumeSettings(
                group=settings.group,
                timeout=settings.consume_timeout,
                max_reconsume=settings.max_reconsume,
                needs_lock=settings.orderly and not settings.broadcasting,
            ),
            bind_sampled(
                settings.listener, self._threads, self.stats.count_measured, ended=lambda: self.workers.start_more()
            ),
            self._clock,
            send_back=None if settings.broadcasting else send_back,
            stats=self.stats,
            hooks=settings.hooks,
            offer=lambda held: self.workers.offer(held),
        )
        self.workers = Workers(
            self.consumption.consume,
            self.consumption.put_off,
            self._clock,
            self.context,
            concurrency=settings.concurrency,
            batch_size=settings.batch_size,
            rate=settings.rate,
            left_behind=None if is_async(settings.listener) else lambda: self._threads.left_behind,
        )
        self.direct = DirectConsumption(
            self.consumption,
            self.assignment.find,
            self.workers.offer,
            self._clock,
            self.context,
            orderly=settings.orderly,
            timeout=settings.consume_timeout,
        )

    def _extend(self, message: MessageExt, seconds: float) -> None:
        self.workers.extend(message, seconds)

    # --- life --------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Join the group, take a first share of the queues and start to consume."""
        if self._tracing is not None:
            await self._tracing.open()
        if self._spans is not None:
            self._spans.opened(self.instance.client_id)
        self.instance.start()
        await self.support.ensure_everywhere(self.subscriptions.values())
        await self.membership.join(self)
        self.instance.routes.on_change.append(self._route_changed)
        for task in self._tasks:
            task.start()

    async def close(self, *, failed: bool = False) -> None:
        """Wait for the listener, commit, and leave the group; only then do others take the queues over."""
        self.closing.set()
        with suppress(ValueError):  # it never joined
            self.instance.routes.on_change.remove(self._route_changed)
        self.workers.stop()
        self.direct.stop()
        await run_all(
            self.membership.stop,
            self.assignment.stop,
            lambda: self.workers.close(self.settings.close_timeout),
            lambda: self.direct.close(self.settings.close_timeout),
            *(task.stop for task in self._tasks),
            lambda: self.commits.try_commit_consumed(self.assignment),
            lambda: self._ownership.close(self.assignment),
            self._close_threads,
            self._handle.close,
            self._close_tracing,
        )

    async def _close_threads(self) -> None:
        self._threads.close()

    async def _close_tracing(self) -> None:
        if self._tracing is not None:
            await self._tracing.close()

    async def subscribe(self, subscription: Subscription) -> None:
        """Consume another topic, or a topic with another filter."""
        await self.support.ensure_everywhere([subscription])
        before = self.subscriptions.get(subscription.topic)
        if before is not None and subscription.version_ms <= before.version_ms:
            # The machine's clock was set back, and brokers ignore a subscription that is older than the one they have.
            subscription = replace(subscription, version_ms=before.version_ms + 1)
        self.subscriptions[subscription.topic] = subscription
        await self.membership.look_up(subscription.topic)
        await self.instance.heartbeats.beat()
        self.membership.wake()

    async def unsubscribe(self, topic: str) -> None:
        """Commit and give up the queues of a topic."""
        self.subscriptions.pop(topic, None)
        await self.assignment.replace([], topic)
        await self.instance.heartbeats.beat()

    def pause(self) -> None:
        """Stop handing out messages and stop pulling."""
        self.paused = True
        for held in self.assignment:
            held.paused = True

    def resume(self) -> None:
        """Continue where it was paused."""
        self.paused = False
        for held in self.assignment:
            held.paused = False
            held.room.set()
            self.workers.offer(held)

    # --- as a member of the group ------------------------------------------------------------------------------------

    def consumer_data(self) -> ConsumerData:
        """Return what heartbeats carry about this consumer."""
        broadcasting = self.settings.broadcasting
        return ConsumerData(
            group_name=self.settings.group,
            consume_type=ConsumeType.CONSUME_PASSIVELY,
            message_model=MessageModel.BROADCASTING if broadcasting else MessageModel.CLUSTERING,
            consume_from_where=consume_from_where(self.settings.start),
            subscription_data_set=[subscription.data() for subscription in self.subscriptions.values()],
        )

    def members_changed(self) -> None:
        """Rebalance, because a member joined or left the group."""
        self.membership.wake()

    def connection_lost(self, address: str) -> None:
        """Lock the queues of a broker again as soon as it is back: if it was restarted, it has forgotten our locks."""
        self._lock_again([held for held in self.assignment if held.locked_at == address])

    def _route_changed(self, topic: str) -> None:
        """Pull elsewhere, and lock again, where a master has changed, is away, or is back."""
        self.assignment.follow_routes()
        self._lock_again([held for held in self.assignment if self._is_locked_elsewhere(held)])

    def _is_locked_elsewhere(self, held: ProcessQueue) -> bool:
        keeper = self.instance.routes.reader(held.queue.broker_name)
        return bool(held.locked_at) and keeper is not None and keeper.address != held.locked_at

    def _lock_again(self, queues: list[ProcessQueue]) -> None:
        if queues:
            self._ownership.doubt(queues)
            self._renewing.wake()

    def progress(self, topic: str) -> dict[MessageQueue, int]:
        """Return the offsets up to which a topic's queues are consumed."""
        return {held.queue: held.consumed_offset or 0 for held in self.assignment if held.queue.topic == topic}

    def running_info(self) -> ConsumerRunningInfo:
        """Return the state of this consumer for operators' tools."""
        properties = consumer_properties(
            self.instance.api.name_servers.addresses,
            ConsumeType.CONSUME_PASSIVELY,
            self._started_ms,
            orderly=self.settings.orderly,
            threads=self.settings.concurrency,
        )
        properties |= blocked_property(self.blocked) | in_progress_property(self.workers.in_progress())
        load = self.stats.listener_load(self._clock.monotonic())
        properties |= listener_property(load, self.workers.listening, self.settings.rate)
        return running_info(properties, self.subscriptions, self.assignment, self.stats, self._clock)

    @property
    def blocked(self) -> list[BlockedQueue]:
        """The orderly queues that a failing message blocks."""
        return [held.blocked for held in self.assignment if held.blocked is not None]

    async def reset_offsets(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Continue from these offsets and commit them; the outcomes of current jobs are ignored."""
        for queue, offset in offsets.items():
            if offset < 0:
                continue
            for held in (*self.assignment.leaving, *self._ownership.leaving):
                if held.queue == queue:  # its next owner starts where this commit says
                    held.jump_to(offset)
                    await self.commits.try_commit_last(held)
            if queue in self.assignment:
                logger.info("offset of %s reset to %d by an operator", queue, offset)
                await self._reset_offset(self.assignment.loop(queue), offset)

    async def _reset_offset(self, loop: PullLoop[ProcessQueue], offset: int) -> None:
        held = loop.held
        if held.pull_offset is None:  # not started yet: it loads its offset, perhaps right now
            await self.offsets.commit(held.queue, offset)
            if held.pull_offset is None:
                loop.start()  # over again, so that it loads this one
                return
        loop.restart_at(offset)
        await self.commits.try_commit_consumed([held])

    async def consume_directly(self, message: MessageExt) -> ConsumeMessageDirectlyResult:
        """Call the listener with one message, in addition to all others."""
        return await self.direct.consume(message, self.fetcher.show_as_sent)

    # --- queues ------------------------------------------------------------------------------------------------------

    async def _assign_topic(self, topic: str, queues: list[MessageQueue]) -> bool:
        if topic not in self.subscriptions:  # unsubscribed meanwhile
            queues = []
        free = [queue for queue in queues if not self._ownership.is_leaving(queue)]
        await self.assignment.replace(free, topic)
        return len(free) == len(queues)

    def _shown(self, queue: MessageQueue) -> MessageQueue | None:
        """Return a queue as the user knows it; None for those of the retry topic."""
        if queue.topic == self.retry_topic:
            return None
        return queue._replace(topic=without_namespace(queue.topic, self.settings.client.namespace))

    def _new_loop(self, queue: MessageQueue) -> PullLoop[ProcessQueue]:
        held = ProcessQueue(queue, orderly=self.settings.orderly)
        held.paused = self.paused
        return PullLoop(
            held,
            self.fetcher,
            self.settings.flow_control,
            self._clock,
            start_queue=self._ownership.acquire,
            on_messages=self.workers.offer,
            on_failure=lambda error: self.instance.refresh_soon(),
            interval=self.settings.pull_interval,
        )

    def _resume(self, held: ProcessQueue, offset: int | None) -> None:
        if offset is not None:
            self.assignment.loop(held.queue).restart_at(offset)
        self.workers.offer(held)

    # --- periodic work -----------------------------------------------------------------------------------------------

    async def _commit(self) -> bool:
        return await self.commits.try_commit_consumed(self.assignment)

    async def _renew(self) -> bool:
        return await self._ownership.renew(self.assignment)

    async def _sample(self) -> bool:
        self.stats.sample(self._clock.monotonic())
        return True

    async def _expire(self) -> bool:
        # In an orderly queue nothing may overtake a message, so a slow listener is only logged.
        self.workers.expire(self.settings.consume_timeout, cancel=not self.settings.orderly)
        return True

    def _timeout_check_interval(self) -> float:
        return min(self.settings.consume_timeout / 4, _LONGEST_TIMEOUT_CHECK)
