"""The requesting side of request and reply: a message that asks for a reply, and the wait for it.

The broker pushes the reply to the client that asked; a correlation id tells which request it answers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from uuid import uuid4

from pyromq.client.send_result import SendResult
from pyromq.clock import Clock, wait_for
from pyromq.errors import LocalProtocolError, RequestTimeout
from pyromq.protocol.headers.send import PushReplyMessageToClientRequestHeader
from pyromq.protocol.messages import properties as names
from pyromq.protocol.messages.hosts import IPV4_HOST_LENGTH, encode_host
from pyromq.protocol.messages.message import MessageExt
from pyromq.protocol.messages.properties import encode_properties, join_properties

logger = logging.getLogger(__name__)

SendRequest = Callable[[Mapping[str, str], float], Awaitable[SendResult]]
"""Sends the request with these properties, within so many seconds."""


class PendingReplies:
    """The requests of one client that have no reply yet."""

    def __init__(self, client_id: str, clock: Clock) -> None:
        self._client_id = client_id
        self._clock = clock
        self._waiting: dict[str, asyncio.Future[MessageExt]] = {}

    async def request(self, timeout: float, send: SendRequest) -> MessageExt:
        """Send a request and return its reply; raises RequestTimeout if it is stored and no reply came in time."""
        deadline = self._clock.monotonic() + timeout
        correlation_id = str(uuid4())
        asking = {
            names.CORRELATION_ID: correlation_id,
            names.REPLY_TO_CLIENT: self._client_id,
            names.TTL: str(int(timeout * 1000)),
        }
        reply = self._waiting[correlation_id] = asyncio.get_running_loop().create_future()
        try:
            stored = await send(asking, timeout)
            try:
                return await wait_for(self._clock, reply, deadline - self._clock.monotonic())
            except TimeoutError:
                text = f"no reply within {timeout:g} s; the request {stored.message_id} is stored in {stored.queue}"
                raise RequestTimeout(text) from None
        finally:
            self._waiting.pop(correlation_id, None)

    def arrived(self, message: MessageExt) -> None:
        """Pass a reply to the request that waits for it; drop it if none does any more."""
        future = self._waiting.pop(message.properties.get(names.CORRELATION_ID, ""), None)
        if future is None:
            logger.warning("no request waits for the reply message=%s", message.message_id)
        elif not future.done():
            future.set_result(message)


def pushed_reply(header: PushReplyMessageToClientRequestHeader, body: bytes, now_ms: int) -> MessageExt:
    """Return a reply that a broker pushed, as a message."""
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
