"""One dead letter: what it was, why its group gave it up, and how it is sent again.

A resent message is a new one. It carries the user's own properties and, under names that begin with PYROMQ_, where it
came from; what brokers wrote into the old one stays behind: a copied TRAN_MSG would make a half message of it, a copied
DELAY a delayed one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from datetime import UTC, datetime, timedelta

from msgspec import Struct

from pyromq.admin.topic_reader import TopicReader
from pyromq.client.net.calls.base import CALL_TIMEOUT, broker_error
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.client.rate_limit import RateLimit
from pyromq.client.results import SendResult
from pyromq.client.send.producer import Producer
from pyromq.clock import Clock
from pyromq.errors import ClientError, NoRoute, TopicNotFound
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import request
from pyromq.protocol.messages import properties as names
from pyromq.protocol.messages.message import Message, MessageExt, MessageQueue
from pyromq.protocol.names import DLQ_PREFIX, dlq_topic
from pyromq.protocol.sql92.sql_filter import SqlFilter, compile_sql

# Brokers and clients write these, though Java's clients would not refuse them to a user.
_WRITTEN_BY_THE_WAY = names.TIMER_NAMES | {
    names.TRANSACTION_PREPARED_QUEUE_OFFSET, names.TRANSACTION_CHECK_TIMES, names.CHECK_IMMUNITY_TIME_IN_SECONDS,
    names.INNER_MULTI_DISPATCH, names.TRANSACTION_ID, names.SHARDING_KEY,
}  # fmt: skip
_OURS = "PYROMQ_"


class Letter(Struct, frozen=True):
    """A message among a group's dead letters."""

    message: MessageExt

    @property
    def group(self) -> str:
        """The group that gave it up."""
        return self.message.topic.removeprefix(DLQ_PREFIX)

    @property
    def topic(self) -> str | None:
        """The topic it was sent to, None if nothing says so."""
        return self._kept(names.RETRY_TOPIC)

    @property
    def cause(self) -> str | None:
        """Why its listener did not take it, the last time; clients other than PyroMQ's do not tell."""
        return self._kept(names.CAUSE)

    @property
    def origin_id(self) -> str:
        """The id of the first message, however often it was sent again."""
        return self._kept(names.ORIGIN_ID) or self.message.message_id

    @property
    def ids(self) -> set[str]:
        """All ids that it is known by."""
        return {self.message.message_id, self.message.offset_message_id, self.origin_id}

    @property
    def resends(self) -> int:
        """How often it was sent again already."""
        text = self._kept(names.RESENDS) or ""
        return int(text) if text.isascii() and text.isdigit() else 0

    @property
    def order_key(self) -> str | None:
        """The key that chose its queue."""
        return self._kept(names.SHARDING_KEY)

    def _kept(self, name: str) -> str | None:
        return self.message.properties.get(name)

    def resent(self, to: str | None = None) -> Message:
        """Return the message to send, to its own topic or another; raises ClientError if its own is not known."""
        topic = to or self.topic
        if topic is None:
            raise ClientError(f"nothing says which topic the dead letter {self.message.message_id} was sent to")
        message = self.message
        own = {name: value for name, value in message.properties.items() if _is_users_own(name)}
        return Message(
            topic=topic,
            body=message.body,
            tags=message.tags,
            keys=message.keys,
            properties=own | self._history(topic),
            flag=message.flag,
        )

    def _history(self, topic: str) -> dict[str, str]:
        history = {
            names.ORIGIN_TOPIC: self._kept(names.ORIGIN_TOPIC) or self.topic or topic,
            names.ORIGIN_GROUP: self.group,
            names.ORIGIN_ID: self.origin_id,
            names.RESENDS: str(self.resends + 1),
        }
        return history | ({names.CAUSE: self.cause} if self.cause else {})


def _is_users_own(name: str) -> bool:
    return not (name in names.RESERVED_NAMES or name in _WRITTEN_BY_THE_WAY or name.startswith(_OURS))


__all__ = ["EVERY", "DeadLetterTopic", "DeadLetters", "Letter", "Wanted"]

WARNING_SHARE = 0.25
"""The last part of the retention: dead letters that have come so far are warned of."""

_DEFAULT_HOURS = 72
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Wanted(Struct, frozen=True, kw_only=True):
    """Which dead letters are meant; what is None leaves all of them."""

    where: str | None = None
    """A SQL92 condition on their properties."""
    cause: str | None = None
    """A part of the text that says why they failed."""
    ids: Collection[str] | None = None
    """Ids: their own, or that of the message as it was first sent."""

    def prepare(self) -> Callable[[Letter], bool]:
        """Return the function that picks them; raises LocalProtocolError or ClientError for a wrong condition."""
        accepts = None if self.where is None else _condition(self.where).matches

        def picks(letter: Letter) -> bool:
            if self.ids is not None and letter.ids.isdisjoint(self.ids):
                return False
            if self.cause is not None and self.cause not in (letter.cause or ""):
                return False
            return accepts is None or accepts(letter.message.properties)

        return picks


EVERY = Wanted()


def _condition(text: str) -> SqlFilter:
    compiled = compile_sql(text)
    if compiled.unread:  # as brokers, it would silently go by the part before that
        raise ClientError(f"{compiled.unread!r} of the condition {text!r} would not be read; is an AND missing?")
    return compiled


class DeadLetterTopic(Struct, frozen=True, kw_only=True):
    """What one group has given up."""

    group: str
    count: int
    oldest: datetime | None
    """When the first of them was stored."""
    expires: datetime | None
    """From when on the first of them may be removed, with its file of the log."""
    expires_soon: bool = False
    """Whether that is near: export them or send them again before."""

    @property
    def topic(self) -> str:
        """The topic they lie in."""
        return dlq_topic(self.group)


class DeadLetters:
    """Looks at dead letters and sends them again; they stay where they are until they expire."""

    def __init__(self, api: BrokerApi, producer: Callable[[], Awaitable[Producer]], clock: Clock) -> None:
        self._api = api
        self._producer = producer
        self._clock = clock
        self._hours: dict[str, float] = {}

    async def groups(self) -> list[DeadLetterTopic]:
        """Return every group that has dead letters, or had some."""
        topics = [topic for topic in await self._api.topic_list() if topic.startswith(DLQ_PREFIX)]
        return [await self._topic(topic) for topic in topics]

    async def _topic(self, topic: str) -> DeadLetterTopic:
        reader = await TopicReader.open(self._api, topic)
        count = 0
        oldest: list[datetime] = []
        expires: list[tuple[datetime, bool]] = []
        for queue in reader.queues:
            low, high = await reader.ends(queue)
            count += high - low
            stored_ms = await self._api.earliest_time_ms(reader.address(queue), topic, queue.queue_id)
            if high > low and stored_ms is not None:
                oldest.append(_EPOCH + timedelta(milliseconds=stored_ms))
                expires.append(await self._expiry(reader, queue, oldest[-1]))
        return DeadLetterTopic(
            group=topic.removeprefix(DLQ_PREFIX),
            count=count,
            oldest=min(oldest, default=None),
            expires=min((when for when, _ in expires), default=None),
            expires_soon=any(soon for _, soon in expires),
        )

    async def _expiry(self, reader: TopicReader, queue: MessageQueue, stored: datetime) -> tuple[datetime, bool]:
        address = reader.address(queue)
        if address not in self._hours:
            self._hours[address] = await retention_hours(self._api, address)
        hours = self._hours[address]
        expires = stored + timedelta(hours=hours)
        left = expires - datetime.fromtimestamp(self._clock.now(), UTC)
        return expires, left < timedelta(hours=hours * WARNING_SHARE)

    async def read(self, group: str, wanted: Wanted = EVERY) -> AsyncIterator[Letter]:
        """Yield a group's dead letters, or some of them; raises TopicNotFound if it never had any."""
        accepts = wanted.prepare()
        try:
            reader = await TopicReader.open(self._api, dlq_topic(group))
        except NoRoute:
            raise TopicNotFound(f"the group {group!r} has no dead letters") from None
        async for message in reader.read():
            letter = Letter(message)
            if accepts(letter):
                yield letter

    async def resend(self, letter: Letter, to: str | None = None) -> SendResult:
        """Send a dead letter again, to its own topic or another; one with an order key goes to that key's queue."""
        producer = await self._producer()
        return await producer.send(letter.resent(to), order_key=letter.order_key)

    async def resend_all(
        self, group: str, wanted: Wanted = EVERY, *, to: str | None = None, rate: float | None = None
    ) -> AsyncIterator[tuple[Letter, SendResult]]:
        """Send again, one after the other, what `read` yields, at most `rate` a second; yield each when it is stored.

        What comes into the dead letters meanwhile is not sent. Nothing remembers that a letter was sent again: twice
        the same call sends it twice.
        """
        pace = RateLimit(rate, self._clock) if rate else None
        async for letter in self.read(group, wanted):
            if pace is not None:
                await pace.turn()
                pace.passed(1)
            yield letter, await self.resend(letter, to)


async def retention_hours(api: BrokerApi, address: str) -> float:
    """Return how many hours a broker keeps its files."""
    answer = await api.call(address, request(RequestCode.GET_BROKER_CONFIG), CALL_TIMEOUT)
    if answer.code != ResponseCode.SUCCESS:
        raise broker_error(answer.code, answer.remark)
    for line in answer.body.decode(errors="replace").splitlines():
        key, _, value = line.partition("=")
        if key.strip() == "fileReservedTime" and value.strip().isdigit():
            return float(value)
    return _DEFAULT_HOURS
