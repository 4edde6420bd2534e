"""Move a group to other offsets, back or ahead, at an operator's request.

While no member is online, the offsets are committed. Online members keep theirs in memory and must be told. Brokers
pass on a time, never an offset, and members with a listener carry it out; Java's take up to ten seconds.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from msgspec import Struct

from pyromq.admin.groups.changes import GroupChanges
from pyromq.admin.groups.snapshot import GroupSnapshot, take_snapshot
from pyromq.admin.masters import Masters, gather_limited
from pyromq.client.consume.start_from import first_offset_since, to_ms
from pyromq.client.net.routes import read_queues
from pyromq.errors import ClientError, GroupNotFound
from pyromq.protocol.bodies import ConsumeType, MessageModel
from pyromq.protocol.headers.admin import RESET_TO_END
from pyromq.protocol.messages.message import MessageQueue
from pyromq.protocol.names import RETRY_PREFIX, TOOLS_CONSUMER_GROUP

logger = logging.getLogger(__name__)

ResetTo = Literal["earliest", "latest"] | datetime | int
"""An int is an offset for all queues; one outside of a queue becomes the nearest that it has."""


class OffsetMove(Struct, frozen=True, kw_only=True):
    """Where a group continues in a queue."""

    queue: MessageQueue
    before: int | None
    """The offset it had; None if it had committed none."""
    after: int


class ResetPlan(Struct, frozen=True, kw_only=True):
    """What a reset would do."""

    group: str
    to: ResetTo
    moves: tuple[OffsetMove, ...]
    members: tuple[str, ...]
    """The online members, which will be told. If there are none, the offsets are committed."""

    @property
    def again(self) -> int:
        """The number of messages that the group would receive again."""
        return sum(max((move.before or 0) - move.after, 0) for move in self.moves)

    @property
    def skipped(self) -> int:
        """The number of messages that the group would never receive."""
        return sum(max(move.after - (move.before or 0), 0) for move in self.moves)


class OffsetResets(GroupChanges):
    """Moves groups to other offsets."""

    async def plan_reset(self, group: str, to: ResetTo, topics: Sequence[str] = ()) -> ResetPlan:
        """Return where a group would continue in all queues of its topics, or of these, and change nothing.

        Raises GroupNotFound if no broker knows it, ClientError if its members cannot be told.
        """
        snapshot = await take_snapshot(self._calls, await Masters.find(self._api), group)
        if snapshot.silent:
            raise ClientError(f"{', '.join(snapshot.silent)} does not answer: nothing is moved while a broker is away")
        if not snapshot.exists:
            raise GroupNotFound(f"no broker knows the group {group!r}")
        _check_members(snapshot, to)
        wanted = topics or _topics(snapshot)
        if not wanted:
            raise ClientError(f"the group {group!r} has no offsets; name a topic to give it some")
        moves = [move for topic in wanted for move in await self._moves(snapshot, topic, to)]
        return ResetPlan(group=group, to=to, moves=tuple(moves), members=tuple(snapshot.members))

    async def reset(self, plan: ResetPlan) -> tuple[OffsetMove, ...]:
        """Carry out a plan; return the moves. If members were told, their brokers computed the offsets.

        Raises ClientError if members joined since the plan was made: they would continue from their own offsets.
        """
        return await self._tell_members(plan) if plan.members else await self._commit(plan)

    # --- the plan ----------------------------------------------------------------------------------------------------

    async def _moves(self, snapshot: GroupSnapshot, topic: str, to: ResetTo) -> list[OffsetMove]:
        route = await self._api.route(topic)
        masters = (await Masters.find(self._api)).addresses

        async def move(queue: MessageQueue) -> OffsetMove:
            address = masters[queue.broker_name]
            before = await self._api.query_offset(address, snapshot.group, topic, queue.queue_id)
            return OffsetMove(queue=queue, before=before, after=await self._target(snapshot, address, queue, to))

        return await gather_limited(read_queues(topic, route), move)

    async def _target(self, snapshot: GroupSnapshot, address: str, queue: MessageQueue, to: ResetTo) -> int:
        topic, queue_id = queue.topic, queue.queue_id
        low = await self._api.min_offset(address, topic, queue_id)
        high = await self._api.max_offset(address, topic, queue_id)
        if to == "earliest":
            return low
        if to == "latest":
            return high
        if isinstance(to, datetime):
            if snapshot.members:  # what the broker will tell its members: the message nearest to the time
                return await self._api.search_offset(address, topic, queue_id, to_ms(to))
            return await first_offset_since(self._api, address, TOOLS_CONSUMER_GROUP, topic, queue_id, to_ms(to))
        return min(max(to, low), high)

    # --- carrying it out ---------------------------------------------------------------------------------------------

    async def _commit(self, plan: ResetPlan) -> tuple[OffsetMove, ...]:
        await self._check_offline(plan.group, "moved as planned")
        masters = (await Masters.find(self._api)).addresses
        for move in plan.moves:
            queue = move.queue
            address = masters[queue.broker_name]
            await self._api.commit_offset(address, plan.group, queue.topic, queue.queue_id, move.after, reset=True)
            _log(plan.group, move)
        return plan.moves

    async def _tell_members(self, plan: ResetPlan) -> tuple[OffsetMove, ...]:
        masters = (await Masters.find(self._api)).addresses
        before = {move.queue: move.before for move in plan.moves}
        places = sorted({(move.queue.topic, move.queue.broker_name) for move in plan.moves})
        moves = []
        for topic, broker in places:
            told = await self._calls.reset_offsets(masters[broker], plan.group, topic, _timestamp(plan.to))
            for queue, offset in sorted(told.items()):
                moves.append(OffsetMove(queue=queue, before=before.get(queue), after=offset))
                _log(plan.group, moves[-1])
        return tuple(moves)


def _log(group: str, move: OffsetMove) -> None:
    logger.info("offset reset group=%s queue=%s from=%s to=%d", group, move.queue, move.before, move.after)


def _topics(snapshot: GroupSnapshot) -> list[str]:
    return sorted(topic for topic in {queue.topic for queue in snapshot.offsets} if not topic.startswith(RETRY_PREFIX))


def _check_members(snapshot: GroupSnapshot, to: ResetTo) -> None:
    """Raise ClientError if members are online that cannot be told where to continue."""
    connection = snapshot.connection
    if connection is None:
        return
    stop = f"stop its members first: {', '.join(snapshot.members)}"
    if connection.message_model is MessageModel.BROADCASTING:
        raise ClientError(f"{snapshot.group!r} is broadcasting: its members keep their offsets themselves")
    if connection.consume_type is ConsumeType.CONSUME_ACTIVELY:
        raise ClientError(f"the members of {snapshot.group!r} poll and choose their own offsets: {stop}")
    if isinstance(to, int):
        raise ClientError(f"online members can be moved to a time, earliest or latest, but not to an offset: {stop}")


def _timestamp(to: ResetTo) -> int:
    if to == "latest":
        return RESET_TO_END
    return to_ms(to) if isinstance(to, datetime) else 0
