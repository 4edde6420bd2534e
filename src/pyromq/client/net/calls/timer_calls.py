"""Requests about timed messages: messages that wait at a broker for their delivery time."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

from pyromq.client.net.calls.base import BrokerCalls, broker_error
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

_NOT_WAITING = ResponseCode.ILLEGAL_OPERATION


class WaitingMessage(NamedTuple):
    """A timed message, as a cancellation names it: its topic and ids, and the broker where it waits."""

    topic: str
    broker_name: str
    message_id: str
    offset_message_id: str | None = None


class WaitingPage(Struct, frozen=True):
    """Some of the waiting messages in the order of their times, and where the next page begins."""

    messages: list[MessageExt]
    next: tuple[int, int]
    is_last: bool
    count: int
    """How many wait at this broker, of all topics."""


class TimerCalls(BrokerCalls):
    """Requests about timed messages. Only PyroMQ's brokers have a timer."""

    async def cancel_waiting(self, address: str, group: str, message: WaitingMessage) -> bool:
        """Cancel a message. Return True if it still waited; that it is cancelled is stored then."""
        header = RecallMessageRequestHeader(
            producer_group=group,
            topic=message.topic,
            recall_handle=encode_handle(RecallHandle(message.topic, message.broker_name, "0", message.message_id)),
            broker_name=message.broker_name,
            pyromq_offset_msg_id=message.offset_message_id,
        )
        answer = await self.call(address, request(RequestCode.RECALL_MESSAGE, header))
        if answer.code not in (ResponseCode.SUCCESS, _NOT_WAITING):
            raise broker_error(answer.code, answer.remark)
        return answer.code == ResponseCode.SUCCESS

    async def list_waiting(self, address: str, topic: str | None, after: tuple[int, int] = (-1, -1)) -> WaitingPage:
        """Return the next waiting messages of one topic, or of all; a page may be empty and not the last."""
        header = ListTimedMessagesRequestHeader(topic=topic, after_ms=after[0], after_offset=after[1], max_num=256)
        answer = await self.call(address, request(RequestCode.LIST_TIMED_MESSAGES, header))
        if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            raise NotSupported(f"broker {address} is not PyroMQ's: it has no timer")
        if answer.code != ResponseCode.SUCCESS:
            raise broker_error(answer.code, answer.remark)
        found = answer.header(ListTimedMessagesResponseHeader)
        messages = decode_messages(answer.body)
        return WaitingPage(messages, (found.next_ms, found.next_offset), found.is_last, found.count)
