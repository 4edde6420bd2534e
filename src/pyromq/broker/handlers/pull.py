"""PULL_MESSAGE (11): the checks in RocketMQ's order, the read, and waiting where there is nothing to read."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import lru_cache

from pyromq.broker.clients import TAG_TYPES, ClientRegistry
from pyromq.broker.config import BrokerConfig
from pyromq.broker.consumer_offsets import ConsumerOffsets
from pyromq.broker.groups import SubscriptionGroups
from pyromq.broker.long_polling import HeldPull, LongPolling
from pyromq.broker.stats import BrokerStats
from pyromq.broker.topics import TopicTable
from pyromq.clock import Clock
from pyromq.errors import BrokerError, LocalProtocolError, NoPermission, StoreError
from pyromq.protocol.bodies import MessageModel, SubscriptionGroupConfig
from pyromq.protocol.codes import PERM_READ, RequestCode, ResponseCode
from pyromq.protocol.command import RemotingCommand, response
from pyromq.protocol.filter import parse_tags
from pyromq.protocol.headers.pull import PullMessageRequestHeader
from pyromq.protocol.templates import pull_answer_head
from pyromq.remoting.connection import Connection, Handler
from pyromq.store.readable import ReadableStore
from pyromq.store.results import GetResult, GetStatus

logger = logging.getLogger(__name__)

COMMIT_OFFSET_FLAG = 1
SUSPEND_FLAG = 2
SUBSCRIPTION_FLAG = 4

MAX_BYTES = 8 << 20  # of an answer to a client that sets its own limit
MAX_COUNT = 65_536
MAX_SUSPEND = 300.0  # a longer wait would only keep the memory of a client that forgot it

_FOUND = GetStatus.FOUND
_CODES = {
    GetStatus.FOUND: ResponseCode.SUCCESS,
    GetStatus.NO_MATCHED_MESSAGE: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.MESSAGE_WAS_REMOVING: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.OFFSET_FOUND_NULL: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_ONE: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_BADLY: ResponseCode.PULL_OFFSET_MOVED,
    GetStatus.OFFSET_TOO_SMALL: ResponseCode.PULL_OFFSET_MOVED,
}
Codes = frozenset[int] | None
"""The hashes of the tags that are wanted; None wants every message."""


class PullHandler:
    """Gives consumers the messages of a queue, now or when they arrive."""

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        *,
        store: ReadableStore,
        topics: TopicTable,
        groups: SubscriptionGroups,
        clients: ClientRegistry,
        offsets: ConsumerOffsets,
        stats: BrokerStats,
    ) -> None:
        self.waiting = LongPolling(clock, config.max_held_pulls, self.resume)
        self._clock = clock
        self._store = store
        self._topics = topics
        self._groups = groups
        self._clients = clients
        self._offsets = offsets
        self._stats = stats
        self._broker_readable = bool(config.permission & PERM_READ)
        self._short_polling_time = None if config.long_polling else config.short_polling_time

    def handlers(self) -> Mapping[int, Handler]:
        """Return who answers which request."""
        return {RequestCode.PULL_MESSAGE: self.pull}

    def pull(self, request: RemotingCommand, connection: Connection) -> bytes | None:
        """Answer with messages, or hold the pull until one arrives."""
        header = request.header(PullMessageRequestHeader)
        codes = self._check(header)
        result = self._read(header, codes)
        code = _code(result, header)
        if header.sys_flag & COMMIT_OFFSET_FLAG:
            self._offsets.commit(
                header.consumer_group, header.topic, header.queue_id, header.commit_offset, connection.peer
            )
        if code == ResponseCode.PULL_NOT_FOUND and header.sys_flag & SUSPEND_FLAG:
            self._hold(header, codes, request, connection)
            return None
        return self._answer(header, request, result, code)

    def resume(self, held: HeldPull) -> None:
        """Answer a pull that waited, with whatever there is now; nothing it meets may stop the others."""
        if held.connection.closed:
            return
        try:
            header = held.request.header(PullMessageRequestHeader)
            result = self._read(header, self._check(header))
            answer = self._answer(header, held.request, result, _code(result, header))
        except BrokerError as error:
            answer = response(held.request, error.code, error.remark).encode()
        except Exception as error:
            logger.exception("a held pull failed topic=%s queue=%d", *held.key)
            answer = response(held.request, ResponseCode.SYSTEM_ERROR, type(error).__name__).encode()
        held.connection.send(answer)

    def _check(self, header: PullMessageRequestHeader) -> Codes:
        """Make every check that RocketMQ makes, in its order; return the tags that are wanted."""
        if not self._broker_readable:
            raise NoPermission("this broker may not be read from now")
        group = self._groups.find_or_create(header.consumer_group)
        if not group.consume_enable:
            raise NoPermission(f"consumer group {header.consumer_group} may not consume")
        topic = self._topics.find(header.topic)
        if not topic.readable:
            raise NoPermission(f"topic {header.topic} may not be read")
        if not 0 <= header.queue_id < topic.read_queues:
            raise BrokerError(
                f"queue {header.queue_id} of topic {topic.name} does not exist, it has {topic.read_queues}"
            )
        if header.sys_flag & SUBSCRIPTION_FLAG:
            return _expression_codes(header)
        return self._subscribed_codes(header, group)

    def _subscribed_codes(self, header: PullMessageRequestHeader, config: SubscriptionGroupConfig) -> Codes:
        """Return what the group's heartbeats say it wants."""
        group = self._clients.consumers.get(header.consumer_group)
        if group is None:
            raise BrokerError(
                f"consumer group {header.consumer_group} is not online", ResponseCode.SUBSCRIPTION_NOT_EXIST
            )
        if not config.consume_broadcast_enable and group.message_model is MessageModel.BROADCASTING:
            raise NoPermission(f"consumer group {header.consumer_group} may not broadcast")
        found = group.subscriptions.get(header.topic)
        if found is None:
            raise BrokerError(
                f"consumer group {header.consumer_group} does not subscribe to {header.topic}",
                ResponseCode.SUBSCRIPTION_NOT_EXIST,
            )
        if found.data.sub_version < header.sub_version:
            raise BrokerError(
                f"the broker knows an older subscription of {header.consumer_group} to {header.topic}",
                ResponseCode.SUBSCRIPTION_NOT_LATEST,
            )
        if not found.is_tags:
            raise _only_tags(found.data.expression_type)
        return found.codes

    def _read(self, header: PullMessageRequestHeader, codes: Codes) -> GetResult:
        max_bytes = header.pyromq_max_bytes
        if max_bytes is not None:
            max_bytes = min(max_bytes, MAX_BYTES) if max_bytes > 0 else None
        try:
            return self._store.get(
                header.topic,
                header.queue_id,
                header.queue_offset,
                min(header.max_msg_nums, MAX_COUNT),
                max_bytes=max_bytes,
                codes=codes,
            )
        except StoreError as error:
            raise BrokerError(f"the store cannot be read: {error}") from error

    def _hold(
        self, header: PullMessageRequestHeader, codes: Codes, request: RemotingCommand, connection: Connection
    ) -> None:
        seconds = self._short_polling_time or min(header.suspend_timeout_millis / 1000, MAX_SUSPEND)
        self.waiting.hold(
            HeldPull(
                request,
                connection,
                (header.topic, header.queue_id),
                header.queue_offset,
                codes,
                self._clock.now() + seconds,
            )
        )

    def _answer(
        self, header: PullMessageRequestHeader, request: RemotingCommand, result: GetResult, code: int
    ) -> bytes:
        if result.status is _FOUND:
            self._stats.count_get(header.topic, header.consumer_group, result.count, result.size)
        head = pull_answer_head(
            request,
            code,
            result.status.value,
            0,  # which broker to ask next: the master, as long as there are no slaves
            result.next_offset,
            result.min_offset,
            result.max_offset,
            result.size,
        )
        return b"".join((head, *result.views))


def _code(result: GetResult, header: PullMessageRequestHeader) -> int:
    code = _CODES.get(result.status)
    if code is not None:
        return code
    # No such queue, or nothing in it: only who begins at 0 is in the right place.
    return ResponseCode.PULL_OFFSET_MOVED if header.queue_offset else ResponseCode.PULL_NOT_FOUND


def _expression_codes(header: PullMessageRequestHeader) -> Codes:
    """Return what the expression in the pull itself says is wanted."""
    if header.expression_type not in TAG_TYPES:
        raise _only_tags(header.expression_type)
    return _tag_codes(header.subscription)


@lru_cache(maxsize=1024)
def _tag_codes(expression: str | None) -> Codes:
    try:
        tags = parse_tags(expression)
    except LocalProtocolError as error:
        raise BrokerError(str(error), ResponseCode.SUBSCRIPTION_PARSE_FAILED) from None
    return None if tags.everything else tags.codes


def _only_tags(expression_type: str | None) -> BrokerError:
    return BrokerError(f"filtering by {expression_type} is not supported yet by this broker; tags are")
