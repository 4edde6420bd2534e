"""Single requests to one broker about its groups."""

from __future__ import annotations

from pyromq.client.net.calls.base import CALL_TIMEOUT, BrokerCalls
from pyromq.errors import BrokerError, TopicNotFound
from pyromq.protocol.bodies import (
    ConsumerConnection,
    ConsumerOffsetSerializeWrapper,
    ConsumerRunningInfo,
    ConsumeStats,
    ResetOffsetBody,
    SubscriptionGroupConfig,
    SubscriptionGroupWrapper,
    TopicOffset,
    TopicStatsTable,
    decode,
    encode,
)
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.headers.admin import (
    CloneGroupOffsetRequestHeader,
    DeleteSubscriptionGroupRequestHeader,
    GetConsumerConnectionListRequestHeader,
    GetConsumeStatsRequestHeader,
    GetTopicStatsInfoRequestHeader,
    InvokeBrokerToResetOffsetRequestHeader,
)
from pyromq.protocol.headers.clients import GetConsumerRunningInfoRequestHeader
from pyromq.protocol.messages.message import MessageQueue

STATS_TIMEOUT = 15.0
"""Seconds for a broker to read the times of many queues."""
ANSWER_TIMEOUT = 5.0
"""Seconds for a consumer to report its state; its broker would wait for 10 s."""


class GroupAdminCalls(BrokerCalls):
    """Typed requests about groups."""

    async def connections(self, address: str, group: str) -> ConsumerConnection | None:
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

    async def running_info(self, address: str, group: str, client_id: str) -> ConsumerRunningInfo:
        """Ask a member, through its broker, to report its state."""
        header = GetConsumerRunningInfoRequestHeader(consumer_group=group, client_id=client_id)
        answer = await self._ask(address, RequestCode.GET_CONSUMER_RUNNING_INFO, header, timeout=ANSWER_TIMEOUT)
        return decode(ConsumerRunningInfo, answer.body)

    async def settings(self, address: str) -> dict[str, SubscriptionGroupConfig]:
        """Return the settings of all groups of this broker."""
        answer = await self._ask(address, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, timeout=CALL_TIMEOUT)
        return decode(SubscriptionGroupWrapper, answer.body).subscription_group_table

    async def topics_by_group(self, address: str) -> dict[str, set[str]]:
        """Return the topics for which each group has offsets at this broker."""
        answer = await self._ask(address, RequestCode.GET_ALL_CONSUMER_OFFSET, timeout=CALL_TIMEOUT)
        found: dict[str, set[str]] = {}
        for key in decode(ConsumerOffsetSerializeWrapper, answer.body).offset_table:
            topic, _, group = key.partition("@")
            found.setdefault(group, set()).add(topic)
        return found

    async def update(self, address: str, settings: SubscriptionGroupConfig) -> None:
        """Change the settings of a group; create it if it does not exist."""
        code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
        await self._ask(address, code, body=encode(settings), timeout=CALL_TIMEOUT)

    async def delete(self, address: str, group: str) -> None:
        """Delete a group and its offsets from this broker."""
        header = DeleteSubscriptionGroupRequestHeader(group_name=group, remove_offset=True)
        await self._ask(address, RequestCode.DELETE_SUBSCRIPTIONGROUP, header, timeout=CALL_TIMEOUT)

    async def clone(self, address: str, source: str, target: str, topic: str) -> None:
        """Copy the offsets of a topic from one group to another, whether the source is online or not."""
        header = CloneGroupOffsetRequestHeader(src_group=source, dest_group=target, topic=topic, offline=True)
        await self._ask(address, RequestCode.CLONE_GROUP_OFFSET, header, timeout=CALL_TIMEOUT)

    async def reset(self, address: str, group: str, topic: str, timestamp_ms: int) -> dict[MessageQueue, int]:
        """Tell a group's members to continue from a time, -1 for the end; return that offset in each queue."""
        header = InvokeBrokerToResetOffsetRequestHeader(topic=topic, group=group, timestamp=timestamp_ms, is_force=True)
        answer = await self._ask(address, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header, timeout=CALL_TIMEOUT)
        return decode(ResetOffsetBody, answer.body).offset_table

    async def topic_ends(self, address: str, topic: str) -> dict[MessageQueue, TopicOffset] | None:
        """Return where the queues of a topic begin and end, None if this broker does not have it."""
        header = GetTopicStatsInfoRequestHeader(topic=topic)
        try:
            answer = await self._ask(address, RequestCode.GET_TOPIC_STATS_INFO, header, timeout=CALL_TIMEOUT)
        except TopicNotFound:
            return None
        return decode(TopicStatsTable, answer.body).offset_table
