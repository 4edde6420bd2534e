"""Rebalance: the members of a group share out the queues of each topic; each member computes the same result."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from random import SystemRandom

from pyromq.client.background import FailureLog
from pyromq.client.group.allocation import Allocate, utf16
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.client.net.heartbeats import Heartbeats
from pyromq.client.net.routes import Routes, read_queues
from pyromq.errors import AccessDenied, BrokerError, NoRoute, PyroMQError, RemotingError
from pyromq.protocol.bodies import TopicRouteData
from pyromq.protocol.codes import MASTER_ID
from pyromq.protocol.messages.message import MessageQueue
from pyromq.protocol.names import RETRY_PREFIX

logger = logging.getLogger(__name__)
_random = SystemRandom()  # programs seed the default one: then all their replicas would choose alike


class Rebalance:
    """Computes this member's share of each topic and passes it to `assign`; without `allocate` it is all queues.

    `orphans` are queues whose last owner has left the group, so that nobody will unlock them. `explain` diagnoses why a
    topic cannot be reached.
    """

    def __init__(
        self,
        *,
        api: BrokerApi,
        routes: Routes,
        heartbeats: Heartbeats,
        group: str,
        client_id: str,
        topics: Callable[[], Iterable[str]],
        assign: Callable[[str, list[MessageQueue]], Awaitable[bool]],
        allocate: Allocate | None,
        explain: Callable[[str], Awaitable[str]],
    ) -> None:
        self.orphans: set[MessageQueue] = set()
        self._api = api
        self._routes = routes
        self._heartbeats = heartbeats
        self._group = group
        self._client_id = client_id
        self._topics = topics
        self._assign = assign
        self._allocate = allocate
        self._explain = explain
        self._failures: dict[str, set[str]] = {}
        self._members_before: dict[str, list[str]] = {}
        self._idle_topics: set[str] = set()
        self._log = FailureLog(logger, f"sharing out the queues of group {group}")

    def is_alone(self, topic: str) -> bool:
        """Return True if this was the only member when the topic was last shared out."""
        return self._members_before.get(topic) == [self._client_id]

    async def run(self) -> bool:
        """Share out every topic once; return True if that worked for all of them.

        If the members or the route of a topic are not available now, its queues stay as they are.
        """
        done = [await self._share_out(topic) for topic in list(self._topics())]
        return all(done)

    async def _share_out(self, topic: str) -> bool:
        try:
            route = self._routes.known(topic) or await self._routes.refresh(topic)
            members = await self._members(route) if self._allocate else []
        except PyroMQError as error:
            await self._warn_once(topic, str(error))
            return False
        queues = read_queues(topic, route)
        if queues:
            if self._failures.pop(topic, None):
                logger.info("group=%s can read topic=%s now", self._group, topic)
        else:
            await self._warn_once(topic, "it has no readable queue")
        if self._allocate is None:
            return await self._assign(topic, queues)
        if self._client_id not in members:
            return False
        try:
            self._note_orphans(topic, queues, members, self._allocate)
            mine = self._allocate(queues, members, self._client_id)
        except Exception as error:  # of the user's own function, or a queue or member without a machine room
            self._log.failed(repr(error))
            return False
        self._log.worked()
        self._warn_if_idle(topic, mine, len(queues), len(members))
        return await self._assign(topic, mine)

    async def _warn_once(self, topic: str, reason: str) -> None:
        """Log once why this member cannot read a topic, and what to do about it."""
        if topic.startswith(RETRY_PREFIX):  # brokers create it when it is needed
            logger.debug("no queues of topic=%s yet: %s", topic, reason)
        elif reason not in (logged := self._failures.setdefault(topic, set())):
            logged.add(reason)
            why = await self._explain(topic)
            logger.warning("group=%s gets no messages of topic=%s yet: %s; %s", self._group, topic, reason, why)

    def _note_orphans(self, topic: str, queues: list[MessageQueue], members: list[str], allocate: Allocate) -> None:
        before = self._members_before.get(topic, members)
        self._members_before[topic] = members
        self.orphans = {queue for queue in self.orphans if queue.topic != topic}
        for gone in set(before) - set(members):
            self.orphans.update(allocate(queues, before, gone))

    def _warn_if_idle(self, topic: str, mine: list[MessageQueue], queues: int, members: int) -> None:
        if mine or not queues or topic.startswith(RETRY_PREFIX):
            self._idle_topics.discard(topic)
        elif topic not in self._idle_topics:
            self._idle_topics.add(topic)
            logger.warning(
                "this member of group=%s has nothing to do: topic=%s has %d queues for %d members",
                self._group, topic, queues, members,
            )  # fmt: skip

    async def _members(self, route: TopicRouteData) -> list[str]:
        # A restarted broker does not know this member yet: without a heartbeat the others would take its queues.
        members = await self._ask_members(route)
        if self._client_id not in members:
            await self._heartbeats.beat()
            members = await self._ask_members(route)
        return sorted(members, key=utf16)

    async def _ask_members(self, route: TopicRouteData) -> list[str]:
        """Ask any broker that has the topic; if it cannot be reached, ask the next one. Slaves know members too."""
        failure: PyroMQError = NoRoute("none of its brokers is known")
        for address in self._informants(route):
            try:
                return await self._api.consumer_list(address, self._group)
            except AccessDenied:
                raise
            except BrokerError:
                return []  # nobody is online there
            except RemotingError as error:
                failure = error
        raise failure

    def _informants(self, route: TopicRouteData) -> list[str]:
        """Return the brokers of a topic in any order, masters first, and last those that were not reached just now."""
        names = [broker.broker_name for broker in _random.sample(route.broker_datas, len(route.broker_datas))]
        known = [reader for name in names for reader in self._routes.readers(name)]
        known.sort(key=lambda one: (one.address in self._api.unreachable, one.broker_id != MASTER_ID))
        return [reader.address for reader in known]
