"""List and cancel messages that wait for their delivery time, on all brokers."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator

from msgspec import Struct

from pyromq.admin.masters import FindMasters
from pyromq.admin.messages.level_loads import LevelLoad, level_loads
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.client.net.calls.timer_calls import WaitingMessage
from pyromq.clock import Clock
from pyromq.errors import NotSupported, NotSupportedByServer
from pyromq.protocol.messages.message import MessageExt
from pyromq.protocol.messages.properties import REAL_QUEUE_ID, REAL_TOPIC, TIMER_OUT_MS


class TimedMessage(Struct, frozen=True, kw_only=True):
    """A message that waits for its delivery time."""

    topic: str
    broker_name: str
    queue_id: int
    due_ms: int
    """When it is due."""
    stored: MessageExt
    """The message as it is stored until then, in the timer's topic."""


class DelayHistogram(Struct, frozen=True, kw_only=True):
    """How many messages are due when."""

    start_ms: int
    """Where the first bin begins."""
    step_ms: int
    """How long each bin is."""
    counts: tuple[int, ...]
    """Messages of each bin; overdue ones are in the first."""
    counted: int
    """Messages that were looked at: those of each broker that are due first."""
    waiting: int
    """All messages that wait, of whatever topic."""
    is_whole: bool
    """False if there are later ones that were not counted."""


_STEPS_MS = tuple(
    seconds * 1000
    for seconds in (
        *(1, 5, 10, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 21_600, 43_200, 86_400),
        *(days * 86_400 for days in (2, 7, 14, 30, 90, 365)),
    )
)


class TimedMessages:
    """Messages sent with a delay or a time. Of messages with a delay level, only `levels` tells."""

    def __init__(self, api: BrokerApi, masters: FindMasters, group: str, clock: Clock) -> None:
        self._api = api
        self._masters = masters
        self._group = group
        self._clock = clock

    async def pending(self, topic: str | None = None, *, most: int | None = None) -> AsyncIterator[TimedMessage]:
        """Yield waiting messages of a topic or of all topics, broker by broker, in order of their time.

        With `most`, only so many of each broker. Brokers other than PyroMQ's have none. Raises NotSupported if no
        broker is PyroMQ's, and NoMaster at the end if a broker could not be asked.
        """
        refusals: list[NotSupported] = []
        masters = await self._masters()
        for name, address in masters.addresses.items():
            try:
                count = 0
                async for message in self._pending_of(name, address, topic):
                    count += 1
                    if most is not None and count > most:
                        break
                    yield message
            except NotSupported as error:
                refusals.append(error)
        masters.check_complete()
        if refusals and len(refusals) == len(masters.addresses):
            raise refusals[0]

    async def _pending_of(self, broker_name: str, address: str, topic: str | None) -> AsyncIterator[TimedMessage]:
        after, is_last = (-1, -1), False
        while not is_last:
            page = await self._api.list_waiting(address, topic, after)
            after, is_last = page.next, page.is_last
            for stored in page.messages:
                yield _timed(broker_name, stored)

    async def count(self) -> int:
        """Return the number of waiting messages on all brokers."""
        masters = await self._masters()
        masters.check_complete()
        return sum([await self._count_of(address) for address in masters.addresses.values()])

    async def _count_of(self, address: str) -> int:
        try:
            return (await self._api.list_waiting(address, None)).count
        except NotSupported:
            return 0

    async def histogram(self, topic: str | None = None, *, bins: int = 40, most: int = 20_000) -> DelayHistogram:
        """Return when waiting messages are due, in at most `bins` steps from now on.

        At most `most` messages of each broker are looked at. Raises NotSupported and NoMaster as `pending` does.
        """
        dues: list[int] = []
        brokers: Counter[str] = Counter()
        async for message in self.pending(topic, most=most):
            brokers[message.broker_name] += 1
            dues.append(message.due_ms)
        is_whole = max(brokers.values(), default=0) < most
        return self._counted(dues, bins, await self.count(), is_whole=is_whole)

    def _counted(self, dues: list[int], bins: int, waiting: int, *, is_whole: bool) -> DelayHistogram:
        now_ms = self._clock.now_ms()
        span = max(max(dues, default=now_ms) - now_ms, 1)
        step = next((step for step in _STEPS_MS if span < step * (bins - 1)), span // (bins - 1) + 1)
        start = now_ms - now_ms % step
        counts = [0] * bins
        for due in dues:
            counts[min(max((due - start) // step, 0), bins - 1)] += 1
        while len(counts) > 1 and not counts[-1]:
            counts.pop()
        return DelayHistogram(
            start_ms=start, step_ms=step, counts=tuple(counts), counted=len(dues), waiting=waiting, is_whole=is_whole
        )

    async def levels(self) -> tuple[LevelLoad, ...]:
        """Return what waits at the delay levels of all brokers, also of Apache's: retries and messages with a level.

        Raises NoMaster if a broker could not be asked.
        """
        return await level_loads(self._api, self._masters)

    async def plan_cancel(self, message_id: str, topic: str = "") -> list[str]:
        """Return the names of the brokers on which `cancel` would find the message; looks through all that wait."""
        found = set()
        async for message in self.pending(topic or None):
            if message_id in (message.stored.message_id, message.stored.offset_message_id):
                found.add(message.broker_name)
        return sorted(found)

    async def cancel(self, message_id: str, topic: str = "") -> list[str]:
        """Cancel a waiting message by its id or its offset id; return the names of the brokers that had it.

        With a topic, only a message for that topic. Raises NotSupported if no broker is PyroMQ's, and NoMaster if none
        had it and one could not be asked.
        """
        refusals: list[NotSupported] = []
        cancelled: list[str] = []
        masters = await self._masters()
        for name, address in masters.addresses.items():
            try:
                if await self._api.cancel_waiting(address, self._group, WaitingMessage(topic, name, message_id)):
                    cancelled.append(name)
            except NotSupportedByServer:
                refusals.append(NotSupported(f"broker {address} is not PyroMQ's: it has no timer"))
        if not cancelled:
            masters.check_complete()
        if refusals and len(refusals) == len(masters.addresses):
            raise refusals[0]
        return cancelled


def _timed(broker_name: str, stored: MessageExt) -> TimedMessage:
    stored.broker_name = broker_name
    properties = stored.properties
    return TimedMessage(
        topic=properties.get(REAL_TOPIC, ""),
        broker_name=broker_name,
        queue_id=int(properties.get(REAL_QUEUE_ID, "0")),
        due_ms=int(properties.get(TIMER_OUT_MS, "0")),
        stored=stored,
    )
