"""Replies: a request is a message whose answer comes back to the client that sent it, by a correlation id."""

from __future__ import annotations

import asyncio
import logging

from pyromq.errors import LocalProtocolError
from pyromq.protocol.headers.send import PushReplyMessageToClientRequestHeader
from pyromq.protocol.messages import properties as names
from pyromq.protocol.messages.hosts import IPV4_HOST_LENGTH, encode_host
from pyromq.protocol.messages.message import MessageExt
from pyromq.protocol.messages.properties import encode_properties, join_properties

logger = logging.getLogger(__name__)


class PendingReplies:
    """The requests of one client that have no reply yet."""

    def __init__(self) -> None:
        self._waiting: dict[str, asyncio.Future[MessageExt]] = {}

    def expect(self, correlation_id: str) -> asyncio.Future[MessageExt]:
        """Return the future of a reply; `forget` it when it is over."""
        future = self._waiting[correlation_id] = asyncio.get_running_loop().create_future()
        return future

    def forget(self, correlation_id: str) -> None:
        """Wait no more."""
        self._waiting.pop(correlation_id, None)

    def arrived(self, message: MessageExt) -> None:
        """Hand a reply to whoever waits for it; one that comes too late is dropped."""
        future = self._waiting.pop(message.properties.get(names.CORRELATION_ID, ""), None)
        if future is None:
            logger.warning("a reply came that nobody waits for message=%s", message.message_id)
        elif not future.done():
            future.set_result(message)


def pushed_reply(header: PushReplyMessageToClientRequestHeader, body: bytes, now_ms: int) -> MessageExt:
    """Return the message of a reply as a broker pushed it."""
    arrival = encode_properties({names.ARRIVE_TIME: str(now_ms)})
    return MessageExt(
        topic=header.topic,
        stored_body=body,
        raw_properties=join_properties((header.properties or "").encode(), arrival.encode()),
        queue_id=header.queue_id,
        flag=header.flag,
        sys_flag=header.sys_flag,
        born_timestamp_ms=header.born_timestamp,
        raw_born_host=_host(header.born_host),
        store_timestamp_ms=header.store_timestamp,
        raw_store_host=_host(header.store_host),
        reconsume_times=header.reconsume_times or 0,
    )


def _host(text: str) -> bytes:
    host, _, port = text.removeprefix("/").rpartition(":")  # Java writes `/ip:port`
    try:
        return encode_host(host.strip("[]"), int(port))
    except (ValueError, LocalProtocolError):
        return bytes(IPV4_HOST_LENGTH)
