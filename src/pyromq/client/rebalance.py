"""Rebalance: the queues of a topic are shared out among a group's members, each of whom works out the same result."""

from __future__ import annotations

import logging
import random
from collections.abc import Awaitable, Callable, Iterable

from pyromq.client.api import BrokerApi
from pyromq.client.failure_log import FailureLog
from pyromq.client.heartbeats import Heartbeats
from pyromq.client.routes import Routes, read_queues
from pyromq.errors import BrokerError, NoRoute, PyroMQError, RemotingError
from pyromq.protocol.bodies import TopicRouteData
from pyromq.protocol.message import MessageQueue

logger = logging.getLogger(__name__)

Allocate = Callable[[list[MessageQueue], list[str], str], list[MessageQueue]]
"""Takes sorted queues, sorted member ids and the own id; returns the own share."""


def allocate_averagely(queues: list[MessageQueue], members: list[str], me: str) -> list[MessageQueue]:
    """Give each member a run of neighbouring queues, the first ones one more where it does not divide evenly."""
    if me not in members:
        return []
    share, extra = divmod(len(queues), len(members))
    index = members.index(me)
    start = index * share + min(index, extra)
    return queues[start : start + share + (index < extra)]


class Rebalance:
    """Finds this member's share of each topic and hands it to `assign`."""

    def __init__(
        self,
        *,
        api: BrokerApi,
        routes: Routes,
        heartbeats: Heartbeats,
        group: str,
        client_id: str,
        topics: Callable[[], Iterable[str]],
        assign: Callable[[str, list[MessageQueue]], Awaitable[None]],
        allocate: Allocate = allocate_averagely,
    ) -> None:
        self._api = api
        self._routes = routes
        self._heartbeats = heartbeats
        self._group = group
        self._client_id = client_id
        self._topics = topics
        self._assign = assign
        self._allocate = allocate
        self._log = FailureLog(logger, f"sharing out the queues of group {group}")

    async def run(self) -> bool:
        """Share out every topic once; return whether that worked for all of them.

        A topic whose members or route cannot be had now keeps the queues it has.
        """
        done = [await self._share_out(topic) for topic in list(self._topics())]
        return all(done)

    async def _share_out(self, topic: str) -> bool:
        try:
            route = self._routes.known(topic) or await self._routes.refresh(topic)
            members = await self._members(route)
        except NoRoute:
            logger.debug("no route yet for topic=%s", topic)
            return False
        except PyroMQError as error:
            self._log.failed(error)
            return False
        self._log.worked()
        if self._client_id not in members:
            return False
        await self._assign(topic, self._allocate(read_queues(topic, route), members, self._client_id))
        return True

    async def _members(self, route: TopicRouteData) -> list[str]:
        # A broker that was restarted does not know us yet: without a heartbeat the others would take our queues.
        members = await self._ask_members(route)
        if self._client_id not in members:
            await self._heartbeats.beat()
            members = await self._ask_members(route)
        return sorted(members, key=_utf16)

    async def _ask_members(self, route: TopicRouteData) -> list[str]:
        """Ask any broker that has the topic, the next one if it cannot be reached."""
        failure: PyroMQError = NoRoute("none of its brokers is known")
        for broker in random.sample(route.broker_datas, len(route.broker_datas)):
            reader = self._routes.reader(broker.broker_name)
            if reader is None:
                continue
            try:
                return await self._api.consumer_list(reader.address, self._group)
            except BrokerError:
                return []  # nobody is online there
            except RemotingError as error:
                failure = error
        raise failure


def _utf16(text: str) -> bytes:
    return text.encode("utf-16-be", "surrogatepass")  # the order of Java's strings
