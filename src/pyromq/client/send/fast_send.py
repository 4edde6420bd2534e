"""FastSend: a shortcut for plain messages, which most are: one frame from a template, one future.

A message is plain if it has no properties of its own, is not large, may go to any queue, and comes from a producer
without hooks; its connection must be open. The first message of each kind, every other message, and every retry take
the general path (MessagePreparer, Delivery), which puts the same bytes on the wire.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from msgspec import Struct

from pyromq.client.net.calls.broker_api import read_sent
from pyromq.client.send.delivery import Delivery
from pyromq.client.send.in_flight import InFlightLimit
from pyromq.client.send.prepare import MessagePreparer, not_a_message, plain_keys
from pyromq.client.send_result import Promise, SendResult
from pyromq.clock import Clock
from pyromq.errors import ClientError, PyroMQError, RemotingError
from pyromq.protocol.command import RemotingCommand
from pyromq.protocol.frame_templates import SendFrames, SignedSendFrames
from pyromq.protocol.headers import encode_json
from pyromq.protocol.messages.message import Message, MessageQueue
from pyromq.protocol.names import TBW102
from pyromq.remoting.held_bytes import LARGE
from pyromq.remoting.outstanding import AnswerWaiter

_MAX_TEMPLATES = 1000
_LONGEST_TAGS = 1000  # far below the limit of a record: no need to count bytes

_Sent = tuple[MessageQueue, str, int, float]
"""The queue, the message's id and its time of birth; the monotonic time of the send."""


class _Template(Struct, frozen=True, gc=False):
    """What all messages of one topic and tag have in common."""

    topic: str
    frames: SendFrames
    properties: bytes
    """JSON of all properties, from the opening quote up to the message's id."""


class _Unanswered:
    """A message that was sent without a task: its connection passes it the answer, as it would to a future."""

    __slots__ = ("fast_send", "message", "promise", "sent")

    def __init__(self, fast_send: FastSend, message: Message, promise: Promise) -> None:
        self.fast_send = fast_send
        self.message = message
        self.promise = promise
        self.sent: _Sent | None = None

    def done(self) -> bool:
        return False  # it cannot be taken back

    def set_result(self, answer: RemotingCommand | RemotingError, /) -> None:
        if self.sent is not None:  # else it was never sent
            self.fast_send.answered(self.message, self.sent, self.promise, answer)

    set_exception = set_result


class FastSend:
    """Sends for one producer; messages larger than `largest` bytes take the general path."""

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
        self._remoting = delivery.instance.api.remoting
        self._signs = self._remoting.credentials is not None
        self._templates: dict[tuple[str, str | None, bool], _Template] = {}
        self._retries: set[asyncio.Task[SendResult]] = set()
        self._loop = asyncio.get_running_loop()

    async def send(self, message: Message) -> SendResult:
        """Send a message to any queue of its topic."""
        try:
            size = len(message.body)
        except AttributeError:
            raise not_a_message(message) from None
        if not self._in_flight.try_enter(size):
            await self._in_flight.enter(size)
        try:
            answer: asyncio.Future[RemotingCommand] = self._loop.create_future()
            sent = self.try_send(message, answer)
            if sent is None:
                return await self._send_generally(message)
            outcome: SendResult | PyroMQError
            try:
                outcome = self._delivery.result(sent[0], sent[1], read_sent(await answer))
                if self._delivery.is_final(outcome):
                    return outcome
            except PyroMQError as error:
                outcome = error
            return await self._try_again(message, sent, outcome)
        finally:
            self._in_flight.leave(size)

    def start(self, message: Message, promise: Promise) -> bool:
        """Send a plain message without a task of its own and give `promise` the outcome; return False if it cannot."""
        size = len(message.body)
        if not self._in_flight.try_enter(size):
            return False
        waiter = _Unanswered(self, message, promise)
        sent = None
        try:
            sent = waiter.sent = self.try_send(message, waiter)
        finally:
            if sent is None:
                self._in_flight.leave(size)
        return sent is not None

    def answered(
        self, message: Message, sent: _Sent, promise: Promise, answer: RemotingCommand | RemotingError
    ) -> None:
        """Note the answer to a send that has no task, or the lack of one: pass it on, or try again."""
        size = len(message.body)
        outcome: SendResult | PyroMQError
        try:
            if isinstance(answer, RemotingError):
                raise answer
            outcome = self._delivery.result(sent[0], sent[1], read_sent(answer))
            if self._delivery.is_final(outcome):
                self._in_flight.leave(size)
                promise.set_result(outcome)
                return
        except PyroMQError as error:
            outcome = error
        trying = asyncio.ensure_future(self._try_again(message, sent, outcome))
        self._retries.add(trying)
        trying.add_done_callback(lambda task: self._tried(size, promise, task))

    def _tried(self, size: int, promise: Promise, task: asyncio.Task[SendResult]) -> None:
        self._retries.discard(task)
        self._in_flight.leave(size)
        settle(promise, task)

    async def _try_again(self, message: Message, sent: _Sent, outcome: SendResult | PyroMQError) -> SendResult:
        queue, message_id, now_ms, began = sent
        prepared = self._preparer.prepare(message, made=(message_id, now_ms))
        return await self._delivery.send_anywhere(prepared, self._timeout, (queue, outcome), began)

    def try_send(self, message: Message, waiter: AnswerWaiter) -> _Sent | None:
        """Send a plain message if its connection is open; return None if it has to take the general path."""
        try:
            template = self._templates.get((message.topic, message.tags, message.wait))
        except (TypeError, AttributeError):  # a list of tags, a MessageExt: the general path raises the right error
            return None
        if template is None or message.properties or message.flag or not 0 < len(message.body) <= self._largest:
            return None
        properties = _with_keys(message.keys, template.properties) if message.keys else template.properties
        if self._guard.forked:
            self._guard.check()
        ready = None if properties is None else self._delivery.next_ready(template.topic)
        if ready is None or properties is None:
            return None
        queue, connection = ready
        now_ms = self._clock.now_ms()
        message_id = self._preparer.new_id(now_ms)
        opaque = connection.open_request(waiter, SendFrames.code, self._timeout)
        text = properties + message_id.encode() + b'"'
        nonce = connection.next_nonce().encode() if self._signs else b""
        connection.send(template.frames.frame(opaque, queue.queue_id, now_ms, text, message.body, nonce))
        if connection.queued >= LARGE:
            connection.flush()  # the broker begins while others send
        return queue, message_id, now_ms, self._clock.monotonic()

    async def _send_generally(self, message: Message) -> SendResult:
        self._guard.check()
        prepared = self._preparer.prepare(message)  # checks what all messages of its template share
        if not message.properties and len(message.tags or "") <= _LONGEST_TAGS:
            self._remember(message, prepared.topic)
        await self._preparer.compress(prepared)
        return await self._delivery.send_anywhere(prepared, self._timeout)

    def _remember(self, message: Message, topic: str) -> None:
        if (message.topic, message.tags, message.wait) in self._templates:
            return
        if len(self._templates) >= _MAX_TEMPLATES:
            self._templates.clear()
        stem = encode_json(self._preparer.stem(message))[:-1]
        self._templates[message.topic, message.tags, message.wait] = _Template(topic, self._frames(topic), stem)

    def _frames(self, topic: str) -> SendFrames:
        rules, credentials = self._delivery.rules, self._remoting.credentials
        if credentials is None:
            return SendFrames(rules.group, topic, TBW102, rules.topic_queues)
        return SignedSendFrames(rules.group, topic, TBW102, rules.topic_queues, credentials)


def settle(promise: Promise, task: asyncio.Future[SendResult]) -> None:
    """Give a promise the outcome of a task that has ended."""
    if task.cancelled():
        promise.set_exception(ClientError("the producer was closed before the message was stored"))
    elif (error := task.exception()) is not None:
        promise.set_exception(error)
    else:
        promise.set_result(task.result())


def _with_keys(keys: Sequence[str], properties: bytes) -> bytes | None:
    """Return the JSON with the keys in front; None if the general path has to check them."""
    text = plain_keys(keys)
    return None if text is None else encode_json(text)[:-1] + properties[1:]
