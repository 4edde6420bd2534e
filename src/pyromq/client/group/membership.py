"""Membership: a consumer joins its group, rebalances, and leaves."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress

from pyromq.client.background import Periodic
from pyromq.client.group.allocation import Allocate
from pyromq.client.group.local_members import forget_member, note_member
from pyromq.client.group.rebalance import Rebalance
from pyromq.client.net.broker_requests import GroupMember
from pyromq.client.net.sharing import InstanceHandle
from pyromq.errors import NoRoute
from pyromq.protocol.messages.message import MessageQueue

REBALANCE_INTERVAL = 20.0


class Membership:
    """Keeps a member's share of the queues up to date: every 20 s, and when the group or a route changes."""

    def __init__(
        self,
        handle: InstanceHandle,
        group: str,
        *,
        topics: Callable[[], Iterable[str]],
        assign: Callable[[str, list[MessageQueue]], Awaitable[bool]],
        allocate: Allocate | None,
    ) -> None:
        instance = self._instance = handle.instance
        self._handle = handle
        self._group = group
        self._topics = topics
        self._rebalance = Rebalance(
            api=instance.api,
            routes=instance.routes,
            heartbeats=instance.heartbeats,
            group=group,
            client_id=instance.client_id,
            topics=topics,
            assign=assign,
            allocate=allocate,
            explain=instance.explain,
        )
        self._rebalancing = Periodic("rebalance", instance.clock, REBALANCE_INTERVAL, self.rebalance)

    async def join(self, member: GroupMember) -> None:
        """Announce the member and assign its first share of every topic that exists."""
        self._instance.routes.on_change.append(self._route_changed)
        for topic in list(self._topics()):
            await self.look_up(topic)
        await self._handle.join_as_consumer(self._group, member)
        note_member(self, tuple(sorted(self._instance.api.name_servers.addresses)), member.consumer_data())
        complete = await self.rebalance()
        self._rebalancing.start()
        if not complete:
            self._rebalancing.wake()

    async def look_up(self, topic: str) -> None:
        """Ask for the route of a topic; if it does not exist, rebalancing asks again until it does."""
        with suppress(NoRoute):
            await self._instance.routes.refresh(topic)

    def is_orphan(self, queue: MessageQueue) -> bool:
        """Return True if the queue's last owner has left the group, so that nobody will unlock it."""
        return queue in self._rebalance.orphans

    def is_alone(self, queue: MessageQueue) -> bool:
        """Return True if no other member is in the group, so that nobody can hand a queue over."""
        return self._rebalance.is_alone(queue.topic)

    async def rebalance(self) -> bool:
        """Share out every topic once, now; return True if that worked for all of them."""
        return await self._rebalance.run()

    def wake(self) -> None:
        """Rebalance soon, without waiting for it."""
        self._rebalancing.wake()

    async def stop(self) -> None:
        """Stop rebalancing; the group still counts this member until it leaves."""
        forget_member(self)
        with suppress(ValueError):  # it never joined
            self._instance.routes.on_change.remove(self._route_changed)
        await self._rebalancing.stop()

    def _route_changed(self, topic: str) -> None:
        if topic in self._topics():
            self._rebalancing.wake()
