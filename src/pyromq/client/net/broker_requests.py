"""The requests that brokers send to a client, some of them on behalf of an operator's tool."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from typing import Protocol

from pyromq.client.reply.pending_replies import PendingReplies, pushed_reply
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
from pyromq.remoting.connection import Connection, Handler

_MOST_TASKS = 500
_DEEPEST = 50


def python_stacks() -> str:
    """Return the stacks of all threads of the process and of all tasks of the running loop."""
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
    for _ in range(_DEEPEST):  # asyncio's own way shows the outermost coroutine only
        frame = getattr(waiting, "cr_frame", None)
        if frame is None:
            break
        lines += traceback.format_stack(frame, limit=1)
        waiting = getattr(waiting, "cr_await", None)
    return "".join(lines)


logger = logging.getLogger(__name__)

TransactionCheck = Callable[[MessageExt, CheckTransactionStateRequestHeader, Connection], None]
"""Hears which transaction a broker asks about, and answers later on the same connection."""


class GroupMember(Protocol):
    """A consumer, as the client it lives in sees it."""

    def consumer_data(self) -> ConsumerData:
        """Return what heartbeats say of it."""

    def members_changed(self) -> None:
        """Hear that someone joined or left its group."""

    def progress(self, topic: str) -> dict[MessageQueue, int]:
        """Return the offsets it has reached."""

    def running_info(self) -> ConsumerRunningInfo:
        """Return what goes on inside it."""

    async def reset_offsets(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Go on from these offsets, in the queues among them that it has."""

    async def consume_directly(self, message: MessageExt) -> ConsumeMessageDirectlyResult:
        """Give one message to the listener, beside all others, and tell how that ended."""


class ClientRequests:
    """Answers what brokers ask of the consumers and of the transactions, and takes in the replies, of one client."""

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
        """Return who answers which request."""
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
        """Have the member's queues shared out again."""
        member = self._consumers.get(command.header(NotifyConsumerIdsChangedRequestHeader).consumer_group)
        if member is not None:
            member.members_changed()

    async def reset_offsets(self, command: RemotingCommand, connection: Connection) -> None:
        """Have the member go on elsewhere; nothing is answered."""
        member = self._consumers.get(command.header(ResetConsumerClientOffsetRequestHeader).group)
        if member is not None:
            await member.reset_offsets(_offset_table(command.body))

    def progress(self, command: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Answer with the offsets a member has reached in a topic."""
        header = command.header(GetConsumerStatusFromClientRequestHeader)
        member = self._consumers.get(header.group)
        table = {} if member is None else member.progress(header.topic)
        return _answer(command, encode(GetConsumerStatusBody(message_queue_table=table)))

    def running_info(self, command: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Answer with what goes on inside a member, with the stacks of all threads and tasks if asked."""
        header = command.header(GetConsumerRunningInfoRequestHeader)
        info = self._member(header.consumer_group).running_info()
        if header.jstack_enable:
            info.jstack = python_stacks()
        return _answer(command, encode(info))

    async def consume_directly(self, command: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Give a member's listener one message and answer how that ended."""
        header = command.header(ConsumeMessageDirectlyRequestHeader)
        member = self._member(header.consumer_group)
        messages = decode_messages(command.body, header.broker_name)
        if len(messages) != 1:
            raise BrokerError(f"expected one message, and {len(messages)} came")
        return _answer(command, encode(await member.consume_directly(messages[0])))

    def reply(self, command: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Hand a reply to whoever waits for it."""
        header = command.header(PushReplyMessageToClientRequestHeader)
        self._replies.arrived(pushed_reply(header, command.body, self._clock.now_ms()))
        return _answer(command)

    def check_transaction(self, command: RemotingCommand, connection: Connection) -> None:
        """Have a producer say how a transaction ended; nothing is answered to the question itself."""
        header = command.header(CheckTransactionStateRequestHeader)
        for message in decode_messages(command.body):
            group = message.properties.get(PRODUCER_GROUP, "")
            check = self._checks.get(group)
            if check is None:
                logger.warning("asked about a transaction of group=%s, which has no TransactionProducer here", group)
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
    except MalformedHeader:  # the form that is meant for C++ clients goes to all members
        entries = decode(ResetOffsetBodyForC, body).offset_table
        return {MessageQueue(entry.topic, entry.broker_name, entry.queue_id): entry.offset for entry in entries}


def _answer(command: RemotingCommand, body: bytes = b"") -> RemotingCommand:
    answer = response(command, body=body)
    answer.language = LanguageCode.PYTHON
    return answer
