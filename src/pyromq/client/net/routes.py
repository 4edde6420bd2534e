"""Routes: which brokers have a topic. Name servers know; routes are refreshed in the background and on demand."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.client.net.publish_info import TopicPublishInfo, write_queues
from pyromq.errors import NoRoute, PyroMQError
from pyromq.protocol.bodies import TopicRouteData
from pyromq.protocol.codes import MASTER_ID, PERM_READ
from pyromq.protocol.messages.message import MessageQueue
from pyromq.protocol.names import TBW102

logger = logging.getLogger(__name__)


class ReadableBroker(NamedTuple):
    """A broker to read from: the master or a slave."""

    address: str
    broker_id: int


def read_queues(topic: str, route: TopicRouteData) -> list[MessageQueue]:
    """Return the queues that a consumer may read, in the order that all clients use; a slave is enough to read."""
    readable = [data for data in route.queue_datas if data.perm & PERM_READ]
    return sorted(
        MessageQueue(topic, data.broker_name, number) for data in readable for number in range(data.read_queue_nums)
    )


def _in_order(route: TopicRouteData) -> TopicRouteData:
    route.queue_datas.sort(key=lambda data: data.broker_name)  # name servers return them in any order
    route.broker_datas.sort(key=lambda data: data.broker_name)
    return route


class Routes:
    """The routes of the topics in use; `explain` returns why a topic has none."""

    def __init__(self, api: BrokerApi, explain: Callable[[str], Awaitable[str]], topic_queues: int = 4) -> None:
        self.on_change: list[Callable[[str], None]] = []
        """Called with the topic when its route is new or has changed."""
        self._api = api
        self._explain = explain
        self._topic_queues = topic_queues
        self._routes: dict[str, TopicRouteData] = {}
        self._brokers: dict[str, dict[int, str]] = {}
        self._publish: dict[str, TopicPublishInfo] = {}
        self._lookups: dict[str, asyncio.Task[TopicPublishInfo]] = {}

    # --- known routes ------------------------------------------------------------------------------------------------

    def known(self, topic: str) -> TopicRouteData | None:
        """Return the last known route."""
        return self._routes.get(topic)

    def publish_info(self, topic: str) -> TopicPublishInfo | None:
        """Return the topic's queues for a producer, None if `find_queues` has to look them up."""
        return self._publish.get(topic)

    def master(self, broker_name: str) -> str | None:
        """Return the address of a broker's master, which takes sends and offsets."""
        addresses = self._brokers.get(broker_name)
        return addresses.get(MASTER_ID) if addresses else None

    def reader(self, broker_name: str, broker_id: int = MASTER_ID) -> ReadableBroker | None:
        """Return where to read: at the given broker id, at the next id if that is a slave, or at any other."""
        addresses = self._brokers.get(broker_name, {})
        for wanted in (broker_id, broker_id + 1 if broker_id else broker_id, *sorted(addresses)):
            if wanted in addresses:
                return ReadableBroker(addresses[wanted], wanted)
        return None

    def addresses(self, *, slaves: bool) -> list[str]:
        """Return the addresses of all known masters, and of their slaves if `slaves`."""
        brokers = self._brokers.values()
        return [address for broker in brokers for key, address in broker.items() if slaves or key == MASTER_ID]

    # --- look-ups ----------------------------------------------------------------------------------------------------

    async def find(self, topic: str) -> TopicRouteData:
        """Return the topic's route, from a name server if it is not known; raises NoRoute with a diagnosis."""
        route = self._routes.get(topic)
        if route is not None:
            return route
        try:
            return await self.refresh(topic)
        except NoRoute as error:
            raise NoRoute(f"{error}: {await self._explain(topic)}") from None

    async def find_master(self, queue: MessageQueue) -> str:
        """Return the address of the master of a queue's broker; raises NoRoute if it has none."""
        address = self.master(queue.broker_name)
        if address is None:
            await self.refresh(queue.topic)
            address = self.master(queue.broker_name)
        if address is None:
            raise NoRoute(f"broker {queue.broker_name!r} has no master now")
        return address

    async def find_reader(self, queue: MessageQueue, broker_id: int = MASTER_ID) -> ReadableBroker:
        """Return where to read a queue; raises NoRoute if its broker is unknown."""
        reader = self.reader(queue.broker_name, broker_id)
        if reader is None:
            await self.refresh(queue.topic)
            reader = self.reader(queue.broker_name, broker_id)
        if reader is None:
            raise NoRoute(f"broker {queue.broker_name!r} is gone")
        return reader

    async def find_queues(self, topic: str) -> TopicPublishInfo:
        """Return the topic's queues for a producer; for a topic that does not exist yet, the queues that it will get.

        Simultaneous calls for one topic share one look-up.
        """
        info = self._publish.get(topic)
        if info is not None:
            return info
        lookup = self._lookups.get(topic)
        if lookup is None:
            lookup = self._lookups[topic] = asyncio.ensure_future(self._look_up_queues(topic))
            lookup.add_done_callback(lambda done: self._lookup_ended(topic, done))
        return await asyncio.shield(lookup)

    def _lookup_ended(self, topic: str, lookup: asyncio.Task[TopicPublishInfo]) -> None:
        del self._lookups[topic]
        if not lookup.cancelled():
            lookup.exception()  # retrieve it: all callers may have been cancelled

    async def _look_up_queues(self, topic: str) -> TopicPublishInfo:
        try:
            queues = write_queues(topic, await self.refresh(topic))
        except NoRoute as error:
            queues = await self._template_queues(topic, error)
        if not queues:
            raise NoRoute(f"the topic {topic!r} has no writable queue: {await self._explain(topic)}")
        info = self._publish[topic] = TopicPublishInfo(queues)
        return info

    async def _template_queues(self, topic: str, reason: NoRoute) -> list[MessageQueue]:
        # A broker creates a topic like its template, with at most as many queues as the producer asks for.
        try:
            template = await self.refresh(TBW102)
        except NoRoute:
            raise NoRoute(f"{reason}: {await self._explain(topic)}") from None
        return write_queues(topic, template, self._topic_queues)

    async def refresh(self, topic: str) -> TopicRouteData:
        """Fetch the route from a name server; if there is none, raise NoRoute and keep the known one."""
        route = _in_order(await self._api.route(topic))
        for broker in route.broker_datas:
            self._brokers[broker.broker_name] = dict(broker.broker_addrs)
        if self._routes.get(topic) != route:
            self._routes[topic] = route
            self._replace_queues(topic, route)
            logger.debug("route of topic=%s changed", topic)
            for callback in self.on_change:
                callback(topic)
        return self._routes[topic]

    def _replace_queues(self, topic: str, route: TopicRouteData) -> None:
        if topic in self._publish:
            queues = write_queues(topic, route)
            if queues:
                self._publish[topic] = TopicPublishInfo(queues)
            else:
                del self._publish[topic]

    async def refresh_all(self) -> None:
        """Refresh the routes of all topics in use, and forget brokers that are in none of them."""
        for topic in {*self._publish, *self._routes}:
            try:
                await self.refresh(topic)
            except NoRoute:
                continue
            except PyroMQError as error:
                logger.warning("routes could not be refreshed: %s", error)
                return
        named = {broker.broker_name for route in self._routes.values() for broker in route.broker_datas}
        self._brokers = {name: addresses for name, addresses in self._brokers.items() if name in named}
