"""List and resume transactions without a known end: pending ones and those that brokers gave up."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

from msgspec import Struct

from pyromq.client.net.calls.base import CALL_TIMEOUT, broker_error
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.errors import NotSupported
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import RemotingCommand, request
from pyromq.protocol.headers import Header
from pyromq.protocol.headers.transactions import (
    ListTransactionsRequestHeader,
    ListTransactionsResponseHeader,
    ResumeCheckHalfMessageRequestHeader,
)
from pyromq.protocol.messages import properties as names
from pyromq.protocol.messages.message import MessageExt
from pyromq.protocol.messages.record import decode_messages

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

    def __init__(self, api: BrokerApi, masters: Callable[[], Awaitable[dict[str, str]]]) -> None:
        self._api = api
        self._masters = masters

    async def pending(self) -> AsyncIterator[HalfMessage]:
        """Yield the half messages of open transactions, oldest copies first, broker by broker."""
        async for half in self._all(given_up=False):
            yield half

    async def given_up(self) -> AsyncIterator[HalfMessage]:
        """Yield half messages that brokers gave up (asked too often, or too old) and that are still unresolved."""
        async for half in self._all(given_up=True):
            yield half

    async def resume(self, half: HalfMessage) -> None:
        """Let brokers ask about a given-up one again; raises BrokerError if it was resumed or decided since."""
        address = (await self._masters())[half.message.broker_name or ""]
        header = ResumeCheckHalfMessageRequestHeader(msg_id=half.message.offset_message_id)
        await self._ask(address, RequestCode.RESUME_CHECK_HALF_MESSAGE, header)

    async def _all(self, *, given_up: bool) -> AsyncIterator[HalfMessage]:
        for name, address in (await self._masters()).items():
            offset, is_last = 0, False
            while not is_last:
                header = ListTransactionsRequestHeader(given_up=given_up, offset=offset, max_num=_AT_A_TIME)
                answer = await self._ask(address, RequestCode.LIST_TRANSACTIONS, header)
                for message in decode_messages(answer.body, name):
                    yield HalfMessage(message, given_up)
                page = answer.header(ListTransactionsResponseHeader)
                offset, is_last = page.next_offset, page.is_last

    async def _ask(self, address: str, code: RequestCode, header: Header) -> RemotingCommand:
        answer = await self._api.call(address, request(code, header), CALL_TIMEOUT)
        if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            raise NotSupported(f"the broker at {address} cannot list transactions: it is not PyroMQ's")
        if answer.code != ResponseCode.SUCCESS:
            raise broker_error(answer.code, answer.remark)
        return answer
