"""List and resume transactions without a known end: pending ones and those that brokers gave up."""

from __future__ import annotations

from collections.abc import AsyncIterator

from msgspec import Struct

from pyromq.admin.masters import FindMasters
from pyromq.client.net.calls.admin_calls import AdminCalls
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.protocol.messages import properties as names
from pyromq.protocol.messages.message import MessageExt

_AT_A_TIME = 100


class HalfMessage(Struct, frozen=True):
    """A message whose transaction has not ended."""

    message: MessageExt
    """As it is stored, in the topic of half messages or of given-up ones."""
    given_up: bool

    @property
    def topic(self) -> str:
        """The topic it is meant for."""
        return self.message.properties.get(names.REAL_TOPIC, "")

    @property
    def group(self) -> str:
        """The producer group that is asked about it."""
        return self.message.properties.get(names.PRODUCER_GROUP, "")

    @property
    def checks(self) -> int:
        """How often producers were asked."""
        count = self.message.properties.get(names.TRANSACTION_CHECK_TIMES, "0")
        return int(count) if count.isdecimal() else 0


class Transactions:
    """Lists and resumes transactions on all brokers of a cluster."""

    def __init__(self, api: BrokerApi, masters: FindMasters) -> None:
        self._calls = AdminCalls(api.remoting)
        self._masters = masters

    async def pending(self) -> AsyncIterator[HalfMessage]:
        """Yield the half messages of open transactions, oldest copies first, broker by broker.

        Raises NoMaster at the end if a broker could not be asked; so does `given_up`.
        """
        async for half in self._all(given_up=False):
            yield half

    async def given_up(self) -> AsyncIterator[HalfMessage]:
        """Yield half messages that brokers gave up (asked too often, or too old) and that are still unresolved."""
        async for half in self._all(given_up=True):
            yield half

    async def resume(self, half: HalfMessage) -> None:
        """Let brokers ask about a given-up one again; raises BrokerError if it was resumed or decided since."""
        address = (await self._masters()).address(half.message.broker_name or "")
        await self._calls.resume_checks(address, half.message.offset_message_id)

    async def _all(self, *, given_up: bool) -> AsyncIterator[HalfMessage]:
        masters = await self._masters()
        for name, address in masters.addresses.items():
            offset, is_last = 0, False
            while not is_last:
                page = await self._calls.half_messages(address, name, offset, _AT_A_TIME, given_up=given_up)
                for message in page.messages:
                    yield HalfMessage(message, given_up)
                offset, is_last = page.next_offset, page.is_last
        masters.check_complete()
