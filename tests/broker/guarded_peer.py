"""A broker with access control, and requests to it by accounts of every kind."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from pyromq.broker.server import Broker
from pyromq.clock import Clock
from pyromq.protocol.acl import ACCESS_KEY, Credentials, signed
from pyromq.protocol.bodies import (
    CheckClientRequestBody,
    LockBatchRequestBody,
    SubscriptionData,
    encode,
)
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import RemotingCommand, request
from pyromq.protocol.headers import Header
from pyromq.protocol.headers.transactions import EndTransactionRequestHeader, TransactionState
from pyromq.protocol.messages.message import MessageQueue
from pyromq.protocol.messages.message_id import RecallHandle, decode_offset_id, encode_handle
from pyromq.remoting.client import RemotingClient
from pyromq.remoting.requests import RequestRow
from tests.access.accounts_text import ADMIN, MINE, MY_GROUP
from tests.broker.helpers import heartbeat, send_header

REFUSED: Final = re.compile(r"access denied(?: to [^:]*)?: (.*)")  # as our connection translates it
HALF: Final = "TRAN_MSG\x01true\x02PGROUP\x01shop"
UNIQ_KEY: Final = "C0A8000100002A9F0000000000000001"


class GuardedPeer:
    """Asks a broker with access control; every request on one connection, whoever signs it."""

    def __init__(self, broker: Broker, clock: Clock, port: int | None = None) -> None:
        self.clock = clock
        self.remoting = RemotingClient(clock)
        self.address = f"127.0.0.1:{port or broker.port}"

    async def ask(
        self,
        account: Credentials | None,
        code: int,
        header: Header | Mapping[str, str] | None = None,
        body: bytes = b"",
        **added: str,
    ) -> RemotingCommand:
        """Send a request, with fields added after it was signed; return the answer."""
        command = request(code, header, body)
        command = command if account is None else signed(command, account)
        command.ext = command.ext_fields | added
        return await self.remoting.request(self.address, command, 30.0)

    async def done(self, account: Credentials, code: int, header: Any = None, body: bytes = b"") -> RemotingCommand:
        """Send a request that must be answered with success."""
        answer = await self.ask(account, code, header, body)
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        return answer

    async def refusal(
        self, account: Credentials | None, code: int, header: Any = None, body: bytes = b"", **added: str
    ) -> str:
        """Send a request that must be refused; return why."""
        answer = await self.ask(account, code, header, body, **added)
        assert is_refused(answer), f"{code} was answered with {answer.code}: {answer.remark}"
        return REFUSED.sub(r"\1", answer.remark or "")

    async def send(self, topic: str, body: bytes = b"x", account: Credentials = ADMIN, **fields: Any) -> int:
        """Send a message; return its physical offset."""
        answer = await self.done(account, RequestCode.SEND_MESSAGE_V2, send_header(topic, **fields), body)
        return decode_offset_id(answer.ext_fields["msgId"])[1]


def is_refused(answer: RemotingCommand) -> bool:
    return answer.code == ResponseCode.SYSTEM_ERROR and REFUSED.fullmatch(answer.remark or "") is not None


class Stored:
    """What requests about stored messages can name: all of topic MINE."""

    def __init__(self, plain: int, half: int) -> None:
        self.plain = plain
        self.half = half

    @classmethod
    async def make(cls, peer: GuardedPeer, topic: str = MINE) -> Stored:
        plain = await peer.send(topic)
        half = await peer.send(topic, properties=HALF, sys_flag=4, born_timestamp=peer.clock.now_ms())
        await peer.send(topic, properties=f"UNIQ_KEY\x01{UNIQ_KEY}\x02TIMER_DELAY_MS\x01600000")
        return cls(plain, half)


def well_formed(row: RequestRow, stored: Stored) -> tuple[Header | None, bytes]:
    """Return header and body of a request about topic MINE and group MY_GROUP."""
    match row.code:
        case RequestCode.HEART_BEAT:
            return None, heartbeat(group=MY_GROUP, topics={MINE: "*"})
        case RequestCode.CHECK_CLIENT_CONFIG:
            wanted = SubscriptionData(topic=MINE)
            return None, encode(CheckClientRequestBody(group=MY_GROUP, subscription_data=wanted))
        case RequestCode.LOCK_BATCH_MQ | RequestCode.UNLOCK_BATCH_MQ:
            queues = [MessageQueue(MINE, "broker-a", 0)]
            return None, encode(LockBatchRequestBody(consumer_group=MY_GROUP, client_id="c", mq_set=queues))
        case RequestCode.END_TRANSACTION:
            return end_header(stored.half, 0), b""
    if row.header is None:
        return None, b""
    known: dict[str, Any] = {
        "topic": MINE,
        "consumer_group": MY_GROUP,
        "group": MY_GROUP,
        "offset": stored.plain,
        "ranges": "0:0:1",
        "max_msg_nums": 1,
        "key": "k",
        "recall_handle": encode_handle(RecallHandle(MINE, "broker-a", "0", UNIQ_KEY)),
        "client_id": "client-1",
    }
    if row.code in (RequestCode.SEND_REPLY_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2):
        known["topic"] = "DefaultCluster_REPLY_TOPIC"
    fields = {field.name: field for field in msgspec.structs.fields(row.header)}
    values = {name: value for name, value in known.items() if name in fields}
    for name, field in fields.items():
        if field.required and name not in values:
            values[name] = "0" if field.type is str else 0
    return row.header(**values), b""


def end_header(half: int, queue_offset: int, *, commit: bool = True) -> EndTransactionRequestHeader:
    return EndTransactionRequestHeader(
        producer_group="shop",
        tran_state_table_offset=queue_offset,
        commit_log_offset=half,
        commit_or_rollback=TransactionState.COMMIT if commit else TransactionState.ROLLBACK,
        msg_id="m",
    )


def unsigned(account: Credentials) -> dict[str, str]:
    """Return the field that names an account, for a request that has no signature."""
    return {ACCESS_KEY: account.access_key}
