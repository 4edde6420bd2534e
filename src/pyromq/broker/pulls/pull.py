"""PULL_MESSAGE (11): the checks in RocketMQ's order, the read, and waiting if there is nothing to read."""

from __future__ import annotations

import logging
from collections.abc import Collection
from functools import partial
from time import perf_counter

from msgspec.structs import replace

from pyromq.broker.config.broker_config import BrokerConfig
from pyromq.broker.parts import Parts
from pyromq.broker.pulls.long_polling import HeldPull, LongPolling
from pyromq.broker.pulls.plain_pulls import PlainPulls
from pyromq.broker.pulls.selection import MessageFilter, Selection
from pyromq.errors import BrokerError, NoPermission, StoreError
from pyromq.protocol.codes import (
    MASTER_ID,
    PERM_READ,
    PULL_COMMIT_OFFSET_FLAG,
    PULL_FORWARD_FLAG,
    PULL_SUSPEND_FLAG,
    ResponseCode,
)
from pyromq.protocol.command import RemotingCommand, SerializeType, response
from pyromq.protocol.frame_templates import pull_answer_head
from pyromq.protocol.headers.pull import PullMessageRequestHeader
from pyromq.remoting.connection import Connection
from pyromq.store.results import GetResult, GetStatus
from pyromq.store.segments import NotInMemory

logger = logging.getLogger(__name__)


MAX_COUNT = 65_536
MAX_SUSPEND = 300.0  # a longer wait would only hold memory for a client that has given up

_JSON = SerializeType.JSON
_FOUND = GetStatus.FOUND
_NOTHING_WANTED = (GetStatus.NO_MATCHED_MESSAGE, GetStatus.OFFSET_OVERFLOW_ONE)
_CODES = {
    GetStatus.FOUND: ResponseCode.SUCCESS,
    GetStatus.NO_MATCHED_MESSAGE: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.MESSAGE_WAS_REMOVING: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.OFFSET_FOUND_NULL: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_ONE: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_BADLY: ResponseCode.PULL_OFFSET_MOVED,
    GetStatus.OFFSET_TOO_SMALL: ResponseCode.PULL_OFFSET_MOVED,
}


class PullHandler:
    """Sends consumers the messages of a queue, now or when they arrive."""

    def __init__(self, parts: Parts) -> None:
        self.waiting = LongPolling(parts.clock, parts.config.max_held_pulls, self.resume)
        self._clock = parts.clock
        self._standing = parts.standing
        self._store = parts.store
        self._reads = parts.reads
        self._topics = parts.topics
        self._groups = parts.groups
        self._selection = Selection(parts)
        self._offsets = parts.offsets
        self._stats = parts.stats
        self._offset_moved = parts.offset_moved
        self._lives = parts.lives
        self.plain = PlainPulls(parts)
        parts.topics.changed.subscribe(self._topics_changed)
        self.configure(parts.config)

    def configure(self, config: BrokerConfig) -> None:
        """Apply settings, at the start and when they change."""
        self.is_readable = bool(config.permission & PERM_READ)
        """Whether the broker lets anybody read."""
        self.slave_read = config.slave_read
        """Whether consumers may be sent to a slave."""
        self._short_polling_time = None if config.long_polling else config.short_polling_time

    def _topics_changed(self, names: Collection[str] | None) -> None:
        for name in names or ():
            if name not in self._topics.by_name:
                self.waiting.resume_topic(name)

    def pull(self, request: RemotingCommand, connection: Connection) -> bytes | None:
        """Answer with messages, or hold the pull until one arrives."""
        header = request.header(PullMessageRequestHeader)
        wanted = self.check(header)
        if request.serialize is _JSON:
            suggest = self.suggested_broker(header.consumer_group, suggest_slave=False)
            answer = self.plain.answer(header, wanted, suggest, request.opaque, connection.peer)
            if answer is not None:
                return answer
        result = self._read(header, wanted)
        code = _code(result, header)
        if header.sys_flag & PULL_COMMIT_OFFSET_FLAG:
            self._commit(header, connection, result.max_offset)
        if code == ResponseCode.PULL_NOT_FOUND and header.sys_flag & PULL_SUSPEND_FLAG:
            self._hold(header, wanted, request, connection)
            return None
        return self._answer(header, request, result, code)

    def _commit(self, header: PullMessageRequestHeader, connection: Connection, end: int) -> None:
        forward = bool(header.sys_flag & PULL_FORWARD_FLAG)
        if forward and header.commit_offset > end:
            return  # the topic was deleted and recreated, and this client does not know yet
        self._offsets.commit(
            *(header.consumer_group, header.topic, header.queue_id, header.commit_offset, connection.peer),
            only_forward=forward,
        )

    def resume(self, held: HeldPull) -> None:
        """Answer a held pull with whatever there is now. No error may stop the others."""
        if held.connection.closed:
            return
        try:
            try:
                with self._store.disk.memory_only():
                    answer = self._answer_now(held.request, held.connection)
            except NotInMemory as error:
                self._reads.serve_later(self._answer_now, held.request, held.connection, error.missing)
                return
        except BrokerError as error:
            answer = response(held.request, error.code, error.remark).encode()
        except Exception as error:
            logger.exception("a held pull failed topic=%s queue=%d", *held.key)
            answer = response(held.request, ResponseCode.SYSTEM_ERROR, type(error).__name__).encode()
        held.connection.send(answer)

    def _answer_now(self, request: RemotingCommand, connection: Connection) -> bytes:
        """Answer a pull with whatever there is, and hold it no more."""
        header = request.header(PullMessageRequestHeader)
        result = self._read(header, self.check(header))
        return self._answer(header, request, result, _code(result, header))

    def check(self, header: PullMessageRequestHeader) -> MessageFilter:
        """Make every check that RocketMQ makes, in its order; return what is wanted."""
        if not self.is_readable:
            raise NoPermission("this broker has no read permission now (brokerPermission)")
        group = self._groups.find_or_create(header.consumer_group)
        if not group.consume_enable:
            raise NoPermission(f"consumer group {header.consumer_group} is not allowed to consume")
        topic = self._topics.find(header.topic)
        if not topic.readable:
            raise NoPermission(f"topic {header.topic} has no read permission")
        if not 0 <= header.queue_id < topic.read_queues:
            raise BrokerError(
                f"queue {header.queue_id} of topic {topic.name} does not exist, it has {topic.read_queues}"
            )
        self._lives.check(header.topic, header.pyromq_deleted_at)
        return self._selection.wanted(header, group)

    def _read(self, header: PullMessageRequestHeader, wanted: MessageFilter) -> GetResult:
        started = perf_counter()
        try:
            result = self._store.get(
                header.topic,
                header.queue_id,
                header.queue_offset,
                min(header.max_msg_nums, MAX_COUNT),
                max_bytes=header.max_bytes,
                codes=wanted.codes,
                wants=wanted.properties,
            )
        except StoreError as error:
            raise BrokerError(f"the store cannot be read: {error}") from error
        if result.status is _FOUND:
            read_ms = (perf_counter() - started) * 1000
            self._stats.count_get(header.topic, header.consumer_group, result.count, result.size, read_ms)
            return result
        self._stats.count_miss()
        return self._as_slave(header, result) if self._standing.is_slave() else result

    def _as_slave(self, header: PullMessageRequestHeader, result: GetResult) -> GetResult:
        """Return what a slave answers: it may lag, or keep less than its master, so it moves nobody to another offset.

        RocketMQ's slaves do not either. One whose master is away has all that there is of the past.
        """
        if result.status in (GetStatus.OFFSET_OVERFLOW_BADLY, GetStatus.NO_MESSAGE_IN_QUEUE):
            return replace(result, status=GetStatus.OFFSET_OVERFLOW_ONE, next_offset=header.queue_offset)
        if result.status is GetStatus.OFFSET_TOO_SMALL and self._standing.has_master():
            return replace(result, status=GetStatus.MESSAGE_WAS_REMOVING, next_offset=header.queue_offset)
        return result

    def _hold(
        self, header: PullMessageRequestHeader, wanted: MessageFilter, request: RemotingCommand, connection: Connection
    ) -> None:
        seconds = self._short_polling_time or min(header.suspend_timeout_millis / 1000, MAX_SUSPEND)
        self.waiting.hold(
            HeldPull(
                request,
                connection,
                (header.topic, header.queue_id),
                header.queue_offset,
                wanted.codes,
                self._clock.monotonic() + seconds,
                None if wanted.properties is None else partial(self._look_ahead, header, wanted),
                wanted,
            )
        )

    def _look_ahead(self, header: PullMessageRequestHeader, wanted: MessageFilter, offset: int) -> tuple[bool, int]:
        """Return whether a held pull wants a message from an offset on, and up to where this looked."""
        try:
            with self._store.disk.memory_only():
                result = self._store.get(
                    header.topic, header.queue_id, offset, 1, codes=wanted.codes, wants=wanted.properties
                )
        except NotInMemory:
            return True, offset  # the pull itself has it fetched
        except Exception:  # called within a commit of the store, which must not fail because of it
            logger.exception("looking for a held pull failed topic=%s queue=%d", header.topic, header.queue_id)
            return True, offset  # the pull itself reports the error
        return result.status not in _NOTHING_WANTED, result.next_offset

    def _answer(
        self, header: PullMessageRequestHeader, request: RemotingCommand, result: GetResult, code: int
    ) -> bytes:
        if code == ResponseCode.PULL_OFFSET_MOVED:
            self._offset_moved(header, result)
        head = pull_answer_head(
            request,
            code,
            result.status.value,
            self.suggested_broker(header.consumer_group, suggest_slave=result.suggest_slave),
            result.next_offset,
            result.min_offset,
            result.max_offset,
            result.size,
            self._lives.of(header.topic) if header.pyromq_deleted_at == -1 else None,
        )
        return b"".join((head, *result.views))

    def suggested_broker(self, group_name: str, *, suggest_slave: bool) -> int:
        """Return the id of the broker to ask next: a slave for messages that are probably not in memory any more."""
        if not self.slave_read:
            return MASTER_ID
        group = self._groups.find_or_create(group_name)
        return group.which_broker_when_consume_slowly if suggest_slave else group.broker_id


def _code(result: GetResult, header: PullMessageRequestHeader) -> int:
    code = _CODES.get(result.status)
    if code is not None:
        return code
    # No such queue, or it is empty: only offset 0 is right.
    return ResponseCode.PULL_OFFSET_MOVED if header.queue_offset else ResponseCode.PULL_NOT_FOUND
