"""One look at a group: what all brokers and all members say of it at one moment."""

from __future__ import annotations

import asyncio
from functools import cached_property
from typing import NamedTuple

from pyromq.client.admin_brokers import Masters, each
from pyromq.client.admin_groups_calls import GroupAdminCalls
from pyromq.client.admin_groups_members import Known, Said, known_members
from pyromq.errors import BrokerError, ProtocolError, RemotingError
from pyromq.protocol.bodies import (
    ConsumerConnection,
    ConsumerRunningInfo,
    ConsumeStats,
    MessageModel,
    OffsetWrapper,
    ProcessQueueInfo,
    SubscriptionData,
    SubscriptionGroupConfig,
)
from pyromq.protocol.messages.message import MessageQueue


class BrokerView(NamedTuple):
    """What one broker says."""

    groups: dict[str, SubscriptionGroupConfig]
    connection: ConsumerConnection | None
    stats: ConsumeStats


class Sight:
    """A group at one moment."""

    def __init__(
        self,
        group: str,
        views: dict[str, BrokerView],
        silent: dict[str, str],
        known: dict[str, Known],
        said: dict[str, Said],
    ) -> None:
        self.group = group
        self.views = views
        """By broker."""
        self.silent = silent
        """Brokers that did not answer, and why."""
        self.known = known
        """The members, by client id."""
        self.said = said

    @property
    def exists(self) -> bool:
        """Whether some broker knows the group."""
        views = self.views.values()
        return any(self.group in view.groups or view.connection or view.stats.offset_table for view in views)

    @property
    def connection(self) -> ConsumerConnection | None:
        """How its members say that they consume, None without members."""
        found = [view.connection for view in self.views.values() if view.connection]
        return found[0] if found else None

    @property
    def is_broadcasting(self) -> bool:
        """Whether each member keeps offsets of its own."""
        return self.connection is not None and self.connection.message_model is MessageModel.BROADCASTING

    @cached_property
    def infos(self) -> dict[str, ConsumerRunningInfo]:
        """What the members that answered told, by client id."""
        return {client_id: said for client_id, said in self.said.items() if isinstance(said, ConsumerRunningInfo)}

    @cached_property
    def subscriptions(self) -> dict[str, SubscriptionData]:
        """What brokers and members say that is wanted of each topic; the newest if they differ."""
        told = [data for info in self.infos.values() for data in info.subscription_set]
        for view in self.views.values():
            told += view.connection.subscription_table.values() if view.connection else ()
        return {data.topic: data for data in sorted(told, key=lambda data: data.sub_version)}

    @cached_property
    def offsets(self) -> dict[MessageQueue, OffsetWrapper]:
        """How far the group is, as brokers say, in the topics that it consumes.

        A broker that hears of no member also tells of topics that the group has left.
        """
        rows = {queue: row for view in self.views.values() for queue, row in view.stats.offset_table.items()}
        if not self.known:
            return rows
        wanted = self.subscriptions
        return {queue: row for queue, row in rows.items() if queue.topic in wanted}

    def holders(self, queue: MessageQueue) -> dict[str, ProcessQueueInfo]:
        """Return the members that say they have a queue, and how it stands there."""
        states = {client_id: info.mq_table.get(queue) for client_id, info in self.infos.items()}
        return {client_id: state for client_id, state in states.items() if state is not None and not state.dropped}

    def position(self, queue: MessageQueue) -> tuple[object, ...]:
        """Return all that moves when the queue's first messages are finished."""
        row = self.offsets.get(queue)
        held = [(state.commit_offset, state.cached_msg_min_offset) for state in self.holders(queue).values()]
        return (row.consumer_offset if row else None, *held)

    @property
    def waits(self) -> bool:
        """Whether messages wait for the group in some queue."""
        states = [state for info in self.infos.values() for state in info.mq_table.values()]
        is_behind = any(row.broker_offset > row.consumer_offset for row in self.offsets.values())
        return is_behind or any(state.cached_msg_count for state in states)


async def look(calls: GroupAdminCalls, masters: Masters, group: str) -> Sight:
    """Ask all brokers, and through them all members."""

    async def view(address: str) -> BrokerView:
        return BrokerView(
            *await asyncio.gather(
                calls.settings(address), calls.connections(address, group), calls.consume_stats(address, group)
            )
        )

    async def ask(member: Known) -> Said:
        address = masters.addresses[member.brokers[0]]
        try:
            return await calls.running_info(address, group, member.connection.client_id)
        except BrokerError as error:
            return error.remark or str(error)
        except (RemotingError, ProtocolError) as error:
            return str(error)

    views = await masters.ask(view)
    known = known_members({broker: seen.connection for broker, seen in views.items()})
    said = dict(zip(known, await each(known.values(), ask), strict=True))
    return Sight(group, views, masters.silent, known, said)
