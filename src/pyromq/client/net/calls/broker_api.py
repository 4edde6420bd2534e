"""BrokerApi: one typed call for each request of a client. The caller chooses the address and the time-out."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Self

from pyromq.client.net.calls.answers import KeyPage, PullAnswer, PullStatus, SendAnswer
from pyromq.client.net.calls.base import CALL_TIMEOUT, broker_error
from pyromq.client.net.calls.group_calls import GroupCalls
from pyromq.client.net.calls.timer_calls import TimerCalls
from pyromq.client.net.name_servers import NameServers
from pyromq.client.send_result import SEND_STATUSES
from pyromq.clock import Clock, SystemClock
from pyromq.errors import AccessDenied, BrokerError, FateUnknown, NoRoute, QueryNotFound, TopicNotFound
from pyromq.protocol.acl import Credentials
from pyromq.protocol.bodies import (
    ClusterInfo,
    TopicList,
    TopicRouteData,
    decode,
)
from pyromq.protocol.codes import PERM_READ, PERM_WRITE, RequestCode, ResponseCode
from pyromq.protocol.command import RemotingCommand, request
from pyromq.protocol.headers import Header
from pyromq.protocol.headers.admin import UpdateAndCreateTopicRequestHeader
from pyromq.protocol.headers.offsets import (
    GetEarliestMsgStoretimeRequestHeader,
    GetEarliestMsgStoretimeResponseHeader,
    GetMaxOffsetRequestHeader,
    GetMaxOffsetResponseHeader,
    GetMinOffsetRequestHeader,
    GetMinOffsetResponseHeader,
    SearchOffsetByTimestampRequestHeader,
    SearchOffsetByTimestampResponseHeader,
)
from pyromq.protocol.headers.pull import (
    PullMessageRequestHeader,
    PullMessageResponseHeader,
    QueryMessageRequestHeader,
    ViewMessageByIdRequestHeader,
)
from pyromq.protocol.headers.routes import GetRouteInfoByTopicRequestHeader
from pyromq.protocol.headers.send import (
    STORED_HERE,
    SendMessageRequestHeaderV2,
    SendMessageResponseHeader,
    read_place,
)
from pyromq.protocol.headers.transactions import EndTransactionRequestHeader
from pyromq.protocol.messages.message import MessageExt
from pyromq.protocol.messages.record import decode_messages
from pyromq.protocol.names import DEFAULT_REGION, TBW102
from pyromq.remoting.client import RemotingClient
from pyromq.remoting.tls.client_tls import Tls, chosen_tls

QUERY_TIMEOUT = 18.0
_FOR_EVER_MS = 2**63 - 1


class BrokerApi(GroupCalls, TimerCalls):
    """Typed calls to brokers and name servers over connections that stay open.

    >>> async with await BrokerApi.connect("127.0.0.1:9876") as api:
    ...     route = await api.route("orders")
    """

    def __init__(self, remoting: RemotingClient, name_servers: NameServers) -> None:
        super().__init__(remoting)
        self.name_servers = name_servers

    @classmethod
    async def connect(
        cls,
        namesrv: str | Sequence[str],
        *,
        credentials: Credentials | None = None,
        tls: bool | Tls | None = None,
        clock: Clock | None = None,
    ) -> Self:
        """Return an API with its own connections, opened on first use; close it, or use it in `async with`."""
        remoting = RemotingClient(clock or SystemClock(), credentials=credentials, tls=chosen_tls(tls))
        return cls(remoting, NameServers.of(remoting, namesrv))

    def on_new_connections(self) -> Self:
        """Return a copy with connections of its own, for looks that must not trust the open ones; close it."""
        remoting = self.remoting.on_new_connections()
        return type(self)(remoting, self.name_servers.through(remoting))

    async def close(self) -> None:
        """Close all connections."""
        await self.remoting.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # --- name servers ------------------------------------------------------------------------------------------------

    async def _ask_name_server(self, code: RequestCode, header: Header | None, timeout: float) -> RemotingCommand:
        answer = await self.name_servers.call(request(code, header), timeout)
        if answer.code != ResponseCode.SUCCESS:
            raise broker_error(answer.code, answer.remark)
        return answer

    async def route(self, topic: str, *, timeout: float = CALL_TIMEOUT) -> TopicRouteData:
        """Return which brokers have the topic; raises NoRoute if none does, NoNameServer if no name server answers."""
        header = GetRouteInfoByTopicRequestHeader(topic=topic)
        try:
            answer = await self._ask_name_server(RequestCode.GET_ROUTEINFO_BY_TOPIC, header, timeout)
        except TopicNotFound:
            raise NoRoute(f"no broker has the topic {topic!r}") from None
        return decode(TopicRouteData, answer.body)

    async def cluster_info(self, *, timeout: float = CALL_TIMEOUT) -> ClusterInfo:
        """Return all brokers, by cluster."""
        answer = await self._ask_name_server(RequestCode.GET_BROKER_CLUSTER_INFO, None, timeout)
        return decode(ClusterInfo, answer.body)

    async def topic_list(self, *, timeout: float = CALL_TIMEOUT) -> list[str]:
        """Return the names of all topics."""
        answer = await self._ask_name_server(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, None, timeout)
        return sorted(decode(TopicList, answer.body).topic_list)

    # --- sending -----------------------------------------------------------------------------------------------------

    async def send(
        self, address: str, header: SendMessageRequestHeaderV2, body: bytes, *, timeout: float = CALL_TIMEOUT
    ) -> SendAnswer:
        """Send one message, or a batch if the header says so; raises BrokerError unless it was stored."""
        return read_sent(await self.remoting.request(address, send_request(header, body), timeout))

    async def send_for_answer(
        self, address: str, header: SendMessageRequestHeaderV2, body: bytes, *, timeout: float = CALL_TIMEOUT
    ) -> RemotingCommand:
        """Send one message, or a batch, and return the broker's whole answer: see `read_sent`, `read_region`."""
        return await self.remoting.request(address, send_request(header, body), timeout)

    async def send_reply(
        self, address: str, header: SendMessageRequestHeaderV2, body: bytes, *, timeout: float = CALL_TIMEOUT
    ) -> SendAnswer:
        """Send a reply to the client that waits for it; raises BrokerError if it did not arrive."""
        command = request(RequestCode.SEND_REPLY_MESSAGE_V2, header, body)
        return read_sent(await self.remoting.request(address, command, timeout))

    async def send_oneway(self, address: str, header: SendMessageRequestHeaderV2, body: bytes) -> None:
        """Send one message without an answer."""
        await self.remoting.oneway(address, send_request(header, body, oneway=True))

    async def end_transaction(self, address: str, header: EndTransactionRequestHeader, cause: str) -> None:
        """Tell a broker how a transaction ended; it does not answer."""
        await self.remoting.oneway(address, end_transaction_request(header, cause))

    # --- reading -----------------------------------------------------------------------------------------------------

    async def pull(self, address: str, header: PullMessageRequestHeader, *, timeout: float) -> PullAnswer:
        """Pull; `timeout` must be longer than the header lets the broker wait for messages."""
        answer = await self.call(address, request(RequestCode.PULL_MESSAGE, header), timeout)
        if answer.code not in _PULL_STATUSES:
            raise broker_error(answer.code, answer.remark)
        found = answer.header(PullMessageResponseHeader)
        return PullAnswer(
            _PULL_STATUSES[answer.code],
            found.next_begin_offset,
            found.min_offset,
            found.max_offset,
            found.suggest_which_broker_id,
            answer.body,
            found.pyromq_deleted_at or 0,
        )

    async def min_offset(self, address: str, topic: str, queue_id: int, *, timeout: float = CALL_TIMEOUT) -> int:
        """Return the first offset that still exists."""
        header = GetMinOffsetRequestHeader(topic=topic, queue_id=queue_id)
        answer = await self._ask(address, RequestCode.GET_MIN_OFFSET, header, timeout=timeout)
        return answer.header(GetMinOffsetResponseHeader).offset

    async def max_offset(self, address: str, topic: str, queue_id: int, *, timeout: float = CALL_TIMEOUT) -> int:
        """Return the offset that the next message will get."""
        header = GetMaxOffsetRequestHeader(topic=topic, queue_id=queue_id)
        answer = await self._ask(address, RequestCode.GET_MAX_OFFSET, header, timeout=timeout)
        return answer.header(GetMaxOffsetResponseHeader).offset

    async def search_offset(
        self, address: str, topic: str, queue_id: int, timestamp_ms: int, *, timeout: float = CALL_TIMEOUT
    ) -> int:
        """Return the offset stored nearest to that time, as brokers search: see `first_offset_since` for exactness."""
        header = SearchOffsetByTimestampRequestHeader(topic=topic, queue_id=queue_id, timestamp=timestamp_ms)
        answer = await self._ask(address, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header, timeout=timeout)
        return answer.header(SearchOffsetByTimestampResponseHeader).offset

    async def earliest_time_ms(
        self, address: str, topic: str, queue_id: int, *, timeout: float = CALL_TIMEOUT
    ) -> int | None:
        """Return when the queue's first message was stored, None if it is empty."""
        header = GetEarliestMsgStoretimeRequestHeader(topic=topic, queue_id=queue_id)
        answer = await self._ask(address, RequestCode.GET_EARLIEST_MSG_STORETIME, header, timeout=timeout)
        timestamp_ms = answer.header(GetEarliestMsgStoretimeResponseHeader).timestamp
        return None if timestamp_ms < 0 else timestamp_ms

    async def query(
        self,
        address: str,
        topic: str,
        key: str,
        *,
        unique: bool = False,
        most: int = 32,
        begin_ms: int = 0,
        end_ms: int = _FOR_EVER_MS,
        timeout: float = QUERY_TIMEOUT,
    ) -> list[MessageExt]:
        """Return messages by key, or by the client's id if `unique`; by default a broker returns at most 64."""
        page = await self.query_page(
            address, topic, key, unique=unique, most=most, begin_ms=begin_ms, end_ms=end_ms, timeout=timeout
        )
        return page.messages

    async def query_page(
        self,
        address: str,
        topic: str,
        key: str,
        *,
        unique: bool = False,
        most: int = 32,
        begin_ms: int = 0,
        end_ms: int = _FOR_EVER_MS,
        before: int | None = None,
        timeout: float = QUERY_TIMEOUT,
    ) -> KeyPage:
        """Return the newest messages with a key, and where the next older ones are.

        `before` asks for messages before an offset of the broker's log; only PyroMQ's brokers heed it.
        """
        header = QueryMessageRequestHeader(
            topic=topic,
            key=key,
            max_num=most,
            begin_timestamp=begin_ms,
            end_timestamp=end_ms,
            unique_key_query=unique,
            pyromq_before=before,
        )
        try:
            answer = await self._ask(address, RequestCode.QUERY_MESSAGE, header, timeout=timeout)
        except QueryNotFound:
            return KeyPage([], [])
        found = decode_messages(answer.body)  # brokers search by hash, so other topics and keys may be among them
        return KeyPage([each for each in found if each.topic == topic and _has(each, key, unique)], found)

    async def view(self, address: str, physical_offset: int, *, timeout: float = CALL_TIMEOUT) -> MessageExt | None:
        """Return the message at an offset of a broker's commit log, None if there is none."""
        header = ViewMessageByIdRequestHeader(offset=physical_offset)
        try:
            answer = await self._ask(address, RequestCode.VIEW_MESSAGE_BY_ID, header, timeout=timeout)
        except BrokerError as error:
            if error.code == ResponseCode.SYSTEM_ERROR and not isinstance(error, AccessDenied):
                return None
            raise
        return next(iter(decode_messages(answer.body)), None)

    # --- topics ------------------------------------------------------------------------------------------------------

    async def create_topic(
        self,
        address: str,
        topic: str,
        queues: int = 4,
        *,
        perm: int = PERM_READ | PERM_WRITE,
        timeout: float = CALL_TIMEOUT,
    ) -> None:
        """Create a topic on one broker, or change its settings."""
        header = UpdateAndCreateTopicRequestHeader(
            topic=topic,
            default_topic=TBW102,
            read_queue_nums=queues,
            write_queue_nums=queues,
            perm=perm,
            topic_filter_type="SINGLE_TAG",
            topic_sys_flag=0,
        )
        await self._ask(address, RequestCode.UPDATE_AND_CREATE_TOPIC, header, timeout=timeout)


_SEND = int(RequestCode.SEND_MESSAGE_V2)  # plain numbers: enum members are slower to look up and to encode
_SEND_BATCH = int(RequestCode.SEND_BATCH_MESSAGE)
_PULL_STATUSES = {int(status): status for status in PullStatus}


def send_request(header: SendMessageRequestHeaderV2, body: bytes, *, oneway: bool = False) -> RemotingCommand:
    """Return the request that sends a message, or a batch if the header says so."""
    return request(_SEND_BATCH if header.batch else _SEND, header, body, oneway=oneway)


def end_transaction_request(header: EndTransactionRequestHeader, cause: str) -> RemotingCommand:
    """Return the request that ends a transaction; brokers do not answer it. `cause` says why the end is unknown."""
    command = request(RequestCode.END_TRANSACTION, header, oneway=True)
    command.remark = cause or None
    return command


def _has(message: MessageExt, key: str, unique: bool) -> bool:
    return message.message_id == key if unique else key in message.keys


def read_sent(answer: RemotingCommand) -> SendAnswer:
    """Return where a message was stored; raises BrokerError if it was not."""
    status = SEND_STATUSES.get(answer.code)
    if status is None:
        if answer.code == ResponseCode.SERVICE_NOT_AVAILABLE and STORED_HERE in answer.ext_fields:
            raise FateUnknown(answer.remark or "")
        raise broker_error(answer.code, answer.remark)
    try:
        message_id, queue_id, queue_offset = read_place(answer.ext)  # type: ignore[arg-type]
        return SendAnswer(status, message_id, queue_id, queue_offset)
    except (LookupError, TypeError, ValueError):  # the general decoder accepts missing fields, and names a required one
        stored = answer.header(SendMessageResponseHeader)
        return SendAnswer(status, stored.msg_id, stored.queue_id, stored.queue_offset)


def read_region(answer: RemotingCommand) -> tuple[str, bool]:
    """Return the broker's region from its answer to a send, and True if clients may write traces there."""
    told = answer.ext_fields
    return told.get("MSG_REGION") or DEFAULT_REGION, told.get("TRACE_ON") != "false"
