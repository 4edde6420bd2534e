"""Offsets set from outside: resets that a group's members carry out (222), their progress (223), copies (314, 308)."""

from __future__ import annotations

import asyncio
import logging

from pyromq.broker.clients.client_registry import Client
from pyromq.broker.parts import Parts
from pyromq.broker.tables.consumer_offsets import check_new_group
from pyromq.broker.tools.consume_progress import QUEUES_A_STEP
from pyromq.errors import BrokerError, ConnectionLost, MalformedHeader, ProtocolError, RemotingError
from pyromq.protocol.bodies import (
    GetConsumerStatusBody,
    MessageQueueOffset,
    QueryCorrectionOffsetBody,
    ResetOffsetBody,
    ResetOffsetBodyForC,
    decode,
    encode,
)
from pyromq.protocol.bodies.json_steps import SMALL, encoding
from pyromq.protocol.codes import LanguageCode, RequestCode, ResponseCode
from pyromq.protocol.command import RemotingCommand, response
from pyromq.protocol.command import request as new_request
from pyromq.protocol.headers.admin import (
    RESET_TO_END,
    CloneGroupOffsetRequestHeader,
    InvokeBrokerToGetConsumerStatusRequestHeader,
    InvokeBrokerToResetOffsetRequestHeader,
    QueryCorrectionOffsetRequestHeader,
)
from pyromq.protocol.headers.clients import (
    GetConsumerStatusFromClientRequestHeader,
    ResetConsumerClientOffsetRequestHeader,
)
from pyromq.protocol.messages.message import MessageQueue
from pyromq.remoting.connection import Connection
from pyromq.remoting.slices import AnswerSteps, Steps

logger = logging.getLogger(__name__)

STATUS_TIMEOUT = 5.0
_OLDEST_CLIENT = 28  # version 3.0.7
_BEHIND = 2**63 - 1  # in place of an offset: the compared group is not as far

Targets = dict[MessageQueue, int]


class ResetHandlers:
    """Moves groups, on behalf of an administrator, to other offsets."""

    def __init__(self, parts: Parts) -> None:
        self._broker_name = parts.name
        self._clock = parts.clock
        self._store = parts.store
        self._topics = parts.topics
        self._offsets = parts.offsets
        self._clients = parts.clients

    # --- what members carry out

    def reset(self, request: RemotingCommand, connection: Connection) -> AnswerSteps:
        """Tell a group's members where to go on; they commit it themselves, and nobody does if none is online."""
        header = request.header(InvokeBrokerToResetOffsetRequestHeader)
        targets = yield from self._targets(header)
        members = self._members(header.group)
        if not members:
            raise BrokerError(f"no consumer of group {header.group} is online", ResponseCode.CONSUMER_NOT_ONLINE)
        answer = yield from encoding(ResetOffsetBody(targets))
        body = (yield from _for_cpp(targets)) if request.language is LanguageCode.CPP else answer
        order = ResetConsumerClientOffsetRequestHeader(
            topic=header.topic, group=header.group, timestamp=header.timestamp
        )
        for client in members:
            command = new_request(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, order, body, language=LanguageCode.JAVA)
            try:
                client.connection.oneway(command)
            except ConnectionLost:
                continue  # its queues go to the others
            yield
        logger.info("reset of offsets sent group=%s topic=%s by=%s", header.group, header.topic, connection.peer)
        return response(request, body=answer)

    def _targets(self, header: InvokeBrokerToResetOffsetRequestHeader) -> Steps[Targets]:
        """Return where each queue is to go on: by default never further ahead than the group is."""
        topic = self._topics.get(header.topic)
        if topic is None:
            raise BrokerError(f"topic {header.topic} does not exist on this broker")
        targets: Targets = {}
        for queue_id in range(topic.write_queues):
            current = self._offsets.get(header.group, topic.name, queue_id)
            if current is None:
                raise BrokerError(f"consumer group {header.group} has no offset of {topic.name} queue {queue_id}")
            wanted = self._offset_at(topic.name, queue_id, header.timestamp)
            queue = MessageQueue(topic.name, self._broker_name, queue_id)
            targets[queue] = wanted if header.is_force else min(wanted, current)
            if queue_id % QUEUES_A_STEP == 0:
                yield
        return targets

    def _offset_at(self, topic: str, queue_id: int, timestamp_ms: int) -> int:
        if timestamp_ms == RESET_TO_END:
            return self._store.max_offset(topic, queue_id)
        return max(self._store.offset_at(topic, queue_id, timestamp_ms), 0)

    def _members(self, name: str) -> list[Client]:
        group = self._clients.consumers.get(name)
        members = list(group.members.values()) if group else []
        for client in members:
            if client.version < _OLDEST_CLIENT:
                raise BrokerError(f"client {client.client_id} has version {client.version}, too old to be asked this")
        return members

    async def status(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Ask a group's members, or one of them, how far they are in a topic; who does not answer is left out."""
        header = request.header(InvokeBrokerToGetConsumerStatusRequestHeader)
        members = self._members(header.group)
        if not members:
            raise BrokerError(f"no consumer of group {header.group} is online")
        asked = [client for client in members if not header.client_addr or client.client_id == header.client_addr]
        question = GetConsumerStatusFromClientRequestHeader(topic=header.topic, group=header.group)
        answers = await asyncio.gather(*(_ask_status(client, question) for client in asked))
        table: dict[str, Targets] = {}
        for client, answer in zip(asked, answers, strict=True):
            offsets = _read_status(client, answer)
            if offsets is not None:
                table[client.client_id] = offsets
            await self._clock.sleep(0)
        return response(request, body=encode(GetConsumerStatusBody(consumer_table=table)))

    # --- what the broker does by itself

    def clone(self, request: RemotingCommand, connection: Connection) -> AnswerSteps:
        """Give one group the offsets of another, of one topic or of all that it still consumes."""
        header = request.header(CloneGroupOffsetRequestHeader)
        check_new_group(header.dest_group)
        for topic in [header.topic] if header.topic else self._offsets.topics_of(header.src_group):
            if topic in self._topics.by_name and (header.offline or self._consumes(header.src_group, topic)):
                self._offsets.clone(header.src_group, header.dest_group, topic, connection.peer)
                yield
        return response(request)

    def state(self, request: RemotingCommand) -> dict[str, dict[int, int]]:
        """Return the offsets, by topic and queue, of the group that a request moves, for the audit log."""
        if request.code == RequestCode.CLONE_GROUP_OFFSET:
            header = request.header(CloneGroupOffsetRequestHeader)
            group, topic = header.dest_group, header.topic
        else:
            order = request.header(InvokeBrokerToResetOffsetRequestHeader)
            group, topic = order.group, order.topic
        return {
            name: dict(self._offsets.of(group, name)) for name in ([topic] if topic else self._offsets.topics_of(group))
        }

    def correction(self, request: RemotingCommand, connection: Connection) -> AnswerSteps:
        """Return the lowest offsets that groups have of a topic, and where another group is even behind those."""
        header = request.header(QueryCorrectionOffsetRequestHeader)
        ignored = set((header.filter_groups or "").split(","))
        lowest: dict[int, int] = {}
        for group in self._offsets.groups_of(header.topic):
            if group not in ignored:
                for queue_id, offset in list(self._offsets.of(group, header.topic).items()):
                    if offset >= self._store.min_offset(header.topic, queue_id):
                        lowest[queue_id] = min(lowest.get(queue_id, offset), offset)
                    if queue_id % QUEUES_A_STEP == 0:
                        yield
        for queue_id, offset in self._offsets.of(header.compare_group, header.topic).items():
            if lowest.get(queue_id, offset) > offset:
                lowest[queue_id] = _BEHIND
        body = yield from encoding(QueryCorrectionOffsetBody(correction_offsets=lowest))
        return response(request, body=body)

    def _consumes(self, name: str, topic: str) -> bool:
        """Leave out what a group once consumed and, being online, no longer does."""
        group = self._clients.consumers.get(name)
        return group is None or topic in group.subscriptions


async def _ask_status(client: Client, header: GetConsumerStatusFromClientRequestHeader) -> bytes:
    """Return what a consumer says; nothing if it says nothing."""
    question = new_request(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, header, language=LanguageCode.JAVA)
    try:
        answer = await client.connection.request(question, STATUS_TIMEOUT)
    except RemotingError as error:
        logger.warning("a consumer did not say how far it is client=%s reason=%s", client.client_id, error)
        return b""
    return answer.body if answer.code == ResponseCode.SUCCESS else b""


def _read_status(client: Client, answer: bytes) -> Targets | None:
    if not answer:
        return None
    try:
        if len(answer) > SMALL:
            raise MalformedHeader(f"an answer of {len(answer)} bytes, the limit is {SMALL}")
        return decode(GetConsumerStatusBody, answer).message_queue_table
    except ProtocolError as error:
        logger.warning("a consumer did not say how far it is client=%s reason=%s", client.client_id, error)
        return None


def _for_cpp(targets: Targets) -> Steps[bytes]:
    rows = [
        MessageQueueOffset(queue.topic, queue.broker_name, queue.queue_id, offset) for queue, offset in targets.items()
    ]
    return (yield from encoding(ResetOffsetBodyForC(rows)))
