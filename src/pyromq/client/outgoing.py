"""From a Message to what travels: checked, with an id, its properties as text, a large body compressed."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

from pyromq.client.address import local_address
from pyromq.clock import Clock
from pyromq.errors import InvalidMessage
from pyromq.protocol import properties as names
from pyromq.protocol.batch import BatchElement, element_size, encode_batch
from pyromq.protocol.compression import COMPRESSED_FLAG, compress
from pyromq.protocol.message import Message
from pyromq.protocol.message_id import UniqueIds
from pyromq.protocol.names import NO_SEND_TOPICS, RETRY_PREFIX, with_namespace
from pyromq.protocol.properties import encode_properties

_COMPRESS_IN_THREAD_OVER = 32 * 1024  # about a millisecond: longer would hold up every other send
_MAX_PLAIN = 1000
Element = tuple[str, BatchElement]
"""A message of a batch, with its id."""


class Outgoing(Struct, gc=False):
    """A message, or a batch of them, ready for any broker."""

    source: Message
    """The message as its sender gave it; of a batch, the first."""
    topic: str
    body: bytes
    properties: str
    message_id: str
    born_timestamp_ms: int
    flag: int = 0
    sys_flag: int = 0
    batch: bool = False


class _Plain(NamedTuple):
    """What messages of one topic and tag share, if they have no keys and no properties of their own."""

    topic: str
    properties: str
    """All of the text but the id at its end."""


class Outbox:
    """Makes messages ready to travel."""

    def __init__(self, clock: Clock, *, max_message_size: int, compress_over: int, namespace: str | None) -> None:
        self._clock = clock
        self._max_message_size = max_message_size
        self._compress_over = compress_over
        self._namespace = namespace
        self._ids = UniqueIds(local_address(), os.getpid(), random.getrandbits(32))
        self._plain: dict[tuple[str, str | None, bool], _Plain] = {}

    def prepare(
        self, message: Message, order_key: str | None = None, system: Mapping[str, str] | None = None
    ) -> Outgoing:
        """Check a message and make it ready; raises InvalidMessage with one line that says what is wrong.

        `system` are properties that its sender may not set by himself.
        """
        now_ms = self._clock.now_ms()
        if order_key is None and system is None and not message.keys and not message.properties:
            plain = self._plain.get((message.topic, message.tags, message.wait))
            if plain is not None and 0 < len(message.body) <= self._max_message_size:
                message_id = self._ids.next(now_ms)
                properties = plain.properties + message_id
                return Outgoing(message, plain.topic, message.body, properties, message_id, now_ms, message.flag)
        self._check(message)
        message_id, properties = self._properties(message, now_ms, order_key, system)
        outgoing = Outgoing(message, self._topic(message), message.body, properties, message_id, now_ms, message.flag)
        if order_key is None and system is None:
            self._remember(message, outgoing)
        return outgoing

    def _remember(self, message: Message, outgoing: Outgoing) -> None:
        # Messages that differ in nothing but their body need not be checked and written again: 2 µs instead of 8.
        if not message.keys and not message.properties:
            if len(self._plain) >= _MAX_PLAIN:
                self._plain.clear()
            properties = outgoing.properties.removesuffix(outgoing.message_id)
            self._plain[message.topic, message.tags, message.wait] = _Plain(outgoing.topic, properties)

    async def compress(self, outgoing: Outgoing) -> None:
        """Compress the body if it is large enough for that."""
        size = len(outgoing.body)
        if size >= self._compress_over:
            large = size > _COMPRESS_IN_THREAD_OVER
            outgoing.body = await asyncio.to_thread(compress, outgoing.body) if large else compress(outgoing.body)
            outgoing.sys_flag |= COMPRESSED_FLAG

    def prepare_batches(self, messages: Sequence[Message]) -> Iterator[Outgoing]:
        """Check messages that go together and cut them into batches that the size limit allows."""
        self._check_batch(messages)
        now_ms = self._clock.now_ms()
        elements = (self._element(message, now_ms) for message in messages)
        for chunk in _chunks(elements, self._max_message_size):
            yield self.batch(messages[0], chunk)

    def element(self, message: Message, order_key: str | None) -> Element:
        """Check a message and make it ready to be part of a batch."""
        self._check_batch([message])
        return self._element(message, self._clock.now_ms(), order_key)

    def _element(self, message: Message, now_ms: int, order_key: str | None = None) -> Element:
        message_id, properties = self._properties(message, now_ms, order_key)
        return message_id, BatchElement(message.flag, message.body, properties.encode())

    def batch(self, first: Message, elements: Sequence[Element]) -> Outgoing:
        """Put elements together."""
        return Outgoing(
            source=first,
            topic=self._topic(first),
            body=encode_batch(element for _, element in elements),
            properties=encode_properties({names.WAIT: "true" if first.wait else "false"}),
            message_id=",".join(message_id for message_id, _ in elements),
            born_timestamp_ms=self._clock.now_ms(),
            batch=True,
        )

    def _check(self, message: Message) -> None:
        message.check(self._max_message_size)
        if message.topic in NO_SEND_TOPICS:
            raise InvalidMessage(f"the topic {message.topic} is the broker's own: nobody may send to it")

    def _check_batch(self, messages: Sequence[Message]) -> None:
        if not messages:
            raise InvalidMessage("a batch needs at least one message")
        for message in messages:
            self._check(message)
        first = messages[0]
        if first.topic.startswith(RETRY_PREFIX):
            raise InvalidMessage("messages to a retry topic cannot be batched")
        if any(message.topic != first.topic for message in messages):
            raise InvalidMessage("the messages of a batch must have one topic")
        if any(message.wait != first.wait for message in messages):
            raise InvalidMessage("the messages of a batch must agree on wait=")

    def _properties(
        self,
        message: Message,
        now_ms: int,
        order_key: str | None = None,
        system: Mapping[str, str] | None = None,
    ) -> tuple[str, str]:
        properties = {**message.all_properties(), **(system or {})}
        if order_key is not None:
            properties[names.SHARDING_KEY] = order_key
        if self._namespace:
            properties[names.INSTANCE_ID] = self._namespace
        message_id = properties[names.UNIQ_KEY] = self._ids.next(now_ms)  # last: see _remember
        return message_id, encode_properties(properties)

    def _topic(self, message: Message) -> str:
        return with_namespace(message.topic, self._namespace) if self._namespace else message.topic


def _chunks(elements: Iterable[Element], limit: int) -> Iterator[list[Element]]:
    chunk: list[Element] = []
    size = 0
    for message_id, element in elements:
        added = size_in_batch(element)
        if chunk and size + added > limit:
            yield chunk
            chunk, size = [], 0
        chunk.append((message_id, element))
        size += added
    yield chunk


def size_in_batch(element: BatchElement) -> int:
    """Return the bytes that an element takes in a batch."""
    return element_size(len(element.body), len(element.properties))
