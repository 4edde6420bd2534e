"""Dead letters of all groups: list them, read them, group them by cause, send them again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta

from msgspec import Struct

from pyromq.admin.letters.causes import CauseCount, CauseGroup
from pyromq.admin.letters.letter import EVERY, Letter, Wanted
from pyromq.admin.letters.tries import Try, tries_of
from pyromq.admin.topic_reader import TopicReader
from pyromq.client.net.calls.admin_calls import AdminCalls
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.client.rate_limit import RateLimit
from pyromq.client.send.producer import Producer
from pyromq.client.send_result import SendResult
from pyromq.clock import Clock
from pyromq.errors import NoRoute, TopicNotFound
from pyromq.protocol.messages.message import MessageExt, MessageQueue
from pyromq.protocol.names import DLQ_PREFIX, dlq_topic, retry_topic

WARNING_SHARE = 0.25
"""The last part of the retention time, in which dead letters are reported as expiring soon."""

_DEFAULT_HOURS = 72
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


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


class LetterCauses(Struct, frozen=True, kw_only=True):
    """Why the dead letters of a group failed."""

    groups: tuple[CauseGroup, ...]
    """The largest first."""
    counted: int
    """Letters that were looked at."""
    is_whole: bool
    """False if there are more than that."""


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

    async def causes(self, group: str, wanted: Wanted = EVERY, *, most: int = 20_000) -> LetterCauses:
        """Return a group's dead letters by cause, as far as `most` of them; raises TopicNotFound if it never had any.

        Causes that differ only in numbers, ids and quoted values count as one. Letters of clients other than PyroMQ's
        have no cause.
        """
        count = CauseCount()
        is_whole = True
        async for letter in self.read(group, wanted):
            if count.count >= most:
                is_whole = False
                break
            count.add(letter)
        return LetterCauses(groups=tuple(count.groups()), counted=count.count, is_whole=is_whole)

    async def tries(self, letter: Letter) -> list[Try]:
        """Return the copies of a dead letter from the first delivery on, as far as brokers still have them."""
        topics = [topic for topic in (letter.topic, retry_topic(letter.group)) if topic]
        found = await asyncio.gather(*[self._copies(topic, letter.message.message_id) for topic in topics])
        return tries_of([*(copy for copies in found for copy in copies), letter.message])

    async def _copies(self, topic: str, message_id: str) -> list[MessageExt]:
        try:
            reader = await TopicReader.open(self._api, topic)
        except NoRoute:
            return []
        found: list[MessageExt] = []
        for broker_name, address in reader.addresses.items():
            copies = await self._api.query(address, topic, message_id, unique=True)
            for copy in copies:
                copy.broker_name = broker_name
            found += copies
        return found

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
