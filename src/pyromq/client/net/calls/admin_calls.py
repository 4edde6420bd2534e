"""Requests that operators send to one broker: about groups, topics, transactions and its configuration."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

from pyromq.client.net.calls.base import CALL_TIMEOUT, BrokerCalls
from pyromq.errors import BrokerError, NotSupported, TopicNotFound
from pyromq.protocol.bodies import (
    ConsumeMessageDirectlyResult,
    ConsumerConnection,
    ConsumerOffsetSerializeWrapper,
    ConsumerRunningInfo,
    ConsumeStats,
    GroupList,
    KVTable,
    ProducerTableInfo,
    ResetOffsetBody,
    SubscriptionGroupConfig,
    SubscriptionGroupWrapper,
    TopicConfig,
    TopicConfigSerializeWrapper,
    TopicFilterType,
    TopicOffset,
    TopicStatsTable,
    decode,
    encode,
)
from pyromq.protocol.bodies.activity import (
    GroupActivities,
    TopicActivities,
    TopicActivity,
    decode_activity,
)
from pyromq.protocol.bodies.replication import Promotion, ReplicationState, decode_promotion, decode_state
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import RemotingCommand
from pyromq.protocol.headers import Header
from pyromq.protocol.headers.admin import (
    CloneGroupOffsetRequestHeader,
    DeleteSubscriptionGroupRequestHeader,
    DeleteTopicInBrokerRequestHeader,
    GetConsumerConnectionListRequestHeader,
    GetConsumeStatsRequestHeader,
    GetTopicStatsInfoRequestHeader,
    InvokeBrokerToResetOffsetRequestHeader,
    QueryTopicConsumeByWhoRequestHeader,
    TablePartRequestHeader,
    TablePartResponseHeader,
    UpdateAndCreateTopicRequestHeader,
)
from pyromq.protocol.headers.clients import ConsumeMessageDirectlyRequestHeader, GetConsumerRunningInfoRequestHeader
from pyromq.protocol.headers.replication import PromoteBrokerRequestHeader
from pyromq.protocol.headers.transactions import (
    ListTransactionsRequestHeader,
    ListTransactionsResponseHeader,
    ResumeCheckHalfMessageRequestHeader,
)
from pyromq.protocol.messages.message import MessageExt, MessageQueue
from pyromq.protocol.messages.record import decode_messages
from pyromq.protocol.names import TBW102

R = TypeVar("R")

STATS_TIMEOUT = 15.0
"""Seconds for a broker to read the times of many queues."""
ANSWER_TIMEOUT = 5.0
"""Seconds for a consumer to report its state; its broker would wait for 10 s."""

LISTENER_TIMEOUT = 15.0
"""Seconds for a consumer to handle a message; its broker waits for 10 s."""

PROMOTION_TIMEOUT = 20.0
"""Seconds for a slave to become master: it may wait for its old master, and for other slaves."""


class HalfMessagePage(NamedTuple):
    """Some half messages of one broker, and where the next ones begin."""

    messages: list[MessageExt]
    next_offset: int
    is_last: bool


class AdminCalls(BrokerCalls):
    """Typed requests for operators' tools."""

    # --- groups ------------------------------------------------------------------------------------------------------

    async def group_connections(self, address: str, group: str) -> ConsumerConnection | None:
        """Return the members that are connected to this broker, None if there are none."""
        header = GetConsumerConnectionListRequestHeader(consumer_group=group)
        code = RequestCode.GET_CONSUMER_CONNECTION_LIST
        try:
            answer = await self._ask(address, code, header, timeout=CALL_TIMEOUT)
        except BrokerError as error:
            if error.code == ResponseCode.CONSUMER_NOT_ONLINE:
                return None
            raise
        return decode(ConsumerConnection, answer.body)

    async def consume_stats(self, address: str, group: str, topic: str | None = None) -> ConsumeStats:
        """Return how far a group is in this broker's queues of a topic, or of all topics with offsets."""
        header = GetConsumeStatsRequestHeader(consumer_group=group, topic=topic)
        answer = await self._ask(address, RequestCode.GET_CONSUME_STATS, header, timeout=STATS_TIMEOUT)
        return decode(ConsumeStats, answer.body)

    async def running_info(
        self, address: str, group: str, client_id: str, *, stack: bool = False
    ) -> ConsumerRunningInfo:
        """Ask a member, through its broker, to report its state, with the stacks of its threads if wanted."""
        header = GetConsumerRunningInfoRequestHeader(consumer_group=group, client_id=client_id, jstack_enable=stack)
        answer = await self._ask(address, RequestCode.GET_CONSUMER_RUNNING_INFO, header, timeout=ANSWER_TIMEOUT)
        return decode(ConsumerRunningInfo, answer.body)

    async def consume_directly(
        self, address: str, group: str, client_id: str, offset_message_id: str
    ) -> ConsumeMessageDirectlyResult:
        """Have a member's listener handle a message of this broker."""
        header = ConsumeMessageDirectlyRequestHeader(
            consumer_group=group, client_id=client_id, msg_id=offset_message_id
        )
        answer = await self._ask(address, RequestCode.CONSUME_MESSAGE_DIRECTLY, header, timeout=LISTENER_TIMEOUT)
        return decode(ConsumeMessageDirectlyResult, answer.body)

    async def group_settings(self, address: str) -> dict[str, SubscriptionGroupConfig]:
        """Return the settings of all groups of this broker."""
        return await self._table(
            address,
            RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
            lambda body: decode(SubscriptionGroupWrapper, body).subscription_group_table,
        )

    async def committed_offsets(self, address: str) -> dict[str, dict[int, int]]:
        """Return all offsets committed at this broker: by `topic@group`, then by queue."""
        return await self._table(
            address,
            RequestCode.GET_ALL_CONSUMER_OFFSET,
            lambda body: decode(ConsumerOffsetSerializeWrapper, body).offset_table,
        )

    async def topics_by_group(self, address: str) -> dict[str, set[str]]:
        """Return the topics for which each group has offsets at this broker."""
        found: dict[str, set[str]] = {}
        for key in await self.committed_offsets(address):
            topic, _, group = key.partition("@")
            found.setdefault(group, set()).add(topic)
        return found

    async def update_group(self, address: str, settings: SubscriptionGroupConfig) -> None:
        """Change the settings of a group; create it if it does not exist."""
        code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
        await self._ask(address, code, body=encode(settings), timeout=CALL_TIMEOUT)

    async def delete_group(self, address: str, group: str) -> None:
        """Delete a group and its offsets from this broker."""
        header = DeleteSubscriptionGroupRequestHeader(group_name=group, remove_offset=True)
        await self._ask(address, RequestCode.DELETE_SUBSCRIPTIONGROUP, header, timeout=CALL_TIMEOUT)

    async def clone_offsets(self, address: str, source: str, target: str, topic: str) -> None:
        """Copy the offsets of a topic from one group to another, whether the source is online or not."""
        header = CloneGroupOffsetRequestHeader(src_group=source, dest_group=target, topic=topic, offline=True)
        await self._ask(address, RequestCode.CLONE_GROUP_OFFSET, header, timeout=CALL_TIMEOUT)

    async def reset_offsets(self, address: str, group: str, topic: str, timestamp_ms: int) -> dict[MessageQueue, int]:
        """Tell a group's members to continue from a time, -1 for the end; return that offset in each queue."""
        header = InvokeBrokerToResetOffsetRequestHeader(topic=topic, group=group, timestamp=timestamp_ms, is_force=True)
        answer = await self._ask(address, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header, timeout=CALL_TIMEOUT)
        return decode(ResetOffsetBody, answer.body).offset_table

    # --- topics ------------------------------------------------------------------------------------------------------

    async def topic_configs(self, address: str) -> dict[str, TopicConfig]:
        """Return all topics of a broker."""
        return await self._table(
            address,
            RequestCode.GET_ALL_TOPIC_CONFIG,
            lambda body: decode(TopicConfigSerializeWrapper, body).topic_config_table,
        )

    async def _table(self, address: str, code: RequestCode, rows_of: Callable[[bytes], dict[str, R]]) -> dict[str, R]:
        """Return all rows of a broker's table: from one of ours in parts, since large tables do not fit in a frame."""
        rows: dict[str, R] = {}
        begin = TablePartResponseHeader(pyromq_next=0)
        part = begin
        while part.pyromq_next is not None:
            header = TablePartRequestHeader(pyromq_from=part.pyromq_next)
            answer = await self._ask(address, code, header, timeout=CALL_TIMEOUT)
            edition, part = part.pyromq_edition, answer.header(TablePartResponseHeader)
            if edition not in (None, part.pyromq_edition):  # rows were removed meanwhile, and others moved
                part, rows = begin, {}
                continue
            rows |= rows_of(answer.body)
        return rows

    async def update_topic(self, address: str, settings: TopicConfig) -> None:
        """Change the settings of a topic; create it if it does not exist."""
        header = UpdateAndCreateTopicRequestHeader(
            topic=settings.topic_name,
            default_topic=TBW102,
            read_queue_nums=settings.read_queue_nums,
            write_queue_nums=settings.write_queue_nums,
            perm=settings.perm,
            topic_filter_type="MULTI_TAG" if settings.topic_filter_type is TopicFilterType.MULTI_TAG else "SINGLE_TAG",
            topic_sys_flag=settings.topic_sys_flag,
            order=settings.order,
        )
        await self._ask(address, RequestCode.UPDATE_AND_CREATE_TOPIC, header, timeout=CALL_TIMEOUT)

    async def delete_topic(self, address: str, topic: str) -> None:
        """Delete a topic, its queues and offsets from this broker."""
        header = DeleteTopicInBrokerRequestHeader(topic=topic)
        await self._ask(address, RequestCode.DELETE_TOPIC_IN_BROKER, header, timeout=CALL_TIMEOUT)

    async def topic_groups(self, address: str, topic: str) -> list[str]:
        """Return the groups that consume a topic at a broker, or did so before."""
        header = QueryTopicConsumeByWhoRequestHeader(topic=topic)
        answer = await self._ask(address, RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, header, timeout=CALL_TIMEOUT)
        return decode(GroupList, answer.body).group_list

    async def topic_ends(self, address: str, topic: str) -> dict[MessageQueue, TopicOffset] | None:
        """Return where the queues of a topic begin and end, None if this broker does not have it."""
        header = GetTopicStatsInfoRequestHeader(topic=topic)
        try:
            answer = await self._ask(address, RequestCode.GET_TOPIC_STATS_INFO, header, timeout=CALL_TIMEOUT)
        except TopicNotFound:
            return None
        return decode(TopicStatsTable, answer.body).offset_table

    # --- all topics and groups at once -------------------------------------------------------------------------------

    async def topic_activity(self, address: str) -> dict[str, TopicActivity] | None:
        """Return what was counted of all topics; None if the broker is not one of ours."""
        try:
            return await self._table(
                address, RequestCode.TOPIC_ACTIVITY, lambda body: decode_activity(TopicActivities, body).topics
            )
        except BrokerError as error:
            if error.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                return None
            raise

    async def group_activity(self, address: str) -> GroupActivities | None:
        """Return how far all groups are; None if the broker is not one of ours."""
        try:
            answer = await self._ask(address, RequestCode.GROUP_ACTIVITY, timeout=STATS_TIMEOUT)
        except BrokerError as error:
            if error.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                return None
            raise
        return decode_activity(GroupActivities, answer.body)

    async def all_producers(self, address: str) -> ProducerTableInfo | None:
        """Return the clients of all producer groups; None if the broker cannot say: Apache's before 4.9.4."""
        try:
            answer = await self._ask(address, RequestCode.GET_ALL_PRODUCER_INFO, timeout=STATS_TIMEOUT)
        except BrokerError as error:
            if error.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                return None
            raise
        return decode(ProducerTableInfo, answer.body)

    # --- transactions and the broker itself --------------------------------------------------------------------------

    async def half_messages(
        self, address: str, broker_name: str, offset: int, most: int, *, given_up: bool
    ) -> HalfMessagePage:
        """Return some of the messages whose transactions have not ended, or that were given up, from an offset on."""
        header = ListTransactionsRequestHeader(given_up=given_up, offset=offset, max_num=most)
        answer = await self._ask_about_transactions(address, RequestCode.LIST_TRANSACTIONS, header)
        page = answer.header(ListTransactionsResponseHeader)
        return HalfMessagePage(decode_messages(answer.body, broker_name), page.next_offset, page.is_last)

    async def resume_checks(self, address: str, offset_message_id: str) -> None:
        """Let a broker ask again about a transaction that it gave up; raises BrokerError if it cannot."""
        header = ResumeCheckHalfMessageRequestHeader(msg_id=offset_message_id)
        await self._ask_about_transactions(address, RequestCode.RESUME_CHECK_HALF_MESSAGE, header)

    async def _ask_about_transactions(self, address: str, code: RequestCode, header: Header) -> RemotingCommand:
        try:
            return await self._ask(address, code, header, timeout=CALL_TIMEOUT)
        except BrokerError as error:
            if error.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                raise
            raise NotSupported(f"the broker at {address} cannot list transactions: it is not PyroMQ's") from None

    async def broker_config(self, address: str) -> dict[str, str]:
        """Return a broker's configuration, by key."""
        answer = await self._ask(address, RequestCode.GET_BROKER_CONFIG, timeout=CALL_TIMEOUT)
        lines = answer.body.decode(errors="replace").splitlines()
        return {key.strip(): value.strip() for key, _, value in (line.partition("=") for line in lines)}

    # --- masters and slaves ------------------------------------------------------------------------------------------

    async def replication_state(self, address: str) -> ReplicationState | None:
        """Return how a broker's log stands; None if the broker is not one of ours."""
        try:
            answer = await self._ask(address, RequestCode.REPLICATION_STATE, timeout=CALL_TIMEOUT)
        except BrokerError as error:
            if error.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                return None
            raise
        return decode_state(answer.body)

    async def runtime_info(self, address: str) -> dict[str, str]:
        """Return what a broker says about itself, by RocketMQ's names."""
        answer = await self._ask(address, RequestCode.GET_BROKER_RUNTIME_INFO, timeout=CALL_TIMEOUT)
        return dict(decode(KVTable, answer.body).table)

    async def promote_broker(self, address: str, *, force: bool = False) -> Promotion:
        """Make a slave master in place of its present one; raises BrokerError with the reason why it is not."""
        header = PromoteBrokerRequestHeader(force=force)
        answer = await self._ask(address, RequestCode.PROMOTE_BROKER, header, timeout=PROMOTION_TIMEOUT)
        return decode_promotion(answer.body)
