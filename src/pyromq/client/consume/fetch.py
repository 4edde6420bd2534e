"""Fetcher: one pull of one queue, from the request to the messages that the consumer wants."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from time import perf_counter

from msgspec import Struct

from pyromq.client.consume.assigned_queue import AssignedQueue
from pyromq.client.consume.filter_support import FilterSupport
from pyromq.client.consume.start_from import first_offset_since
from pyromq.client.consume.subscriptions import Subscription
from pyromq.client.net.calls.answers import PullAnswer, PullStatus
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.client.net.routes import ReadableBroker, Routes
from pyromq.errors import ClientError
from pyromq.lane.records import decode_messages
from pyromq.protocol.codes import (
    MASTER_ID,
    PULL_COMMIT_OFFSET_FLAG,
    PULL_FORWARD_FLAG,
    PULL_SUBSCRIPTION_FLAG,
)
from pyromq.protocol.headers.pull import PullMessageRequestHeader
from pyromq.protocol.messages.message import MessageExt, MessageQueue
from pyromq.protocol.messages.properties import RETRY_TOPIC, find_property
from pyromq.protocol.names import RETRY_PREFIX, without_namespace

logger = logging.getLogger(__name__)

PULL_TIMEOUT = 30.0
_CLOCK_TOLERANCE_MS = 60_000  # the clocks of the broker that lost messages and of its successor may differ


class Fetched(Struct, gc=False):
    """The result of one pull."""

    messages: list[MessageExt]
    next_offset: int
    moved: bool
    """The requested offset does not exist: reading continues at `next_offset`, which may be lower."""


class PullTerms(Struct, frozen=True, kw_only=True):
    """How one kind of consumer pulls."""

    flags: int
    """Set in every pull, in addition to those that depend on the subscription and on progress."""
    wait_ms: int
    """How long a broker may hold a pull until messages arrive."""
    batch: int
    commits: bool = False
    """Whether pulls carry the group's progress to the broker."""
    own_filters: bool = True
    """Whether every pull carries expressions other than tags; otherwise the broker knows them from heartbeats."""


class Fetcher:
    """Pulls for one group; `subscriptions` says which messages of a topic are wanted, `accept` filters further.

    Before the first pull that needs more than tags, `support` checks that the broker can filter so. `observe` is called
    with the topic, the duration and the number of messages of each pull that returned some.
    """

    def __init__(
        self,
        *,
        api: BrokerApi,
        routes: Routes,
        group: str,
        subscriptions: Mapping[str, Subscription],
        terms: PullTerms,
        namespace: str | None,
        accept: Callable[[MessageExt], bool] | None = None,
        support: FilterSupport | None = None,
        observe: Callable[[str, float, int], None] | None = None,
    ) -> None:
        self._api = api
        self._routes = routes
        self._group = group
        self._subscriptions = subscriptions
        self._terms = terms
        self._namespace = namespace
        self._accept = accept
        self._support = support
        self._observe = observe

    async def fetch(self, held: AssignedQueue, offset: int) -> Fetched:
        """Pull once; the broker holds the request until messages arrive.

        An answer that leads to another offset is followed only if the master has no message at this one.
        """
        queue = held.queue
        reader = await self._routes.find_reader(queue, held.broker_id)
        held.pulls_from_master, held.pull_address = reader.broker_id == MASTER_ID, reader.address
        wanted = self._subscriptions.get(queue.topic)
        if wanted is None:
            raise ClientError(f"{queue.topic} is no longer subscribed")
        if self._support is not None and not wanted.by_tags:
            await self._support.ensure(reader.address, wanted)
        consumed = self._offset_to_commit(held) if held.pulls_from_master else None
        header = self._request(held, offset, wanted, consumed or 0)
        started = perf_counter()
        answer = await self._api.pull(reader.address, header, timeout=PULL_TIMEOUT)
        seconds = perf_counter() - started
        if consumed:  # another commit may have come first while the broker held the pull
            held.committed_offset = max(consumed, held.committed_offset or 0)
        if held.deleted_at is None and held.pulls_from_master:
            held.deleted_at = answer.deleted_at
        held.broker_id = answer.suggested_broker_id
        moved = answer.status is PullStatus.OFFSET_MOVED and answer.next_offset != offset
        if (moved or answer.next_offset < offset) and await self._leads_astray(answer, reader, queue, offset):
            held.broker_id = MASTER_ID
            return Fetched([], offset, moved=False)
        if answer.next_offset < offset:
            return Fetched([], await self._end_of_known_messages(held, reader.address, answer.next_offset), moved=True)
        messages = self._messages(answer, queue.broker_name, wanted)
        if self._observe is not None and messages:
            self._observe(queue.topic, seconds, len(messages))
        return Fetched(messages, answer.next_offset, moved)

    def waits_in_vain(self, held: AssignedQueue) -> bool:
        """Return True if the last pull went to a master that is none any more: if that hangs, it answers no more."""
        is_known = self._routes.reader(held.queue.broker_name) is not None
        return is_known and held.pulls_from_master and self._routes.master(held.queue.broker_name) != held.pull_address

    def _offset_to_commit(self, held: AssignedQueue) -> int | None:
        return held.offset_to_commit if self._terms.commits and held.committed_is_sure else None

    async def _leads_astray(self, answer: PullAnswer, reader: ReadableBroker, queue: MessageQueue, offset: int) -> bool:
        """Return True if an answer leads to another offset although the queue has this one.

        A slave may lag behind, or have deleted messages that its master still has. Following it would repeat or skip
        messages, and move the committed offset. A master that was deposed while it stood still does not know that it
        lags, so the name servers are asked who is master. If that one says that its queue ends before the offset, its
        log was damaged or replaced: reading and commits have to follow, or messages sent from now on would be skipped.
        Raises ClientError if a master contradicts itself.
        """
        back = answer.next_offset < offset
        if reader.broker_id != MASTER_ID:
            return back or self._routes.master(queue.broker_name) is not None
        if not back:
            return False  # retention has deleted what was there
        end = await self._api.max_offset(reader.address, queue.topic, queue.queue_id)
        if end < offset and answer.status is PullStatus.OFFSET_MOVED:
            await self._routes.refresh(queue.topic)  # raises if nobody can tell: the pull is repeated
            return self._routes.master(queue.broker_name) != reader.address
        raise ClientError(
            f"broker {reader.address} answers a pull at offset {offset} with {answer.next_offset}, "
            f"although its queue ends at {end}"
        )

    async def _end_of_known_messages(self, held: AssignedQueue, address: str, end: int) -> int:
        """Return where to continue in a queue that has lost its end: new messages may have taken the lost offsets."""
        if not held.newest_ms:
            return end
        since, queue = held.newest_ms - _CLOCK_TOLERANCE_MS, held.queue
        return min(end, await first_offset_since(self._api, address, self._group, queue.topic, queue.queue_id, since))

    def _request(
        self, held: AssignedQueue, offset: int, wanted: Subscription, consumed: int
    ) -> PullMessageRequestHeader:
        carried = wanted.by_tags or self._terms.own_filters
        commits = PULL_COMMIT_OFFSET_FLAG | (0 if held.may_move_back else PULL_FORWARD_FLAG)
        flags = self._terms.flags | (PULL_SUBSCRIPTION_FLAG if carried else 0) | (commits if consumed else 0)
        return PullMessageRequestHeader(
            consumer_group=self._group,
            topic=held.queue.topic,
            queue_id=held.queue.queue_id,
            queue_offset=offset,
            max_msg_nums=self._terms.batch,
            sys_flag=flags,
            commit_offset=consumed,
            suspend_timeout_millis=self._terms.wait_ms,
            subscription=wanted.expression if carried else None,
            sub_version=0 if wanted.by_tags else wanted.version_ms,
            expression_type=wanted.expression_type,
            pyromq_deleted_at=-1 if held.deleted_at is None else held.deleted_at,
        )

    def _messages(self, answer: PullAnswer, broker_name: str, wanted: Subscription) -> list[MessageExt]:
        if answer.status is not PullStatus.FOUND:
            return []
        messages = decode_messages(answer.body, broker_name)
        if wanted.tags:  # brokers filter by a hash of the tag, and hashes collide
            messages = [message for message in messages if wanted.accepts(message.tags)]
        if self._namespace or wanted.topic.startswith(RETRY_PREFIX):
            for message in messages:
                self.show_as_sent(message)
        if self._accept is not None:
            messages = [message for message in messages if self._accept(message)]
        return messages

    def show_as_sent(self, message: MessageExt) -> None:
        """Restore the topic that a message was sent to: not a retry topic, and without the namespace."""
        if message.topic.startswith(RETRY_PREFIX):
            message.topic = find_property(message.raw_properties, RETRY_TOPIC) or message.topic
        message.topic = without_namespace(message.topic, self._namespace)
