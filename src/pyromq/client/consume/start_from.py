"""Where reading starts in a queue for which a group has no committed offset."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pyromq.client.net.calls.answers import PullStatus
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.errors import ClientError
from pyromq.protocol.bodies import ConsumeFromWhere
from pyromq.protocol.codes import PULL_SUBSCRIPTION_FLAG
from pyromq.protocol.headers.pull import PullMessageRequestHeader
from pyromq.protocol.messages.record import decode_messages
from pyromq.protocol.tag_filter import EVERYTHING, TAG

StartFrom = Literal["latest", "earliest", "last", "first"] | datetime
StartPoint = Literal["latest", "earliest"] | int
"""A checked StartFrom; a number is a time in milliseconds."""

_PULL_TIMEOUT = 10.0
_ALIASES: dict[str, Literal["latest", "earliest"]] = {
    "latest": "latest",
    "last": "latest",
    "earliest": "earliest",
    "first": "earliest",
}


def check_start_from(start_from: StartFrom) -> StartPoint:
    """Return a checked `start_from`; raise ClientError if it is not valid."""
    if isinstance(start_from, datetime):
        return to_ms(start_from)
    if start_from not in _ALIASES:
        raise ClientError(f"start_from must be 'latest', 'earliest' or a datetime, not {start_from!r}")
    return _ALIASES[start_from]


def to_ms(time: datetime) -> int:
    """Return milliseconds since the epoch; a datetime without a zone is local time, as everywhere in Python."""
    return int(time.timestamp() * 1000)


def consume_from_where(start: StartPoint) -> ConsumeFromWhere:
    """Return RocketMQ's name for it, as used in heartbeats."""
    if start == "latest":
        return ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
    if start == "earliest":
        return ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
    return ConsumeFromWhere.CONSUME_FROM_TIMESTAMP


async def start_offset(api: BrokerApi, address: str, group: str, topic: str, queue_id: int, start: StartPoint) -> int:
    """Return the offset at which a new group starts."""
    if start == "latest":
        return await api.max_offset(address, topic, queue_id)
    if start == "earliest":
        return await api.min_offset(address, topic, queue_id)
    return await first_offset_since(api, address, group, topic, queue_id, start)


async def first_offset_since(
    api: BrokerApi, address: str, group: str, topic: str, queue_id: int, timestamp_ms: int
) -> int:
    """Return the offset of the first message stored at or after a time, the end of the queue if there is none.

    A broker's own search returns the nearest message, before or after, and any of those stored in the same
    millisecond. So search one millisecond earlier, then skip the few messages that are too old.
    """
    offset = await api.search_offset(address, topic, queue_id, timestamp_ms - 1)
    while True:
        header = plain_pull(group, topic, queue_id, offset)
        answer = await api.pull(address, header, timeout=_PULL_TIMEOUT)
        for message in decode_messages(answer.body, check_crc=False):
            if message.store_timestamp_ms >= timestamp_ms:
                return message.queue_offset
        if answer.status is PullStatus.NO_NEW_MESSAGE or answer.next_offset <= offset:
            return answer.next_offset
        offset = answer.next_offset


def plain_pull(group: str, topic: str, queue_id: int, offset: int, most: int = 32) -> PullMessageRequestHeader:
    """Return the header of a pull of any messages, which neither waits nor commits."""
    return PullMessageRequestHeader(
        consumer_group=group,
        topic=topic,
        queue_id=queue_id,
        queue_offset=offset,
        max_msg_nums=most,
        sys_flag=PULL_SUBSCRIPTION_FLAG,
        commit_offset=0,
        suspend_timeout_millis=0,
        subscription=EVERYTHING,
        sub_version=0,
        expression_type=TAG,
    )
