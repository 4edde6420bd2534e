"""MessagePreparer turns a Message into what is sent: checked, with an id, properties as text, compressed if large."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from pyromq.client.net.message_ids import message_ids
from pyromq.clock import Clock
from pyromq.errors import InvalidMessage
from pyromq.protocol.messages import properties as names
from pyromq.protocol.messages.batch import BatchElement, element_size, encode_batch
from pyromq.protocol.messages.compression import COMPRESSED_FLAG, compress
from pyromq.protocol.messages.message import Message
from pyromq.protocol.messages.properties import encode_properties
from pyromq.protocol.names import NO_SEND_TOPICS, RETRY_PREFIX, with_namespace

_COMPRESS_IN_THREAD_OVER = 32 * 1024  # takes about a millisecond; longer would delay every other send
_MAX_WITH_CONTEXT = names.MAX_PROPERTIES_LENGTH - 2048  # brokers add properties of their own, with every retry

_MAX_STEMS = 1000
_LONGEST_KEYS = 1000  # keys and tags of this length are far below the limit of a record: no need to count bytes
_LONGEST_TAGS = 1000

PreparedElement = tuple[str, BatchElement, Message]
"""A message of a batch: its id, its encoded form, and the original."""


class PreparedMessage(Struct, gc=False):
    """A message, or a batch, that can be sent to any broker."""

    source: Message
    """The original message; for a batch, the first one."""
    topic: str
    body: bytes
    properties: str
    message_id: str
    born_timestamp_ms: int
    flag: int = 0
    sys_flag: int = 0
    batch: bool = False
    delayed: bool = False
    timed: bool = False
    """True if only a broker with a timer can take it."""
    sources: Sequence[Message] = ()
    """For a batch, all original messages."""


class MessagePreparer:
    """Prepares the messages of one producer."""

    def __init__(
        self,
        clock: Clock,
        *,
        max_message_size: int,
        compress_over: int,
        namespace: str | None,
        context: Callable[[], Mapping[str, str]] | None = None,
    ) -> None:
        self._clock = clock
        self._context = (
            context  # returns properties for every message, such as a trace context; its own take precedence
        )
        self.max_message_size = max_message_size
        self._compress_over = compress_over
        self._namespace = namespace
        self._ids = message_ids()
        self.new_id = self._ids.next
        """Returns an id for a message created at a time."""
        self.new_ids = self._ids.run
        """Returns so many ids, likewise."""
        self._stems: dict[tuple[str, str | None, bool], bytes] = {}

    def prepare(
        self,
        message: Message,
        order_key: str | None = None,
        system: Mapping[str, str] | None = None,
        made: tuple[str, int] | None = None,
    ) -> PreparedMessage:
        """Check and prepare a message; raises InvalidMessage.

        `system` are properties that senders cannot set themselves, `made` is the id and time that it already has.
        """
        self._check(message)
        message_id, now_ms = made or self._new()
        properties = self._properties(message, message_id, order_key, system)
        return PreparedMessage(
            message, self._topic(message), message.body, properties, message_id, now_ms, message.flag
        )

    def _new(self) -> tuple[str, int]:
        now_ms = self._clock.now_ms()
        return self._ids.next(now_ms), now_ms

    async def compress(self, prepared: PreparedMessage) -> None:
        """Compress the body if it is large and becomes smaller."""
        body = prepared.body
        if len(body) >= self._compress_over:
            large = len(body) > _COMPRESS_IN_THREAD_OVER
            compressed = await asyncio.to_thread(compress, body) if large else compress(body)
            if len(compressed) < len(body):  # what is random or already compressed would grow, perhaps over the limit
                prepared.body = compressed
                prepared.sys_flag |= COMPRESSED_FLAG

    def prepare_batches(self, messages: Sequence[Message]) -> Iterator[PreparedMessage]:
        """Check messages and divide them into batches within the size limit."""
        self._check_batch(messages)
        elements = (self._element(message) for message in messages)
        for chunk in _chunks(elements, self.max_message_size):
            yield self.batch(messages[0], chunk)

    def element(self, message: Message, order_key: str | None) -> tuple[str, bytes]:
        """Check a message that travels in a batch; return its id and its properties."""
        try:
            stem = self._stems.get((message.topic, message.tags, message.wait))
        except TypeError:  # a list of tags: the general path raises the right error
            stem = None
        if stem is None or message.properties or order_key or not 0 < len(message.body) <= self.max_message_size:
            return self._checked_element(message, order_key)
        if message.keys:
            keys = plain_keys(message.keys)
            if keys is None:
                return self._checked_element(message, order_key)
            stem = keys.encode() + stem
        message_id = self._ids.next(self._clock.now_ms())
        return message_id, stem + message_id.encode()

    def _checked_element(self, message: Message, order_key: str | None) -> tuple[str, bytes]:
        self._check_batch([message])
        if self._context is None and len(message.tags or "") <= _LONGEST_TAGS:
            if len(self._stems) >= _MAX_STEMS:
                self._stems.clear()
            self._stems[message.topic, message.tags, message.wait] = self.stem(message).encode()
        message_id, element, _ = self._element(message, order_key)
        return message_id, element.properties

    def known_stem(self, message: Message) -> bytes | None:
        """Return the properties of messages in a batch like this one, up to the id; None if they need checks."""
        return None if message.properties else self._stems.get((message.topic, message.tags, message.wait))

    def stem(self, message: Message) -> str:
        """Return the properties of all messages with the topic and tag of a checked one, up to a message's id."""
        bare = Message(topic=message.topic, body=b"-", wait=message.wait)
        bare.tags = message.tags
        sample = self.prepare(bare)
        return sample.properties.removesuffix(sample.message_id)

    def _element(self, message: Message, order_key: str | None = None) -> PreparedElement:
        message_id = self._ids.next(self._clock.now_ms())
        properties = self._properties(message, message_id, order_key)
        return message_id, BatchElement(message.flag, message.body, properties.encode()), message

    def batch(self, first: Message, elements: Sequence[PreparedElement]) -> PreparedMessage:
        """Return a batch of these elements."""
        ids, encoded, sources = zip(*elements, strict=True)
        return self.encoded_batch(first, encode_batch(encoded), ids, sources)

    def encoded_batch(
        self, first: Message, body: bytes, ids: Sequence[str], sources: Sequence[Message]
    ) -> PreparedMessage:
        """Return a batch whose body is there already."""
        return PreparedMessage(
            source=first,
            topic=self._topic(first),
            body=body,
            properties=encode_properties({names.WAIT: "true" if first.wait else "false"}),
            message_id=",".join(ids),
            born_timestamp_ms=self._clock.now_ms(),
            batch=True,
            sources=sources,
        )

    def _check(self, message: Message) -> None:
        if not isinstance(message, Message):
            raise not_a_message(message)
        message.check(self.max_message_size)
        if message.topic in NO_SEND_TOPICS:
            raise InvalidMessage(f"the topic {message.topic} is the broker's own: nobody may send to it")

    def _check_batch(self, messages: Sequence[Message]) -> None:
        if not isinstance(messages, Sequence):
            raise InvalidMessage(f"a batch is a list of messages, not {type(messages).__name__}")
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
        message_id: str,
        order_key: str | None = None,
        system: Mapping[str, str] | None = None,
    ) -> str:
        properties = {**message.all_properties(), **(system or {})}
        if order_key is not None:
            properties[names.SHARDING_KEY] = order_key
        if self._namespace:
            properties[names.INSTANCE_ID] = self._namespace
        properties[names.UNIQ_KEY] = message_id  # the last one: FastSend relies on it
        if self._context is not None:
            with_context = encode_properties({**self._context(), **properties})
            if len(with_context.encode()) <= _MAX_WITH_CONTEXT:
                return with_context
        return encode_properties(properties)

    def _topic(self, message: Message) -> str:
        return with_namespace(message.topic, self._namespace) if self._namespace else message.topic


def body_size(message: Message) -> int:
    """Return the size of a message's body; raises InvalidMessage if it is not a message at all."""
    if not isinstance(message, Message):
        raise not_a_message(message)
    return len(message.body)


def not_a_message(value: object) -> InvalidMessage:
    """Return the exception for a value that somebody wants to send as it is."""
    forms = "Message(topic=..., body=...), or send(topic, value)"
    return InvalidMessage(f"only a Message can be sent, not {type(value).__name__}: {forms}")


def plain_keys(keys: Sequence[str]) -> str | None:
    """Return the property of a message's keys as it travels; None if the general path has to check them."""
    try:
        text = " ".join(keys)
    except TypeError:
        return None
    if not (text.isascii() and text.isprintable() and len(text) <= _LONGEST_KEYS):
        return None
    if "" in keys or text.count(" ") != len(keys) - 1:
        return None
    return f"{names.KEYS}{names.NAME_VALUE_SEPARATOR}{text}{names.PROPERTY_SEPARATOR}"


def _chunks(elements: Iterable[PreparedElement], limit: int) -> Iterator[list[PreparedElement]]:
    chunk: list[PreparedElement] = []
    size = 0
    for element in elements:
        added = size_in_batch(element[1])
        if chunk and size + added > limit:
            yield chunk
            chunk, size = [], 0
        chunk.append(element)
        size += added
    yield chunk


def size_in_batch(element: BatchElement) -> int:
    """Return the size of an element in a batch, in bytes."""
    return element_size(len(element.body), len(element.properties))
