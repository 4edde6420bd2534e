"""List and cancel messages that wait for their delivery time, on all brokers."""

from __future__ import annotations

from collections.abc import AsyncIterator

from msgspec import Struct

from pyromq.admin.masters import FindMasters
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.client.net.calls.timer_calls import WaitingMessage
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


class TimedMessages:
    """Messages sent with a delay or a time. Messages with a delay level are not included."""

    def __init__(self, api: BrokerApi, masters: FindMasters, group: str) -> None:
        self._api = api
        self._masters = masters
        self._group = group

    async def pending(self, topic: str | None = None) -> AsyncIterator[TimedMessage]:
        """Yield waiting messages of a topic or of all topics, broker by broker, in order of their time.

        Brokers other than PyroMQ's have none. Raises NotSupported if no broker is PyroMQ's, and NoMaster at the end if
        a broker could not be asked.
        """
        refusals: list[NotSupported] = []
        masters = await self._masters()
        for name, address in masters.addresses.items():
            try:
                async for message in self._pending_of(name, address, topic):
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
