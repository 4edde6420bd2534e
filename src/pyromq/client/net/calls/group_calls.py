"""Requests of a group's members: offsets, heartbeats, member lists, queue locks, messages sent back."""

from __future__ import annotations

from collections.abc import Sequence

from pyromq.client.net.calls.answers import BrokerIdentity, CommittedOffset
from pyromq.client.net.calls.base import CALL_TIMEOUT, BrokerCalls
from pyromq.errors import QueryNotFound
from pyromq.protocol.bodies import (
    CheckClientRequestBody,
    GetConsumerListByGroupResponseBody,
    HeartbeatData,
    LockBatchRequestBody,
    LockBatchResponseBody,
    SubscriptionData,
    UnlockBatchRequestBody,
    decode,
    encode,
)
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.headers.clients import (
    GetConsumerListByGroupRequestHeader,
    HeartBeatResponseHeader,
    UnregisterClientRequestHeader,
)
from pyromq.protocol.headers.offsets import (
    QueryConsumerOffsetRequestHeader,
    QueryConsumerOffsetResponseHeader,
    UpdateConsumerOffsetRequestHeader,
)
from pyromq.protocol.headers.send import ConsumerSendMsgBackRequestHeader
from pyromq.protocol.messages.message import MessageQueue

LOCK_TIMEOUT = 1.0


class GroupCalls(BrokerCalls):
    """Typed calls about groups."""

    async def query_offset(
        self, address: str, group: str, topic: str, queue_id: int, *, timeout: float = CALL_TIMEOUT
    ) -> int | None:
        """Return the committed offset, None if there is none; brokers answer 0 for a new queue without a commit."""
        return (await self.query_committed(address, group, topic, queue_id, timeout=timeout)).offset

    async def query_committed(
        self, address: str, group: str, topic: str, queue_id: int, *, timeout: float = CALL_TIMEOUT
    ) -> CommittedOffset:
        """Return the same, and in which life of its topic: see `CommittedOffset`."""
        header = QueryConsumerOffsetRequestHeader(consumer_group=group, topic=topic, queue_id=queue_id)
        try:
            answer = await self._ask(address, RequestCode.QUERY_CONSUMER_OFFSET, header, timeout=timeout)
        except QueryNotFound:
            return CommittedOffset(None)
        found = answer.header(QueryConsumerOffsetResponseHeader)
        return CommittedOffset(found.offset, found.pyromq_deleted_at or 0)

    async def commit_offset(
        self,
        address: str,
        group: str,
        topic: str,
        queue_id: int,
        offset: int,
        *,
        forward: bool = False,
        reset: bool = False,
        deleted_at: int | None = None,
        timeout: float = CALL_TIMEOUT,
    ) -> None:
        """Commit an offset; on return the broker has it. With `forward`, PyroMQ's keeps one that is higher.

        With `reset` an operator moves the group, and PyroMQ's broker notes that in its access log. With `deleted_at` it
        ignores what was consumed of a topic of this name that was deleted since.
        """
        header = UpdateConsumerOffsetRequestHeader(
            consumer_group=group,
            topic=topic,
            queue_id=queue_id,
            commit_offset=offset,
            pyromq_forward=forward or None,
            pyromq_reset=reset or None,
            pyromq_deleted_at=deleted_at,
        )
        await self._ask(address, RequestCode.UPDATE_CONSUMER_OFFSET, header, timeout=timeout)

    async def heartbeat(self, address: str, data: HeartbeatData, *, timeout: float = CALL_TIMEOUT) -> BrokerIdentity:
        """Send a heartbeat and return the broker's identity."""
        answer = await self._ask(address, RequestCode.HEART_BEAT, body=encode(data), timeout=timeout)
        return BrokerIdentity(answer.version, answer.header(HeartBeatResponseHeader).pyromq)

    async def unregister(
        self,
        address: str,
        client_id: str,
        *,
        producer_group: str | None = None,
        consumer_group: str | None = None,
        timeout: float = CALL_TIMEOUT,
    ) -> None:
        """Tell a broker that a member leaves its group."""
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
        """Send a message back that was not consumed; the broker keeps it for a retry, or as a dead letter."""
        await self._ask(address, RequestCode.CONSUMER_SEND_MSG_BACK, header, timeout=timeout)

    async def lock(
        self, address: str, group: str, client_id: str, queues: Sequence[MessageQueue], *, timeout: float = LOCK_TIMEOUT
    ) -> list[MessageQueue]:
        """Acquire or renew queue locks; return the queues that are locked for this client."""
        body = LockBatchRequestBody(consumer_group=group, client_id=client_id, mq_set=list(queues))
        answer = await self._ask(address, RequestCode.LOCK_BATCH_MQ, body=encode(body), timeout=timeout)
        return decode(LockBatchResponseBody, answer.body).lock_ok_mq_set

    async def unlock(
        self, address: str, group: str, client_id: str, queues: Sequence[MessageQueue], *, timeout: float = LOCK_TIMEOUT
    ) -> None:
        """Release queue locks."""
        body = UnlockBatchRequestBody(consumer_group=group, client_id=client_id, mq_set=list(queues))
        await self._ask(address, RequestCode.UNLOCK_BATCH_MQ, body=encode(body), timeout=timeout)

    async def check_subscription(
        self, address: str, client_id: str, group: str, subscription: SubscriptionData, *, timeout: float = CALL_TIMEOUT
    ) -> int:
        """Return the broker's version if it supports this filter; raises BrokerError with its reason if not."""
        body = CheckClientRequestBody(client_id=client_id, group=group, subscription_data=subscription)
        answer = await self._ask(address, RequestCode.CHECK_CLIENT_CONFIG, body=encode(body), timeout=timeout)
        return answer.version
