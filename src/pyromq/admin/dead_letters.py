"""Dead letters of all groups: list them, read them, send them again.

A message that is sent again is a new one. It carries the user's own properties and, under names that begin with
PYROMQ_, where it came from. Properties that brokers wrote into the old one are left out: a copied TRAN_MSG would make
it a half message, a copied DELAY a delayed one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from datetime import UTC, datetime, timedelta

from msgspec import Struct

from pyromq.admin.topic_reader import TopicReader
from pyromq.client.net.calls.admin_calls import AdminCalls
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.client.rate_limit import RateLimit
from pyromq.client.send.producer import Producer
from pyromq.client.send_result import SendResult
from pyromq.clock import Clock
from pyromq.errors import ClientError, NoRoute, TopicNotFound
from pyromq.protocol.messages import properties as names
from pyromq.protocol.messages.message import Message, MessageExt, MessageQueue
from pyromq.protocol.names import DLQ_PREFIX, dlq_topic
from pyromq.protocol.sql92.conditions import MessageCondition

# Brokers and clients write these, although Java's clients let users set them.
_WRITTEN_BY_SYSTEM = names.TIMER_NAMES | {
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
        """The topic it was sent to, None if it is unknown."""
        return self._property(names.RETRY_TOPIC)

    @property
    def cause(self) -> str | None:
        """Why its listener failed the last time; only PyroMQ's clients record it."""
        return self._property(names.CAUSE)

    @property
    def origin_id(self) -> str:
        """The id of the original message, however often it was sent again."""
        return self._property(names.ORIGIN_ID) or self.message.message_id

    @property
    def ids(self) -> set[str]:
        """All of its ids."""
        return {self.message.message_id, self.message.offset_message_id, self.origin_id}

    @property
    def resends(self) -> int:
        """How often it was sent again."""
        text = self._property(names.RESENDS) or ""
        return int(text) if text.isascii() and text.isdigit() else 0

    @property
    def order_key(self) -> str | None:
        """The key that selected its queue."""
        return self._property(names.SHARDING_KEY)

    def _property(self, name: str) -> str | None:
        return self.message.properties.get(name)

    def resent(self, to: str | None = None) -> Message:
        """Return the message to send again, to its original topic or another; raises ClientError if that is unknown."""
        topic = to or self.topic
        if topic is None:
            raise ClientError(f"it is unknown which topic the dead letter {self.message.message_id} was sent to")
        message = self.message
        own = {name: value for name, value in message.properties.items() if _is_users_own(name)}
        again = Message(
            topic=topic,
            body=message.body,
            keys=message.keys,
            properties=own | self._history(topic),
            flag=message.flag,
        )
        again.tags = message.tags  # as they are: other clients may have sent tags that ours refuse
        return again

    def _history(self, topic: str) -> dict[str, str]:
        history = {
            names.ORIGIN_TOPIC: self._property(names.ORIGIN_TOPIC) or self.topic or topic,
            names.ORIGIN_GROUP: self.group,
            names.ORIGIN_ID: self.origin_id,
            names.RESENDS: str(self.resends + 1),
        }
        return history | ({names.CAUSE: self.cause} if self.cause else {})


def _is_users_own(name: str) -> bool:
    return not (name in names.RESERVED_NAMES or name in _WRITTEN_BY_SYSTEM or name.startswith(_OURS))


WARNING_SHARE = 0.25
"""The last part of the retention time, in which dead letters are reported as expiring soon."""

_DEFAULT_HOURS = 72
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Wanted(Struct, frozen=True, kw_only=True):
    """A selection of dead letters; None does not restrict it."""

    where: str | None = None
    """A SQL92 condition on their properties and, as `body.field`, on their JSON bodies."""
    cause: str | None = None
    """A part of the cause of their failure."""
    ids: Collection[str] | None = None
    """Their own ids, or those of the original messages."""

    def prepare(self) -> Callable[[Letter], bool]:
        """Return a function that selects them; raises LocalProtocolError for a wrong condition."""
        accepts = None if self.where is None else MessageCondition(self.where).matches

        def selects(letter: Letter) -> bool:
            if self.ids is not None and letter.ids.isdisjoint(self.ids):
                return False
            if self.cause is not None and self.cause not in (letter.cause or ""):
                return False
            return accepts is None or accepts(letter.message)

        return selects


EVERY = Wanted()


class DeadLetterTopic(Struct, frozen=True, kw_only=True):
    """The dead letters of one group."""

    group: str
    count: int
    oldest: datetime | None
    """When the first of them was stored."""
    expires: datetime | None
    """When the first of them may be removed, with its log file."""
    expires_soon: bool = False
    """True if that is near: export them or send them again before."""

    @property
    def topic(self) -> str:
        """The topic that holds them."""
        return dlq_topic(self.group)


class DeadLetters:
    """Reads dead letters and sends them again; they stay where they are until they expire."""

    def __init__(self, api: BrokerApi, producer: Callable[[], Awaitable[Producer]], clock: Clock) -> None:
        self._api = api
        self._producer = producer
        self._clock = clock
        self._hours: dict[str, float] = {}

    async def groups(self) -> list[DeadLetterTopic]:
        """Return every group that has or had dead letters."""
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
        """Yield a group's dead letters, or a selection of them; raises TopicNotFound if it never had any."""
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
        """Send a dead letter again, to its original topic or another; an order key selects its queue."""
        producer = await self._producer()
        return await producer.send(letter.resent(to), order_key=letter.order_key)

    async def resend_all(
        self, group: str, wanted: Wanted = EVERY, *, to: str | None = None, rate: float | None = None
    ) -> AsyncIterator[tuple[Letter, SendResult]]:
        """Send again what `read` yields, one by one, at most `rate` a second; yield each when it is stored.

        Dead letters that arrive meanwhile are not sent. Nothing records that a letter was sent again: the same call
        twice sends it twice.
        """
        pace = RateLimit(rate, self._clock) if rate else None
        async for letter in self.read(group, wanted):
            if pace is not None:
                await pace.wait()
                pace.count(1)
            yield letter, await self.resend(letter, to)


async def retention_hours(api: BrokerApi, address: str) -> float:
    """Return how many hours a broker keeps its files."""
    hours = (await AdminCalls(api.remoting).broker_config(address)).get("fileReservedTime", "")
    return float(hours) if hours.isdigit() else _DEFAULT_HOURS
