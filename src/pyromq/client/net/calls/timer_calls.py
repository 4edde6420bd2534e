"""What is asked of a broker about messages that wait for their time; only PyroMQ's brokers can be asked."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

from pyromq.client.net.calls.base import CALL_TIMEOUT, broker_error
from pyromq.client.net.heartbeats import Heartbeats
from pyromq.errors import NotSupported
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import request
from pyromq.protocol.headers.timed_messages import (
    ListTimedMessagesRequestHeader,
    ListTimedMessagesResponseHeader,
    RecallMessageRequestHeader,
)
from pyromq.protocol.messages.message import MessageExt
from pyromq.protocol.messages.message_id import RecallHandle, encode_handle
from pyromq.protocol.messages.record import decode_messages
from pyromq.remoting.client import RemotingClient

_NOT_WAITING = ResponseCode.ILLEGAL_OPERATION


class WaitingMessage(NamedTuple):
    """A message that can be cancelled: its topic and ids, and the broker on which it waits."""

    topic: str
    broker_name: str
    message_id: str
    offset_message_id: str | None = None


class WaitingPage(Struct, frozen=True):
    """Some of the messages that wait, in order of their time, and where the next ones begin."""

    messages: list[MessageExt]
    next: tuple[int, int]
    is_last: bool
    count: int
    """How many wait on this broker, of all topics."""


async def require_timer(heartbeats: Heartbeats, address: str) -> None:
    """Raise NotSupported unless a broker is PyroMQ's: others would deliver a timed message at once."""
    hello = heartbeats.brokers.get(address) or await heartbeats.greet(address)
    if hello.pyromq is None:
        raise NotSupported(f"broker {address} is not PyroMQ's: it has no timer for any delay, only levels (level=)")


async def cancel_waiting(remoting: RemotingClient, address: str, group: str, message: WaitingMessage) -> bool:
    """Cancel a message; return whether it still waited. When it did, that it is cancelled is stored."""
    header = RecallMessageRequestHeader(
        producer_group=group,
        topic=message.topic,
        recall_handle=encode_handle(RecallHandle(message.topic, message.broker_name, "0", message.message_id)),
        broker_name=message.broker_name,
        pyromq_offset_msg_id=message.offset_message_id,
    )
    answer = await remoting.request(address, request(RequestCode.RECALL_MESSAGE, header), CALL_TIMEOUT)
    if answer.code not in (ResponseCode.SUCCESS, _NOT_WAITING):
        raise broker_error(answer.code, answer.remark)
    return answer.code == ResponseCode.SUCCESS


async def list_waiting(
    remoting: RemotingClient, address: str, topic: str | None, after: tuple[int, int] = (-1, -1)
) -> WaitingPage:
    """Return the next messages that wait on a broker, of one topic or of all; a page may be empty and not the last."""
    header = ListTimedMessagesRequestHeader(topic=topic, after_ms=after[0], after_offset=after[1], max_num=256)
    answer = await remoting.request(address, request(RequestCode.LIST_TIMED_MESSAGES, header), CALL_TIMEOUT)
    if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
        raise NotSupported(f"broker {address} is not PyroMQ's: it has no timer")
    if answer.code != ResponseCode.SUCCESS:
        raise broker_error(answer.code, answer.remark)
    found = answer.header(ListTimedMessagesResponseHeader)
    messages = decode_messages(answer.body)
    return WaitingPage(messages, (found.next_ms, found.next_offset), found.is_last, found.count)
