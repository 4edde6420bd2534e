"""Requests about offsets: what groups have committed, where queues begin and end, a message by physical offset."""

from __future__ import annotations

from pyromq.access.account import SUB
from pyromq.access.message_topic import message_topic
from pyromq.broker.parts import Parts
from pyromq.broker.tables.consumer_offsets import check_new_group
from pyromq.errors import BrokerError, QueryNotFound, StoreError
from pyromq.protocol.bodies import DelayOffsetSerializeWrapper, encode
from pyromq.protocol.command import RemotingCommand, response
from pyromq.protocol.headers.offsets import (
    GetEarliestMsgStoretimeRequestHeader,
    GetEarliestMsgStoretimeResponseHeader,
    GetMaxOffsetRequestHeader,
    GetMaxOffsetResponseHeader,
    GetMinOffsetRequestHeader,
    GetMinOffsetResponseHeader,
    QueryConsumerOffsetRequestHeader,
    QueryConsumerOffsetResponseHeader,
    SearchOffsetByTimestampRequestHeader,
    SearchOffsetByTimestampResponseHeader,
    UpdateConsumerOffsetRequestHeader,
)
from pyromq.protocol.headers.pull import ViewMessageByIdRequestHeader
from pyromq.remoting.connection import Connection
from pyromq.remoting.slices import AnswerSteps


class OffsetHandlers:
    """Answers requests about offsets, and accepts commits."""

    def __init__(self, parts: Parts) -> None:
        self._access = parts.access
        self._access_log = parts.access_log
        self._store = parts.store
        self._topics = parts.topics
        self._groups = parts.groups
        self._offsets = parts.offsets
        self._delays = parts.tables.delays
        self._lives = parts.lives

    def query(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Return the committed offset of a group; 0 for a young queue that it has never read."""
        header = request.header(QueryConsumerOffsetRequestHeader)
        offset = self._offsets.get(header.consumer_group, header.topic, header.queue_id)
        if offset is None:
            if not self._is_young(header.topic, header.queue_id):
                raise QueryNotFound(f"{header.consumer_group} has no offset in {header.topic} queue {header.queue_id}")
            offset = 0
        life = self._lives.of(header.topic)
        return response(
            request, header=QueryConsumerOffsetResponseHeader(offset=offset, pyromq_deleted_at=life or None)
        )

    def update(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Commit the offset of a group."""
        header = request.header(UpdateConsumerOffsetRequestHeader)
        reset = None
        if header.pyromq_reset and self._access_log is not None:
            reset = self._access_log.started("offsets", request, connection, self._committed)
        if self._may_commit(header):
            self._offsets.commit(
                *(header.consumer_group, header.topic, header.queue_id, header.commit_offset, connection.peer),
                only_forward=bool(header.pyromq_forward),
            )
        answer = response(request)
        if reset is not None:
            reset.note(answer)
        return answer

    def _committed(self, request: RemotingCommand) -> int | None:
        """Return what a commit changes, for the audit log."""
        header = request.header(UpdateConsumerOffsetRequestHeader)
        return self._offsets.get(header.consumer_group, header.topic, header.queue_id)

    def search(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Return the queue offset of the message stored nearest to a time."""
        header = request.header(SearchOffsetByTimestampRequestHeader)
        offset = self._store.offset_at(header.topic, header.queue_id, header.timestamp)
        return response(request, header=SearchOffsetByTimestampResponseHeader(offset=offset))

    def maximum(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Return the offset that the queue's next message will get."""
        header = request.header(GetMaxOffsetRequestHeader)
        offset = self._store.max_offset(header.topic, header.queue_id)
        return response(request, header=GetMaxOffsetResponseHeader(offset=offset))

    def minimum(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Return the offset of the queue's first message."""
        header = request.header(GetMinOffsetRequestHeader)
        offset = self._store.min_offset(header.topic, header.queue_id)
        return response(request, header=GetMinOffsetResponseHeader(offset=offset))

    def earliest_time(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Return when the queue's first message was stored."""
        header = request.header(GetEarliestMsgStoretimeRequestHeader)
        timestamp = self._store.earliest_time(header.topic, header.queue_id)
        return response(request, header=GetEarliestMsgStoretimeResponseHeader(timestamp=timestamp))

    def view(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Return one stored message."""
        offset = request.header(ViewMessageByIdRequestHeader).offset
        try:
            record = self._store.read(offset) if offset < self._store.confirm_offset else None
        except StoreError as error:
            raise BrokerError(f"no message at physical offset {offset}: {error}") from None
        if record is None:
            raise BrokerError(f"no message at physical offset {offset}")
        self._access.need(request, connection, SUB, message_topic(record))
        return response(request, body=bytes(record))

    def all_committed(self, request: RemotingCommand, connection: Connection) -> AnswerSteps:
        """Return the committed offsets of all groups, or a part of them, for slaves and tools."""
        return self._offsets.parts.answer(request)

    def delay_progress(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Return the next entry to deliver of each delay level, as far as deliveries are durable."""
        return response(request, body=encode(DelayOffsetSerializeWrapper(offset_table=self._delays.saved.offsets)))

    def _is_young(self, topic: str, queue_id: int) -> bool:
        """Return True if a queue still has its first message and that is near enough to the end of the log."""
        if self._store.min_offset(topic, queue_id) > 0:
            return False
        return not self._store.get(topic, queue_id, 0, 1).suggest_slave

    def _may_commit(self, header: UpdateConsumerOffsetRequestHeader) -> bool:
        """Return True if the queue exists: otherwise a client could fill the table with names it invents.

        A group that does not exist is created, as by a pull; raise GroupNotFound if that is not allowed.

        PyroMQ's clients also want the offset to exist, and in the life of the topic that they have read: they may not
        know yet that it was deleted and recreated. What a slave passes on may be older than a reset here.
        """
        topic = self._topics.get(header.topic)
        if topic is None or not self._lives.is_current(header.topic, header.pyromq_deleted_at):
            return False
        if not self._offsets.is_since(header.consumer_group, header.topic, header.pyromq_last_reset):
            return False
        if header.pyromq_forward and header.commit_offset > self._store.max_offset(header.topic, header.queue_id):
            return False
        if self._offsets.get(header.consumer_group, header.topic, header.queue_id) is not None:
            return True
        if not 0 <= header.queue_id < topic.queues:
            return False
        check_new_group(header.consumer_group)
        self._groups.find_or_create(header.consumer_group)
        return True
