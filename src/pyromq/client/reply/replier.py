"""The replying side of request and reply: a listener replies through the broker that the request came from."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Generator
from typing import Any

from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.client.net.routes import Routes
from pyromq.client.send.prepare import MessagePreparer
from pyromq.clock import Clock
from pyromq.errors import ClientError
from pyromq.protocol.headers.send import SendMessageRequestHeaderV2
from pyromq.protocol.messages import properties as names
from pyromq.protocol.messages.message import MAX_BODY_SIZE, Message, MessageExt, MessageQueue
from pyromq.protocol.names import CLIENT_INNER_PRODUCER_GROUP, TBW102, reply_topic

REPLY_TIMEOUT = 10.0  # the broker waits as long for the requester
_COMPRESS_OVER = 4096
_COPIED = (names.CORRELATION_ID, names.REPLY_TO_CLIENT, names.TTL)


class Replier:
    """Sends replies on behalf of one consumer."""

    def __init__(self, api: BrokerApi, routes: Routes, clock: Clock) -> None:
        self._api = api
        self._routes = routes
        self._loop = asyncio.get_running_loop()
        self._preparer = MessagePreparer(
            clock, max_message_size=MAX_BODY_SIZE, compress_over=_COMPRESS_OVER, namespace=None
        )

    def __call__(self, request: MessageExt, body: bytes) -> Awaitable[None]:
        """Reply: as a coroutine on an event loop, at once on a listener's thread."""
        if _on_a_loop():
            return self._reply(request, body)
        asyncio.run_coroutine_threadsafe(self._reply(request, body), self._loop).result()
        return _Done()

    async def _reply(self, request: MessageExt, body: bytes) -> None:
        known = request.properties
        copied = {name: known[name] for name in _COPIED if name in known}
        if names.REPLY_TO_CLIENT not in copied or names.CORRELATION_ID not in copied:
            raise ClientError(f"message {request.message_id} is not a request: nobody waits for a reply")
        if names.CLUSTER not in known:
            raise ClientError(f"message {request.message_id} does not say which cluster it came from")
        prepared = self._preparer.prepare(
            Message(topic=reply_topic(known[names.CLUSTER]), body=body), system={names.MSG_TYPE: "reply", **copied}
        )
        await self._preparer.compress(prepared)
        # Through the broker that the request came from: the requester has announced itself there.
        address = await self._routes.find_master(MessageQueue(request.topic, request.broker_name or "", 0))
        header = SendMessageRequestHeaderV2(
            producer_group=CLIENT_INNER_PRODUCER_GROUP,
            topic=prepared.topic,
            default_topic=TBW102,
            default_topic_queue_nums=1,
            queue_id=0,
            sys_flag=prepared.sys_flag,
            born_timestamp=prepared.born_timestamp_ms,
            flag=prepared.flag,
            properties=prepared.properties,
            reconsume_times=0,
        )
        await self._api.send_reply(address, header, prepared.body, timeout=REPLY_TIMEOUT)


class _Done:
    """An awaitable that is already done."""

    def __await__(self) -> Generator[Any, None, None]:
        return
        yield


def _on_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
