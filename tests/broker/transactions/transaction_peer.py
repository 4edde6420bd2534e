"""A producer of transactions as a broker sees it, with nothing of the client in between."""

from __future__ import annotations

from typing import Any, NamedTuple

from pyromq.broker.server import Broker
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import RemotingCommand, request
from pyromq.protocol.headers.send import SendMessageResponseHeader
from pyromq.protocol.headers.transactions import (
    CheckTransactionStateRequestHeader,
    EndTransactionRequestHeader,
    ListTransactionsRequestHeader,
    TransactionState,
)
from pyromq.protocol.messages.message import MessageExt
from pyromq.protocol.messages.message_id import decode_offset_id
from pyromq.protocol.messages.properties import encode_properties
from pyromq.protocol.messages.record import decode_messages
from pyromq.protocol.names import TRANSACTION_CHECK_MAX_TOPIC, TRANSACTION_HALF_TOPIC, TRANSACTION_OP_TOPIC
from pyromq.remoting.client import RemotingClient
from pyromq.remoting.connection import Connection
from pyromq.testing import TestClock, eventually
from tests.broker.helpers import Peer, heartbeat

COMMIT, ROLLBACK, UNKNOWN = TransactionState.COMMIT, TransactionState.ROLLBACK, TransactionState.UNKNOWN
GROUP = "payers"


class Place(NamedTuple):
    """Where a half message is."""

    queue_offset: int
    physical_offset: int


class Question(NamedTuple):
    """What a producer was asked."""

    place: Place
    header: CheckTransactionStateRequestHeader
    message: MessageExt


class TransactionPeer(Peer):
    """Sends half messages, ends them, and keeps what it is asked."""

    def __init__(self, broker: Broker, clock: TestClock, group: str = GROUP) -> None:
        super().__init__(broker.address, clock)
        self.group = group
        self.questions: list[Question] = []
        self.clock = clock
        self.broker = broker
        self.remoting = RemotingClient(clock, handlers={RequestCode.CHECK_TRANSACTION_STATE: self._asked})

    def _asked(self, command: RemotingCommand, connection: Connection) -> None:
        header = command.header(CheckTransactionStateRequestHeader)
        place = Place(header.tran_state_table_offset, header.commit_log_offset)
        self.questions.append(Question(place, header, decode_messages(command.body)[0]))

    async def enter(self) -> None:
        """Tell the broker of this producer."""
        await self.ask(RequestCode.HEART_BEAT, None, heartbeat(self.group, producer=self.group))

    async def stay(self, seconds: float) -> None:
        """Let time pass, with a heartbeat every 30 s: a silent producer is taken for a dead one."""
        while seconds > 0:
            await self.clock.advance_async(seconds=min(seconds, 30))
            seconds -= 30
            await self.enter()

    async def prepare(self, key: str = "tx-1", *, expect: int = 0, **properties: str) -> Place:
        """Send a half message."""
        known = {"TRAN_MSG": "true", "PGROUP": self.group, "UNIQ_KEY": key, "WAIT": "true", **properties}
        answer = await self.send(
            body=key.encode(),
            sys_flag=4,
            properties=encode_properties(known),
            born_timestamp=self.clock.now_ms(),
            expect=expect,
        )
        if expect:
            return Place(-1, -1)
        stored = answer.header(SendMessageResponseHeader)
        return Place(stored.queue_offset, decode_offset_id(stored.msg_id)[1])

    def end_header(self, place: Place, state: TransactionState, **fields: Any) -> EndTransactionRequestHeader:
        """Return the header of an end."""
        values: dict[str, Any] = {
            "producer_group": self.group,
            "tran_state_table_offset": place.queue_offset,
            "commit_log_offset": place.physical_offset,
            "commit_or_rollback": state,
            "msg_id": "tx",
        }
        return EndTransactionRequestHeader(**values | fields)

    async def end(
        self, place: Place, state: TransactionState = COMMIT, *, expect: int = 0, **fields: Any
    ) -> RemotingCommand:
        """End a transaction and hear what the broker says."""
        return await self.ask(RequestCode.END_TRANSACTION, self.end_header(place, state, **fields), expect=expect)

    async def end_oneway(self, place: Place, state: TransactionState = COMMIT, **fields: Any) -> None:
        """End a transaction as Java's client does."""
        command = request(RequestCode.END_TRANSACTION, self.end_header(place, state, **fields))
        await self.remoting.oneway(self.address, command)

    async def answer(self, question: Question, state: TransactionState = COMMIT, *, expect: int = 0) -> None:
        """Answer a question."""
        await self.end(question.place, state, from_transaction_check=True, expect=expect)

    async def asked(self, count: int) -> list[Question]:
        """Return the questions once there are so many."""
        await eventually(lambda: len(self.questions) >= count)
        return self.questions

    async def listed(self, given_up: bool = False) -> list[MessageExt]:
        """Return the half messages that the broker lists."""
        header = ListTransactionsRequestHeader(given_up=given_up, offset=0, max_num=100)
        return decode_messages((await self.ask(RequestCode.LIST_TRANSACTIONS, header)).body)

    # --- what is stored

    def halves(self) -> list[MessageExt]:
        """Return all half messages, also those that are settled."""
        return self._stored(TRANSACTION_HALF_TOPIC)

    def ops(self) -> list[MessageExt]:
        """Return all op records."""
        return self._stored(TRANSACTION_OP_TOPIC)

    def given_up(self) -> list[MessageExt]:
        """Return all that was given up."""
        return self._stored(TRANSACTION_CHECK_MAX_TOPIC)

    def delivered(self, topic: str = "orders") -> list[MessageExt]:
        """Return what consumers can get."""
        return self._stored(topic)

    def _stored(self, topic: str) -> list[MessageExt]:
        found = self.broker.store.get(topic, 0, 0, 10_000, max_bytes=8 << 20)
        return decode_messages(b"".join(found.views))
