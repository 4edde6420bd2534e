"""The requests that brokers send to a client, some of them on behalf of an operator's tool."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from typing import Protocol

from pyromq.client.reply.requester import PendingReplies, pushed_reply
from pyromq.clock import Clock
from pyromq.errors import BrokerError, MalformedHeader
from pyromq.protocol.bodies import (
    ConsumeMessageDirectlyResult,
    ConsumerData,
    ConsumerRunningInfo,
    GetConsumerStatusBody,
    ResetOffsetBody,
    ResetOffsetBodyForC,
    decode,
    encode,
)
from pyromq.protocol.codes import LanguageCode, RequestCode
from pyromq.protocol.command import RemotingCommand, response
from pyromq.protocol.headers.clients import (
    ConsumeMessageDirectlyRequestHeader,
    GetConsumerRunningInfoRequestHeader,
    GetConsumerStatusFromClientRequestHeader,
    NotifyConsumerIdsChangedRequestHeader,
    ResetConsumerClientOffsetRequestHeader,
)
from pyromq.protocol.headers.send import PushReplyMessageToClientRequestHeader
from pyromq.protocol.headers.transactions import CheckTransactionStateRequestHeader
from pyromq.protocol.messages.message import MessageExt, MessageQueue
from pyromq.protocol.messages.properties import PRODUCER_GROUP
from pyromq.protocol.messages.record import decode_messages
from pyromq.remoting.connection import Connection
from pyromq.remoting.requests import Handler

_MOST_TASKS = 500
_DEEPEST = 50


def python_stacks() -> str:
    """Return the stacks of all threads and tasks as text, like a thread dump of a JVM."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    parts = [
        f'"{names.get(ident, "?")}" thread {ident}\n{"".join(traceback.format_stack(frame, _DEEPEST))}'
        for ident, frame in sys._current_frames().items()
    ]
    tasks = sorted(asyncio.all_tasks(), key=lambda task: task.get_name())
    parts += [_task_stack(task) for task in tasks[:_MOST_TASKS]]
    if len(tasks) > _MOST_TASKS:
        parts.append(f"and {len(tasks) - _MOST_TASKS} more tasks\n")
    return "\n".join(parts)


def _task_stack(task: asyncio.Task[object]) -> str:
    lines = [f'"{task.get_name()}" task\n']
    waiting: object = task.get_coro()
    for _ in range(_DEEPEST):  # asyncio itself shows only the outermost coroutine
        frame = getattr(waiting, "cr_frame", None)
        if frame is None:
            break
        lines += traceback.format_stack(frame, limit=1)
        waiting = getattr(waiting, "cr_await", None)
    return "".join(lines)


logger = logging.getLogger(__name__)

TransactionCheck = Callable[[MessageExt, CheckTransactionStateRequestHeader, Connection], None]
"""Takes a broker's question about a transaction; the answer comes later, on the same connection."""


class GroupMember(Protocol):
    """A consumer, as its client instance sees it."""

    def consumer_data(self) -> ConsumerData:
        """Return its part of a heartbeat."""

    def members_changed(self) -> None:
        """Called when a member joined or left its group."""

    def connection_lost(self, address: str) -> None:
        """Called when the connection to a broker was lost: that may have been restarted, and know nothing any more."""

    def progress(self, topic: str) -> dict[MessageQueue, int]:
        """Return the offsets that it has reached."""

    def running_info(self) -> ConsumerRunningInfo:
        """Return its state, for operators."""

    async def reset_offsets(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Continue at these offsets, in the queues that it has."""

    async def consume_directly(self, message: MessageExt) -> ConsumeMessageDirectlyResult:
        """Pass one message to the listener, apart from all others, and return the result."""


class ClientRequests:
    """Handles the requests that brokers send to one client: about consumers, transactions, and replies."""

    def __init__(
        self,
        consumers: Mapping[str, GroupMember],
        replies: PendingReplies,
        checks: Mapping[str, TransactionCheck],
        clock: Clock,
    ) -> None:
        self._consumers = consumers
        self._replies = replies
        self._checks = checks
        self._clock = clock

    def handlers(self) -> dict[int, Handler]:
        """Return the handler of each request code."""
        return {
            RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: self.members_changed,
            RequestCode.RESET_CONSUMER_CLIENT_OFFSET: self.reset_offsets,
            RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: self.progress,
            RequestCode.GET_CONSUMER_RUNNING_INFO: self.running_info,
            RequestCode.CONSUME_MESSAGE_DIRECTLY: self.consume_directly,
            RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT: self.reply,
            RequestCode.CHECK_TRANSACTION_STATE: self.check_transaction,
        }

    def members_changed(self, command: RemotingCommand, connection: Connection) -> None:
        """Rebalance the member's queues."""
        member = self._consumers.get(command.header(NotifyConsumerIdsChangedRequestHeader).consumer_group)
        if member is not None:
            member.members_changed()

    async def reset_offsets(self, command: RemotingCommand, connection: Connection) -> None:
        """Move the member to other offsets; there is no answer."""
        member = self._consumers.get(command.header(ResetConsumerClientOffsetRequestHeader).group)
        if member is not None:
            await member.reset_offsets(_offset_table(command.body))

    def progress(self, command: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Answer with the offsets that a member has reached in a topic."""
        header = command.header(GetConsumerStatusFromClientRequestHeader)
        member = self._consumers.get(header.group)
        table = {} if member is None else member.progress(header.topic)
        return _answer(command, encode(GetConsumerStatusBody(message_queue_table=table)))

    def running_info(self, command: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Answer with the state of a member, and with the stacks of all threads and tasks if requested."""
        header = command.header(GetConsumerRunningInfoRequestHeader)
        info = self._member(header.consumer_group).running_info()
        if header.jstack_enable:
            info.jstack = python_stacks()
        return _answer(command, encode(info))

    async def consume_directly(self, command: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Pass one message to a member's listener and answer with the result."""
        header = command.header(ConsumeMessageDirectlyRequestHeader)
        member = self._member(header.consumer_group)
        messages = decode_messages(command.body, header.broker_name)
        if len(messages) != 1:
            raise BrokerError(f"expected one message, got {len(messages)}")
        return _answer(command, encode(await member.consume_directly(messages[0])))

    def reply(self, command: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Pass a reply to the request that waits for it."""
        header = command.header(PushReplyMessageToClientRequestHeader)
        self._replies.arrived(pushed_reply(header, command.body, self._clock.now_ms()))
        return _answer(command)

    def check_transaction(self, command: RemotingCommand, connection: Connection) -> None:
        """Ask a producer how a transaction ended; it answers later, by a request of its own."""
        header = command.header(CheckTransactionStateRequestHeader)
        for message in decode_messages(command.body):
            group = message.properties.get(PRODUCER_GROUP, "")
            check = self._checks.get(group)
            if check is None:
                logger.warning(
                    "a broker asks about a transaction of group=%s, which has no TransactionProducer here", group
                )
            else:
                check(message, header, connection)

    def _member(self, group: str) -> GroupMember:
        member = self._consumers.get(group)
        if member is None:
            raise BrokerError(f"this client has no consumer in the group {group}")
        return member


def _offset_table(body: bytes) -> dict[MessageQueue, int]:
    try:
        return decode(ResetOffsetBody, body).offset_table
    except MalformedHeader:  # the form for C++ clients, which brokers send to all members
        entries = decode(ResetOffsetBodyForC, body).offset_table
        return {MessageQueue(entry.topic, entry.broker_name, entry.queue_id): entry.offset for entry in entries}


def _answer(command: RemotingCommand, body: bytes = b"") -> RemotingCommand:
    answer = response(command, body=body)
    answer.language = LanguageCode.PYTHON
    return answer
