"""PollSession: the parts of a LitePullConsumer while it is open, and how they are connected."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress

from msgspec.structs import replace

from pyromq.client.background import Periodic, run_all
from pyromq.client.consume.assignment import Assignment
from pyromq.client.consume.commits import Commits
from pyromq.client.consume.fetch import Fetcher, PullTerms
from pyromq.client.consume.filter_support import FilterSupport
from pyromq.client.consume.initial_offset import InitialOffset
from pyromq.client.consume.offset_store import BrokerOffsets
from pyromq.client.consume.pull_loop import PullLoop
from pyromq.client.consume.running_info import consumer_properties, running_info
from pyromq.client.consume.stall_report import idle_caller_property
from pyromq.client.consume.start_from import consume_from_where
from pyromq.client.consume.subscriptions import Expression, Subscription, subscribe
from pyromq.client.group.membership import Membership
from pyromq.client.net.sharing import borrow_instance
from pyromq.client.poll.poll_queue import PollQueue
from pyromq.client.poll.poll_settings import PollSettings
from pyromq.client.poll.ready_messages import ReadyMessages
from pyromq.clock import Clock
from pyromq.errors import AccessDenied, BrokerError, ClientError
from pyromq.protocol.bodies import ConsumeMessageDirectlyResult, ConsumerData, ConsumerRunningInfo, ConsumeType
from pyromq.protocol.codes import PULL_LITE_FLAG, PULL_SUSPEND_FLAG
from pyromq.protocol.messages.message import MessageExt, MessageQueue

logger = logging.getLogger(__name__)

_BROKER_WAIT_MS = 20_000


class PollSession:
    """A LitePullConsumer from joining its group, or from the first `assign`, to leaving."""

    def __init__(self, settings: PollSettings, clock: Clock) -> None:
        self.settings = settings
        self._handle = borrow_instance(settings.client, clock)
        self.instance = self._handle.instance
        self._started_ms = now_ms = clock.now_ms()
        self.subscriptions = {
            topic: replace(subscription, version_ms=now_ms) for topic, subscription in settings.subscriptions.items()
        }
        self.topics = dict(self.subscriptions)
        """The subscriptions of the group; `subscriptions` also has those of assigned queues."""
        api, routes = self.instance.api, self.instance.routes
        self.offsets = settings.offset_store or BrokerOffsets(api, routes, settings.group)
        self.commits = Commits(self.offsets)
        self._clock = clock
        self._initial_offset = InitialOffset(api, routes, self.offsets, settings.group, settings.start)
        self._support = FilterSupport(api, routes, self.instance.client_id, settings.group)
        self._fetcher = Fetcher(
            api=api,
            routes=routes,
            group=settings.group,
            subscriptions=self.subscriptions,
            terms=PullTerms(
                flags=PULL_SUSPEND_FLAG | PULL_LITE_FLAG, wait_ms=_BROKER_WAIT_MS, batch=settings.pull_batch
            ),
            namespace=settings.client.namespace,
            support=self._support,
        )
        self.ready = ReadyMessages(clock.now())
        self.assignment = Assignment(self._new_loop, self._release, settings.changes)
        self._is_member = False
        self.membership = Membership(
            self._handle,
            settings.group,
            topics=lambda: self.topics,
            assign=self._assign_topic,
            allocate=settings.allocate,
        )
        self._committing = Periodic("auto-commit", clock, settings.auto_commit_interval, self._commit_consumed)

    @property
    def subscribed(self) -> bool:
        """Whether the group shares out the queues; otherwise the caller assigns them."""
        return self._is_member or bool(self.topics)

    async def start(self) -> None:
        """Start; with subscriptions, join the group and take a first share of the queues."""
        self.instance.start()
        self.instance.routes.on_change.append(self._route_changed)
        if self.settings.auto_commit:
            self._committing.start()
        if not self.subscribed:
            return
        await self._support.ensure_everywhere(self.subscriptions.values())
        await self._join()

    async def _join(self) -> None:
        self._is_member = True
        await self.membership.join(self)

    async def close(self, *, failed: bool) -> None:
        """Stop pulling, commit, leave the group and close the connections.

        After a failure the messages handed out last may not have been handled: they are not committed, so they are
        delivered again.
        """
        self.ready.stop()
        with suppress(ValueError):  # it never started
            self.instance.routes.on_change.remove(self._route_changed)
        if not failed and self.settings.auto_commit:
            self.ready.mark_consumed()
        await run_all(
            self.membership.stop,
            self._committing.stop,
            self.assignment.stop,
            self._commit_last,
            self._handle.close,
        )

    # --- as a member of the group ------------------------------------------------------------------------------------

    def consumer_data(self) -> ConsumerData:
        """Return what heartbeats carry about this consumer."""
        return ConsumerData(
            group_name=self.settings.group,
            consume_type=ConsumeType.CONSUME_ACTIVELY,
            consume_from_where=consume_from_where(self.settings.start),
            subscription_data_set=[subscription.data() for subscription in self.topics.values()],
        )

    def members_changed(self) -> None:
        """Rebalance, because a member joined or left the group."""
        self.membership.wake()

    def connection_lost(self, address: str) -> None:
        """Ignore it: the queues of this kind of consumer have no locks."""

    def _route_changed(self, topic: str) -> None:
        self.assignment.follow_routes()

    def progress(self, topic: str) -> dict[MessageQueue, int]:
        """Return the offsets up to which the queues of a topic are consumed."""
        return {held.queue: held.consumed_offset or 0 for held in self.assignment if held.queue.topic == topic}

    def running_info(self) -> ConsumerRunningInfo:
        """Return the state of this consumer for operators' tools."""
        name_servers = self.instance.api.name_servers.addresses
        properties = consumer_properties(name_servers, ConsumeType.CONSUME_ACTIVELY, self._started_ms)
        properties |= idle_caller_property(self.ready.idle_since)
        return running_info(properties, self.subscriptions, self.assignment, None, self._clock)

    async def reset_offsets(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Ignore it: the caller decides where to read, with `seek`."""
        logger.info(
            "a reset of offsets was ignored: the caller of poll() decides where to read group=%s", self.settings.group
        )

    async def consume_directly(self, message: MessageExt) -> ConsumeMessageDirectlyResult:
        """Refuse, because there is no listener."""
        raise BrokerError(f"the consumer of group {self.settings.group} polls and has no listener")

    # --- queues ------------------------------------------------------------------------------------------------------

    async def assign(self, queues: Iterable[MessageQueue], expression: Expression) -> None:
        """Read exactly these queues, independently of the group."""
        queues = list(queues)
        now_ms = self._clock.now_ms()
        wanted = {topic: subscribe(topic, expression, now_ms) for topic in {queue.topic for queue in queues}}
        await self._support.ensure_everywhere(wanted.values())
        self.subscriptions.update(wanted)
        await self.assignment.replace(queues)

    async def subscribe(self, subscription: Subscription) -> None:
        """Read another topic, or a topic with another filter, as a member of the group."""
        if not self.subscribed and any(True for _ in self.assignment):
            raise ClientError("subscribe() is not possible after assign(): the group would share out other queues")
        await self._support.ensure_everywhere([subscription])
        before = self.topics.get(subscription.topic)
        if before is not None and subscription.version_ms <= before.version_ms:  # brokers keep the later one
            subscription = replace(subscription, version_ms=before.version_ms + 1)
        self.topics[subscription.topic] = self.subscriptions[subscription.topic] = subscription
        if not self._is_member:
            await self._join()
            return
        await self.membership.look_up(subscription.topic)
        await self.instance.heartbeats.beat()
        await self.membership.rebalance()

    async def unsubscribe(self, topic: str) -> None:
        """Give up the queues of a topic."""
        if self.topics.pop(topic, None) is None:
            return
        await self.assignment.replace([], topic)
        self.subscriptions.pop(topic, None)
        await self.instance.heartbeats.beat()

    async def _assign_topic(self, topic: str, queues: list[MessageQueue]) -> bool:
        if topic not in self.topics:  # unsubscribed meanwhile
            queues = []
        await self.assignment.replace(queues, topic)
        return True

    def _new_loop(self, queue: MessageQueue) -> PullLoop[PollQueue]:
        return PullLoop(
            PollQueue(queue),
            self._fetcher,
            self.settings.flow_control,
            self._clock,
            start_queue=self._initial_offset.apply,
            on_messages=self.ready.note_messages,
            on_failure=self._pull_failed,
        )

    def _pull_failed(self, error: BaseException) -> None:
        self.instance.refresh_soon()
        if isinstance(error, AccessDenied):
            self.ready.refuse(error)

    async def _release(self, held: PollQueue) -> None:
        self.ready.forget(held)
        if self.settings.auto_commit:
            await self.commits.try_commit_last(held)

    async def commit_handed_out(self) -> None:
        """Commit all that was handed out before this call; raises if the offset store fails."""
        for held, position in [(held, held.position) for held in self.assignment]:
            if position is not None and await self.commits.commit_up_to(held, position):
                held.mark_consumed_up_to(position)

    async def commit_offsets(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Commit these offsets, all of which lie within what was handed out; raises ClientError for others."""
        for queue, offset in offsets.items():
            position = self.assignment.loop(queue).held.position
            if isinstance(offset, bool) or not isinstance(offset, int) or offset < 0:
                raise ClientError(f"the offset to commit for {queue} must be a whole number, not {offset!r}")
            if position is None or offset > position:
                raise ClientError(f"{queue} was returned up to offset {position}; {offset} lies behind that")
        for queue, offset in offsets.items():
            held = self.assignment.find(queue)
            if held is not None and await self.commits.commit_up_to(held, offset):
                held.mark_consumed_up_to(offset)

    async def _commit_last(self) -> None:
        if self.settings.auto_commit:
            await self._commit_consumed()

    async def _commit_consumed(self) -> bool:
        return await self.commits.try_commit_consumed(self.assignment)


def next_offsets(upto: Mapping[MessageQueue, int] | MessageExt | Iterable[MessageExt]) -> dict[MessageQueue, int]:
    """Return the offset to continue at for each queue, as `commit(upto)` means it; raises ClientError for others."""
    if isinstance(upto, Mapping):
        if all(isinstance(queue, MessageQueue) for queue in upto):
            return dict(upto)
        raise ClientError("commit() takes {queue: offset}, with queues such as message.queue")
    messages = [upto] if isinstance(upto, MessageExt) else upto
    found: dict[MessageQueue, int] = {}
    for message in messages:
        if not isinstance(message, MessageExt):
            raise ClientError(f"commit() takes messages, or {{queue: offset}}, not {type(message).__name__}")
        found[message.queue] = max(found.get(message.queue, 0), message.queue_offset + 1)
    return found
