"""Express: the short way for plain sends, which is most of them: one frame from a template, one future.

Plain is a message without properties of its own, not too large, to any queue of its topic, from a producer without
hooks, over a connection that is ready. The first message of each kind, and every one that is not plain, takes the
general way (Outbox, Delivery), which puts the same bytes on the wire; so does every further attempt after a failure.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from msgspec import Struct

from pyromq.client.net.calls.broker_api import read_sent
from pyromq.client.send.delivery import Delivery
from pyromq.client.send.in_flight import InFlightLimit
from pyromq.client.send.prepare import MessagePreparer
from pyromq.client.send_result import SendResult
from pyromq.clock import Clock
from pyromq.errors import PyroMQError
from pyromq.protocol.command import RemotingCommand
from pyromq.protocol.frame_templates import SendFrames, SignedSendFrames
from pyromq.protocol.headers import encode_json
from pyromq.protocol.messages.message import Message, MessageQueue
from pyromq.protocol.messages.properties import KEYS, NAME_VALUE_SEPARATOR, PROPERTY_SEPARATOR
from pyromq.protocol.names import TBW102

_MAX_KINDS = 1000
_LONGEST_KEYS = 1000  # these, and tags, stay far below what a record can hold: no need to count bytes
_LONGEST_TAGS = 1000

_Departure = tuple[asyncio.Future[RemotingCommand], MessageQueue, str, int]
"""The future of the answer; the queue, the message's id and the time it was made."""


class _Kind(Struct, frozen=True, gc=False):
    """What messages of one topic and tag have in common."""

    topic: str
    frames: SendFrames
    properties: bytes
    """JSON of all properties, from the quotation mark on to where the message's id begins."""


class FastSend:
    """Sends for one producer; what is larger than `largest` bytes goes the general way."""

    def __init__(
        self,
        delivery: Delivery,
        preparer: MessagePreparer,
        in_flight: InFlightLimit,
        clock: Clock,
        *,
        timeout: float,
        largest: int,
    ) -> None:
        self._delivery = delivery
        self._guard = delivery.instance.guard
        self._preparer = preparer
        self._in_flight = in_flight
        self._clock = clock
        self._timeout = timeout
        self._largest = largest
        self._routes = delivery.instance.routes
        self._remoting = delivery.instance.api.remoting
        self._kinds: dict[tuple[str, str | None, bool], _Kind] = {}

    async def send(self, message: Message) -> SendResult:
        """Send a message to any queue of its topic."""
        size = len(message.body)
        if not self._in_flight.try_enter(size):
            await self._in_flight.enter(size)
        try:
            departure = self.depart(message)
            if departure is None:
                return await self._send_the_general_way(message)
            future, queue, message_id, now_ms = departure
            outcome: SendResult | PyroMQError
            try:
                outcome = self._delivery.result(queue, message_id, read_sent(await future))
                if self._delivery.is_final(outcome):
                    return outcome
            except PyroMQError as error:
                outcome = error
            outgoing = self._preparer.prepare(message, made=(message_id, now_ms))
            return await self._delivery.send_anywhere(outgoing, self._timeout, (queue, outcome))
        finally:
            self._in_flight.leave(size)

    def depart(self, message: Message) -> _Departure | None:
        """Send a message that is plain, if the way is open."""
        try:
            kind = self._kinds.get((message.topic, message.tags, message.wait))
        except TypeError:  # a list of tags, say: the general way has words for it
            return None
        if kind is None or message.properties or message.flag or not 0 < len(message.body) <= self._largest:
            return None
        properties = _with_keys(message.keys, kind.properties) if message.keys else kind.properties
        if self._guard.forked:
            self._guard.check()
        info = self._routes.publish_info(kind.topic)
        if info is None or properties is None:
            return None
        queue = info.next()
        connection = self._remoting.ready(self._routes.master(queue.broker_name))
        if connection is None:
            info.give_back()  # the general way begins with the same queue
            return None
        now_ms = self._clock.now_ms()
        message_id = self._preparer.new_id(now_ms)
        opaque, future = connection.open_request(SendFrames.code, self._timeout)
        text = properties + message_id.encode() + b'"'
        connection.send(kind.frames.frame(opaque, queue.queue_id, now_ms, text, message.body))
        return future, queue, message_id, now_ms

    async def _send_the_general_way(self, message: Message) -> SendResult:
        self._guard.check()
        outgoing = self._preparer.prepare(message)  # checks what all messages of this kind share
        if not message.properties and len(message.tags or "") <= _LONGEST_TAGS:
            self._remember(message, outgoing.topic)
        await self._preparer.compress(outgoing)
        return await self._delivery.send_anywhere(outgoing, self._timeout)

    def _remember(self, message: Message, topic: str) -> None:
        if (message.topic, message.tags, message.wait) in self._kinds:
            return
        if len(self._kinds) >= _MAX_KINDS:
            self._kinds.clear()
        bare = Message(topic=message.topic, body=b"-", tags=message.tags, wait=message.wait)
        sample = self._preparer.prepare(bare)
        self._kinds[message.topic, message.tags, message.wait] = _Kind(
            topic,
            self._frames(topic),
            encode_json(sample.properties.removesuffix(sample.message_id))[:-1],
        )

    def _frames(self, topic: str) -> SendFrames:
        rules, credentials = self._delivery.rules, self._remoting.credentials
        if credentials is None:
            return SendFrames(rules.group, topic, TBW102, rules.topic_queues)
        return SignedSendFrames(rules.group, topic, TBW102, rules.topic_queues, credentials)


def _with_keys(keys: Sequence[str], properties: bytes) -> bytes | None:
    """Return the JSON with keys put first; None for keys that need a closer look."""
    try:
        text = " ".join(keys)
    except TypeError:
        return None
    if not (text.isascii() and text.isprintable() and len(text) <= _LONGEST_KEYS):
        return None
    if "" in keys or text.count(" ") != len(keys) - 1:
        return None
    return encode_json(f"{KEYS}{NAME_VALUE_SEPARATOR}{text}{PROPERTY_SEPARATOR}")[:-1] + properties[1:]
