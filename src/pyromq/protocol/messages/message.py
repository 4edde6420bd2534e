"""Messages as applications see them: Message is sent, MessageExt is received, MessageQueue is where it was stored."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from msgspec import Struct, field

from pyromq.errors import ClientError, InvalidMessage, LocalProtocolError, MalformedHeader
from pyromq.protocol.messages import properties as names
from pyromq.protocol.messages.compression import decompress
from pyromq.protocol.messages.hosts import decode_host
from pyromq.protocol.messages.message_id import encode_offset_id
from pyromq.protocol.messages.properties import decode_properties, encode_properties, find_property
from pyromq.protocol.names import check_topic

MAX_BODY_SIZE = 4 * 1024 * 1024
"""The largest body that a broker with default settings accepts."""

reply_channel: ContextVar[Callable[[MessageExt, bytes], Awaitable[None]]] = ContextVar("pyromq_reply_channel")
"""Sends a reply to the sender of a request; a consumer sets it around its listener."""

time_channel: ContextVar[Callable[[MessageExt, float], None]] = ContextVar("pyromq_time_channel")
"""Gives a listener more time for a message; a consumer sets it around its listener."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class MessageQueue(NamedTuple):
    """One queue of a topic on one broker; its sort order is the one that all clients of a group share."""

    topic: str
    broker_name: str
    queue_id: int


class Message(Struct):
    """A message to be sent.

    >>> Message(topic="orders", body=b"...", tags="created", keys=["o-1"], properties={"region": "north"})
    """

    topic: str
    body: bytes
    tags: str | None = None
    keys: Sequence[str] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    flag: int = 0
    wait: bool = True
    """Whether the broker answers only after it has flushed and replicated the message as configured."""

    def __post_init__(self) -> None:
        if not isinstance(self.body, bytes):
            self.body = _body_bytes(self.body)
        tags, keys = self.tags, self.keys
        if tags is not None and (not isinstance(tags, str) or "||" in tags):
            raise InvalidMessage(f"a message has one tag, a str: not {tags!r}; only subscriptions name several")
        if type(keys) is tuple:
            return
        try:
            self.keys = (keys,) if isinstance(keys, str) else tuple(keys)
        except TypeError:
            raise InvalidMessage(f"a message's keys are a list of str, not {keys!r}") from None

    def check(self, max_body_size: int = MAX_BODY_SIZE) -> None:
        """Raise InvalidMessage, with a one-line reason, if a broker would refuse this message."""
        _check_topic(self.topic)
        size = len(self.body)
        if not size:
            raise InvalidMessage("the message's body is empty")
        if size > max_body_size:
            raise InvalidMessage(f"the message's body has {size} bytes, more than the limit of {max_body_size}")
        self._check_properties()

    def _check_properties(self) -> None:
        if not hasattr(self.properties, "items"):
            raise InvalidMessage(f"a message's properties are a dict of str, not {self.properties!r:.80}")
        for name, value in self.properties.items():
            _check_property(name, value)
            if name in names.RESERVED_NAMES:
                raise InvalidMessage(f"the property name {name} is reserved for the system")
        if self.tags is not None:
            _check_property(names.TAGS, self.tags)
        for key in self.keys:
            _check_property(names.KEYS, key)
            if " " in key:
                raise InvalidMessage(f"the key {key!r} contains a blank, which separates keys")
        limit = names.MAX_PROPERTIES_LENGTH
        if self._property_characters() < limit // 8:  # cannot be too long, however many bytes a character takes
            return
        size = len(encode_properties(self.all_properties()).encode())
        if size > limit:
            raise InvalidMessage(f"the message's properties have {size} bytes, more than the limit of {limit}")

    def _property_characters(self) -> int:
        texts = (*self.properties, *self.properties.values(), *self.keys, self.tags or "")
        return sum(map(len, texts))

    def all_properties(self) -> dict[str, str]:
        """Return the properties as they travel: the user's own, then keys, WAIT and tags."""
        properties = dict(self.properties)
        if self.keys:
            properties[names.KEYS] = " ".join(self.keys)
        properties[names.WAIT] = "true" if self.wait else "false"
        if self.tags:
            properties[names.TAGS] = self.tags
        return properties

    def __repr__(self) -> str:
        return f"Message(topic={self.topic!r}, tags={self.tags!r}, keys={self.keys!r}, body of {len(self.body)} bytes)"


def _body_bytes(body: object) -> bytes:
    if isinstance(body, bytearray | memoryview):
        return bytes(body)  # a copy: the sender may go on writing into its buffer
    hint = "body=text.encode(), or " if isinstance(body, str) else ""
    form = f"{hint}producer.send(topic, value), which encodes it"
    raise InvalidMessage(f"a message's body must be bytes, not {type(body).__name__}: {form}")


def _check_topic(topic: str) -> None:
    if not isinstance(topic, str):
        raise InvalidMessage(f"a message's topic must be a str, not {type(topic).__name__}")
    try:
        check_topic(topic)
    except LocalProtocolError as error:
        raise InvalidMessage(str(error)) from None


def _check_property(name: object, value: object) -> None:
    if not isinstance(name, str) or not isinstance(value, str):
        raise InvalidMessage(f"the property {name!r} and its value must be str")
    if not name.strip() or not value.strip():
        raise InvalidMessage(f"the property {name!r} has a blank name or value")
    for text in (name, value):
        if names.NAME_VALUE_SEPARATOR in text or names.PROPERTY_SEPARATOR in text:
            raise InvalidMessage(f"the property {name!r} contains U+0001 or U+0002, which separate properties")
        if not text.isascii() and not _is_unicode(text):
            raise InvalidMessage(f"the property {name!r} contains half of a surrogate pair")


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class MessageExt(Struct, eq=False, gc=False):
    """A message as it was stored and received.

    The fields are those of the stored record. Costlier parts (properties, hosts, ids, a decompressed body) are computed
    on first use.
    """

    topic: str
    stored_body: bytes
    """The body as stored: compressed if the producer compressed it."""
    raw_properties: bytes = b""
    broker_name: str | None = None
    store_size: int = 0
    """The size of the whole record in the commit log."""
    body_crc: int = 0
    queue_id: int = 0
    flag: int = 0
    queue_offset: int = 0
    physical_offset: int = 0
    sys_flag: int = 0
    born_timestamp_ms: int = 0
    raw_born_host: bytes = bytes(8)
    store_timestamp_ms: int = 0
    raw_store_host: bytes = bytes(8)
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0
    _properties: dict[str, str] | None = None
    _body: bytes | None = None

    @property
    def body(self) -> bytes:
        """The producer's body; raises MalformedHeader if the compressed form is damaged."""
        if self._body is None:
            self._body = decompress(self.stored_body, self.sys_flag)
        return self._body

    @property
    def properties(self) -> dict[str, str]:
        """All properties, including the system's."""
        if self._properties is None:
            self._properties = decode_properties(self.raw_properties)
        return self._properties

    def _property(self, name: str) -> str | None:
        return find_property(self.raw_properties, name) if self._properties is None else self._properties.get(name)

    @property
    def tags(self) -> str | None:
        """The tag, if the message has one."""
        return self._property(names.TAGS)

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys that find the message."""
        return tuple(key for key in (self._property(names.KEYS) or "").split(" ") if key)

    @property
    def message_id(self) -> str:
        """The producer's id; without one, `offset_message_id`."""
        return self._property(names.UNIQ_KEY) or self.offset_message_id

    @property
    def offset_message_id(self) -> str:
        """The id of where it is stored: the broker's address and the physical offset."""
        return encode_offset_id(self.raw_store_host, self.physical_offset)

    @property
    def born_host(self) -> str:
        """The producer's address as seen by the broker, `ip:port`."""
        return decode_host(self.raw_born_host)

    @property
    def store_host(self) -> str:
        """The broker's address, `ip:port`."""
        return decode_host(self.raw_store_host)

    @property
    def born_at(self) -> datetime:
        """When the producer created it, by the producer's clock."""
        return _datetime(self.born_timestamp_ms)

    @property
    def stored_at(self) -> datetime:
        """When the broker stored it, by the broker's clock."""
        return _datetime(self.store_timestamp_ms)

    @property
    def queue(self) -> MessageQueue:
        """The queue it was read from."""
        return MessageQueue(self.topic, self.broker_name or "", self.queue_id)

    def reply(self, body: bytes) -> Awaitable[None]:
        """Answer a request, inside a listener: `await message.reply(b"...")`; a plain listener needs no `await`.

        Raises ClientError if this message is not a request, BrokerError if the reply could not be delivered.
        """
        channel = reply_channel.get(None)
        if channel is None:
            raise ClientError("reply() works only inside the listener of a PushConsumer")
        return channel(self, body)

    def extend(self, time: timedelta | float) -> None:
        """Ask for more time, inside a listener: it may go on for so long from now, whatever `consume_timeout` says.

        A number is in seconds. Call it again before that time is over to get still more.
        """
        channel = time_channel.get(None)
        if channel is None:
            raise ClientError("extend() works only inside the listener of a PushConsumer")
        channel(self, time.total_seconds() if isinstance(time, timedelta) else float(time))

    def __repr__(self) -> str:
        place = f"{self.broker_name or '?'}:{self.queue_id}:{self.queue_offset}"
        return (
            f"MessageExt(topic={self.topic!r}, at={place}, message_id={self.message_id!r}, tags={self.tags!r}, "
            f"keys={self.keys!r}, body of {len(self.stored_body)} bytes)"
        )


def _datetime(timestamp_ms: int) -> datetime:
    try:
        return _EPOCH + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        raise MalformedHeader(f"not a time: {timestamp_ms} ms") from None
