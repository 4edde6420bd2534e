"""Which groups have consumed a message, as far as brokers know."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from pyromq.admin.masters import gather_limited
from pyromq.client.net.calls.admin_calls import AdminCalls
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.errors import AccessDenied, BrokerError, LocalProtocolError, RemotingError
from pyromq.protocol.bodies import ConsumerConnection, MessageModel, SubscriptionData
from pyromq.protocol.messages import properties as names
from pyromq.protocol.messages.message import MessageExt
from pyromq.protocol.names import SCHEDULE_TOPIC, TIMER_TOPIC, dlq_topic, retry_topic
from pyromq.protocol.sql92.sql_filter import compile_sql
from pyromq.protocol.tag_filter import SQL92, TAG, parse_tags

_AT_A_TIME = 8


class ConsumptionState(StrEnum):
    """What became of a message in a group."""

    CONSUMED = "consumed"
    """The group's offset lies beyond it."""
    FILTERED = "filtered"
    """The group's offset lies beyond it, and its subscription leaves the message out."""
    NOT_YET = "not yet"
    OFFLINE = "offline"
    """Not yet, and the group has no members."""
    RETRYING = "retrying"
    """Its listener failed; it waits to be delivered again."""
    DEAD_LETTER = "dead letter"
    """The group gave it up."""
    UNKNOWN = "unknown"


class GroupConsumption(Struct, frozen=True, kw_only=True):
    """What became of a message in one group."""

    group: str
    state: ConsumptionState
    members: int | None = None
    """How many members are online; None if that is unknown."""
    committed_offset: int | None = None
    """How far the group is in the message's queue."""
    remark: str | None = None
    """Why its state is unknown."""


class ConsumptionTracker:
    """Asks the broker of a message about all groups of its topic."""

    def __init__(self, api: BrokerApi, message: MessageExt, address: str) -> None:
        self._api = api
        self._calls = AdminCalls(api.remoting)
        self._message = message
        self._address = address

    async def track(self) -> list[GroupConsumption]:
        """Return what became of the message in each group that consumes its topic."""
        groups = sorted(await self._calls.topic_groups(self._address, self._message.topic))
        return await gather_limited(groups, self._track, _AT_A_TIME)

    async def _track(self, group: str) -> GroupConsumption:
        try:
            return await self._ask(group)
        except AccessDenied:
            raise
        except (BrokerError, RemotingError) as error:
            return GroupConsumption(group=group, state=ConsumptionState.UNKNOWN, remark=str(error))

    async def _ask(self, group: str) -> GroupConsumption:
        message, address = self._message, self._address
        connection = await self._calls.group_connections(address, group)
        members = len(connection.connection_set) if connection else 0
        if connection is not None and connection.message_model is MessageModel.BROADCASTING:
            remark = "it broadcasts: its members keep their offsets themselves"
            return GroupConsumption(group=group, state=ConsumptionState.UNKNOWN, members=members, remark=remark)
        committed = await self._api.query_offset(address, group, message.topic, message.queue_id)
        state = await self._state(group, connection, committed)
        return GroupConsumption(group=group, state=state, members=members, committed_offset=committed)

    async def _state(
        self, group: str, connection: ConsumerConnection | None, committed: int | None
    ) -> ConsumptionState:
        if await self._copies(dlq_topic(group)):
            return ConsumptionState.DEAD_LETTER
        if await self._waits_for_retry(group):
            return ConsumptionState.RETRYING
        if committed is None or committed <= self._message.queue_offset:
            return ConsumptionState.OFFLINE if connection is None else ConsumptionState.NOT_YET
        wanted = connection.subscription_table.get(self._message.topic) if connection else None
        return (
            ConsumptionState.CONSUMED if wanted is None or _wants(wanted, self._message) else ConsumptionState.FILTERED
        )

    async def _waits_for_retry(self, group: str) -> bool:
        """Return True if the message was sent back: its copy is delayed, or waits in the group's retry topic."""
        topic = retry_topic(group)
        retries = await self._copies(topic)
        delayed = [*await self._copies(SCHEDULE_TOPIC), *await self._copies(TIMER_TOPIC)]
        if sum(copy.properties.get(names.REAL_TOPIC) == topic for copy in delayed) > len(retries):
            return True
        for copy in retries:
            done = await self._api.query_offset(self._address, group, topic, copy.queue_id)
            if done is None or done <= copy.queue_offset:
                return True
        return False

    async def _copies(self, topic: str) -> list[MessageExt]:
        """Return the copies of the message in another topic: they keep its id."""
        if topic == self._message.topic:
            return []
        return await self._api.query(self._address, topic, self._message.message_id, unique=True)


def _wants(subscription: SubscriptionData, message: MessageExt) -> bool:
    """Return True if a subscription includes a message, or if only its broker could tell."""
    kind = subscription.expression_type or TAG
    try:
        if kind == TAG:
            return parse_tags(subscription.sub_string).accepts(message.tags)
        if kind == SQL92:
            return compile_sql(subscription.sub_string).matches(message.properties)
    except LocalProtocolError:
        pass
    return True
