"""BrokerApi: one typed call for each request of a client; every address and time-out is the caller's choice."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Self

from pyromq.client.address import parse_addresses
from pyromq.client.name_servers import NameServers
from pyromq.client.results import SEND_STATUSES, BrokerHello, PullAnswer, PullStatus, SendAnswer
from pyromq.clock import Clock, SystemClock
from pyromq.errors import BrokerError, NoRoute, QueryNotFound, TopicNotFound
from pyromq.protocol.bodies import (
    CheckClientRequestBody,
    ClusterInfo,
    GetConsumerListByGroupResponseBody,
    HeartbeatData,
    LockBatchRequestBody,
    LockBatchResponseBody,
    SubscriptionData,
    TopicList,
    TopicRouteData,
    UnlockBatchRequestBody,
    decode,
    encode,
)
from pyromq.protocol.codes import PERM_READ, PERM_WRITE, RequestCode, ResponseCode
from pyromq.protocol.command import RemotingCommand, request
from pyromq.protocol.headers import Header
from pyromq.protocol.headers.admin import UpdateAndCreateTopicRequestHeader
from pyromq.protocol.headers.clients import (
    GetConsumerListByGroupRequestHeader,
    HeartBeatResponseHeader,
    UnregisterClientRequestHeader,
)
from pyromq.protocol.headers.offsets import (
    GetEarliestMsgStoretimeRequestHeader,
    GetEarliestMsgStoretimeResponseHeader,
    GetMaxOffsetRequestHeader,
    GetMaxOffsetResponseHeader,
    GetMinOffsetRequestHeader,
    GetMinOffsetResponseHeader,
    QueryConsumerOffsetRequestHeader,
    QueryConsumerOffsetResponseHeader,
    SearchOffsetByTimestampRequestHeader,
    SearchOffsetByTimestampResponseHeader,
    UpdateConsumerOffsetRequestHeader,
)
from pyromq.protocol.headers.pull import PullMessageRequestHeader, PullMessageResponseHeader
from pyromq.protocol.headers.routes import GetRouteInfoByTopicRequestHeader
from pyromq.protocol.headers.send import (
    ConsumerSendMsgBackRequestHeader,
    SendMessageRequestHeaderV2,
    SendMessageResponseHeader,
)
from pyromq.protocol.message import MessageQueue
from pyromq.protocol.names import TBW102
from pyromq.remoting.client import RemotingClient

CALL_TIMEOUT = 3.0
LOCK_TIMEOUT = 1.0

_ERRORS = {int(kind.default_code): kind for kind in BrokerError.__subclasses__()}


def broker_error(code: int, remark: str | None) -> BrokerError:
    """Return the exception that stands for an answer's code."""
    return _ERRORS.get(code, BrokerError)(remark or "", code)


class BrokerApi:
    """Typed calls to brokers and name servers over kept connections.

    >>> async with await BrokerApi.connect("127.0.0.1:9876") as api:
    ...     route = await api.route("orders")
    """

    def __init__(self, remoting: RemotingClient, name_servers: NameServers) -> None:
        self.remoting = remoting
        self.name_servers = name_servers

    @classmethod
    async def connect(cls, namesrv: str | Sequence[str], *, clock: Clock | None = None) -> Self:
        """Return calls over connections of their own, made as they are needed; close it, or use it in `async with`."""
        remoting = RemotingClient(clock or SystemClock())
        return cls(remoting, NameServers(remoting, parse_addresses(namesrv)))

    async def close(self) -> None:
        """Close all connections."""
        await self.remoting.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # --- any request ----------------------------------------------------------------------------------------

    async def call(self, address: str, command: RemotingCommand, timeout: float = CALL_TIMEOUT) -> RemotingCommand:
        """Return a broker's answer, whatever its code."""
        return await self.remoting.request(address, command, timeout)

    async def _ask(
        self, address: str, code: RequestCode, header: Header | None = None, body: bytes = b"", *, timeout: float
    ) -> RemotingCommand:
        answer = await self.call(address, request(code, header, body), timeout)
        if answer.code != ResponseCode.SUCCESS:
            raise broker_error(answer.code, answer.remark)
        return answer

    # --- name servers ------------------------------------------------------------------------------------------------

    async def _ask_name_server(self, code: RequestCode, header: Header | None, timeout: float) -> RemotingCommand:
        answer = await self.name_servers.call(request(code, header), timeout)
        if answer.code != ResponseCode.SUCCESS:
            raise broker_error(answer.code, answer.remark)
        return answer

    async def route(self, topic: str, *, timeout: float = CALL_TIMEOUT) -> TopicRouteData:
        """Return which brokers have the topic; raises NoRoute if none does, ConnectFailed if no name server answers."""
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
        return _sent(await self.remoting.request(address, _send_request(header, body), timeout))

    async def send_reply(
        self, address: str, header: SendMessageRequestHeaderV2, body: bytes, *, timeout: float = CALL_TIMEOUT
    ) -> SendAnswer:
        """Send a reply to the client that waits for it; raises BrokerError unless it got there."""
        command = request(RequestCode.SEND_REPLY_MESSAGE_V2, header, body)
        return _sent(await self.remoting.request(address, command, timeout))

    async def send_oneway(self, address: str, header: SendMessageRequestHeaderV2, body: bytes) -> None:
        """Send one message and hear nothing of it."""
        await self.remoting.oneway(address, _send_request(header, body, oneway=True))

    # --- reading -----------------------------------------------------------------------------------------------------

    async def pull(self, address: str, header: PullMessageRequestHeader, *, timeout: float) -> PullAnswer:
        """Pull; `timeout` must exceed the time the header lets the broker wait for messages."""
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
        )

    async def min_offset(self, address: str, topic: str, queue_id: int, *, timeout: float = CALL_TIMEOUT) -> int:
        """Return the first offset that is still there."""
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

    # --- consumer groups ---------------------------------------------------------------------------------------------

    async def query_offset(
        self, address: str, group: str, topic: str, queue_id: int, *, timeout: float = CALL_TIMEOUT
    ) -> int | None:
        """Return what the group committed, None if nothing; a broker answers 0 for a young queue without a commit."""
        header = QueryConsumerOffsetRequestHeader(consumer_group=group, topic=topic, queue_id=queue_id)
        try:
            answer = await self._ask(address, RequestCode.QUERY_CONSUMER_OFFSET, header, timeout=timeout)
        except QueryNotFound:
            return None
        return answer.header(QueryConsumerOffsetResponseHeader).offset

    async def commit_offset(
        self, address: str, group: str, topic: str, queue_id: int, offset: int, *, timeout: float = CALL_TIMEOUT
    ) -> None:
        """Commit an offset, and wait until the broker has it."""
        header = UpdateConsumerOffsetRequestHeader(
            consumer_group=group, topic=topic, queue_id=queue_id, commit_offset=offset
        )
        await self._ask(address, RequestCode.UPDATE_CONSUMER_OFFSET, header, timeout=timeout)

    async def heartbeat(self, address: str, data: HeartbeatData, *, timeout: float = CALL_TIMEOUT) -> BrokerHello:
        """Tell a broker who lives here; return who it is."""
        answer = await self._ask(address, RequestCode.HEART_BEAT, body=encode(data), timeout=timeout)
        return BrokerHello(answer.version, answer.header(HeartBeatResponseHeader).pyromq)

    async def unregister(
        self,
        address: str,
        client_id: str,
        *,
        producer_group: str | None = None,
        consumer_group: str | None = None,
        timeout: float = CALL_TIMEOUT,
    ) -> None:
        """Tell a broker that a group's member leaves."""
        header = UnregisterClientRequestHeader(
            client_id=client_id, producer_group=producer_group, consumer_group=consumer_group
        )
        await self._ask(address, RequestCode.UNREGISTER_CLIENT, header, timeout=timeout)

    async def consumer_list(self, address: str, group: str, *, timeout: float = CALL_TIMEOUT) -> list[str]:
        """Return the client ids of the group's members; raises BrokerError if the broker knows none."""
        header = GetConsumerListByGroupRequestHeader(consumer_group=group)
        answer = await self._ask(address, RequestCode.GET_CONSUMER_LIST_BY_GROUP, header, timeout=timeout)
        return decode(GetConsumerListByGroupResponseBody, answer.body).consumer_id_list

    async def send_back(
        self, address: str, header: ConsumerSendMsgBackRequestHeader, *, timeout: float = CALL_TIMEOUT
    ) -> None:
        """Have a broker keep a message that was not consumed for later, or among the dead letters."""
        await self._ask(address, RequestCode.CONSUMER_SEND_MSG_BACK, header, timeout=timeout)

    async def lock(
        self, address: str, group: str, client_id: str, queues: Sequence[MessageQueue], *, timeout: float = LOCK_TIMEOUT
    ) -> list[MessageQueue]:
        """Take or renew queue locks; return the queues that this client may consume now."""
        body = LockBatchRequestBody(consumer_group=group, client_id=client_id, mq_set=list(queues))
        answer = await self._ask(address, RequestCode.LOCK_BATCH_MQ, body=encode(body), timeout=timeout)
        return decode(LockBatchResponseBody, answer.body).lock_ok_mq_set

    async def unlock(
        self, address: str, group: str, client_id: str, queues: Sequence[MessageQueue], *, timeout: float = LOCK_TIMEOUT
    ) -> None:
        """Return queue locks."""
        body = UnlockBatchRequestBody(consumer_group=group, client_id=client_id, mq_set=list(queues))
        await self._ask(address, RequestCode.UNLOCK_BATCH_MQ, body=encode(body), timeout=timeout)

    async def check_subscription(
        self, address: str, client_id: str, group: str, subscription: SubscriptionData, *, timeout: float = CALL_TIMEOUT
    ) -> int:
        """Return a broker's version if it can filter like this; raises BrokerError with its reason if it cannot."""
        body = CheckClientRequestBody(client_id=client_id, group=group, subscription_data=subscription)
        answer = await self._ask(address, RequestCode.CHECK_CLIENT_CONFIG, body=encode(body), timeout=timeout)
        return answer.version

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
        """Make a topic on one broker, or give one other settings."""
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


_SEND = int(RequestCode.SEND_MESSAGE_V2)  # plain numbers: an enum member costs more to find and to write
_SEND_BATCH = int(RequestCode.SEND_BATCH_MESSAGE)
_PULL_STATUSES = {int(status): status for status in PullStatus}


def _send_request(header: SendMessageRequestHeaderV2, body: bytes, *, oneway: bool = False) -> RemotingCommand:
    return request(_SEND_BATCH if header.batch else _SEND, header, body, oneway=oneway)


def _sent(answer: RemotingCommand) -> SendAnswer:
    status = SEND_STATUSES.get(answer.code)
    if status is None:
        raise broker_error(answer.code, answer.remark)
    stored = answer.header(SendMessageResponseHeader)
    return SendAnswer(status, stored.msg_id, stored.queue_id, stored.queue_offset)
