"""Requests: a message that asks for a reply, and the wait for it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from uuid import uuid4

from pyromq.client.net.instance import ClientInstance
from pyromq.client.send_result import SendResult
from pyromq.clock import wait_for
from pyromq.errors import RequestTimeout
from pyromq.protocol.messages import properties as names
from pyromq.protocol.messages.message import MessageExt

Send = Callable[[Mapping[str, str], float], Awaitable[SendResult]]
"""Sends the request with these properties, within so many seconds."""


async def ask(instance: ClientInstance, timeout: float, send: Send) -> MessageExt:
    """Send a request and return its reply; raises RequestTimeout if the request is stored and no reply came in time."""
    clock = instance.clock
    deadline = clock.now() + timeout
    correlation_id = str(uuid4())
    asking = {
        names.CORRELATION_ID: correlation_id,
        names.REPLY_TO_CLIENT: instance.client_id,
        names.TTL: str(int(timeout * 1000)),
    }
    reply = instance.replies.expect(correlation_id)
    try:
        stored = await send(asking, timeout)
        try:
            return await wait_for(clock, reply, deadline - clock.now())
        except TimeoutError:
            text = f"no reply within {timeout:g} s; the request {stored.message_id} is stored in {stored.queue}"
            raise RequestTimeout(text) from None
    finally:
        instance.replies.forget(correlation_id)
