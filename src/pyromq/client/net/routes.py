"""Routes: which brokers have a topic. Name servers know; routes are refreshed in the background and on demand."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from pyromq.client.background import FailureLog
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.client.net.publish_info import TopicPublishInfo, write_queues
from pyromq.client.net.route_watch import RouteWatch
from pyromq.errors import NoMaster, NoNameServer, NoRoute, PyroMQError
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
        self.on_moved: list[Callable[[], None]] = []
        """Called when a known broker has another master, or none."""
        self.watch = RouteWatch(self.refresh, api.remoting.clock)
        """Asks for the route of a broker that fails."""
        self._api = api
        self._explain = explain
        self._topic_queues = topic_queues
        self._routes: dict[str, TopicRouteData] = {}
        self._brokers: dict[str, dict[int, str]] = {}
        self._pairs: set[str] = set()
        self._publish: dict[str, TopicPublishInfo] = {}
        self._lookups: dict[str, asyncio.Task[TopicPublishInfo]] = {}
        self._log = FailureLog(logger, "refreshing routes")

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

    def has_slaves(self, broker_name: str) -> bool:
        """Return True if a broker has a slave, or had one: that may be promoted, or have been.

        In a rolling restart one of the two is always away.
        """
        return broker_name in self._pairs

    def reader(self, broker_name: str, broker_id: int = MASTER_ID) -> ReadableBroker | None:
        """Return where to read: at the given broker id, at the next id if that is a slave, or at any other.

        Whoever could not be reached a moment ago comes last.
        """
        readers = self.readers(broker_name, broker_id)
        return next(
            (one for one in readers if one.address not in self._api.unreachable), readers[0] if readers else None
        )

    def readers(self, broker_name: str, broker_id: int = MASTER_ID) -> list[ReadableBroker]:
        """Return the brokers of one name, in the order in which they should be read from."""
        addresses = self._brokers.get(broker_name, {})
        wanted = dict.fromkeys((broker_id, broker_id + 1 if broker_id else broker_id, *sorted(addresses)))
        return [ReadableBroker(addresses[key], key) for key in wanted if key in addresses]

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
        """Return the address of the master of a queue's broker; raises NoMaster if it has none, NoRoute."""
        address = self.master(queue.broker_name)
        if address is None:
            if queue.broker_name in self._brokers:
                await self.watch.look(queue.topic, queue.broker_name)
            else:
                await self.refresh(queue.topic)
            address = self.master(queue.broker_name)
        if address is None:
            raise NoMaster(f"broker {queue.broker_name!r} has no master now")
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

    async def find_keeper(self, queue: MessageQueue) -> ReadableBroker:
        """Return who keeps a group's offsets and locks for a queue: the master, or a slave while the master is away."""
        if self.master(queue.broker_name) is None and self.watch.is_calm(queue.broker_name):
            await self.watch.look(queue.topic, queue.broker_name)
        return await self.find_reader(queue)

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
            raise self._no_master(topic) or NoRoute(
                f"the topic {topic!r} has no writable queue: {await self._explain(topic)}"
            )
        info = self._publish[topic] = TopicPublishInfo(queues)
        return info

    def _no_master(self, topic: str) -> NoMaster | None:
        """Return the error that says so if no broker of a topic has a master."""
        route = self._routes.get(topic)
        names = [broker.broker_name for broker in route.broker_datas] if route else []
        if not names or any(self.master(name) for name in names):
            return None
        which = f"broker {names[0]} has" if len(names) == 1 else f"brokers {', '.join(names)} have"
        return NoMaster(f"the topic {topic!r} cannot be written: {which} no master now, only slaves")

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
        self._note_brokers(route)
        if self._routes.get(topic) != route:
            self._routes[topic] = route
            self._replace_queues(topic, route)
            logger.debug("route of topic=%s changed", topic)
            for callback in self.on_change:
                callback(topic)
        return self._routes[topic]

    def _note_brokers(self, route: TopicRouteData) -> None:
        any_moved = False
        for broker in route.broker_datas:
            before = self._brokers.get(broker.broker_name, broker.broker_addrs)
            has_moved = before.get(MASTER_ID) != broker.broker_addrs.get(MASTER_ID)
            any_moved |= has_moved
            if has_moved or any(broker_id != MASTER_ID for broker_id in broker.broker_addrs):
                self._pairs.add(broker.broker_name)
            self._brokers[broker.broker_name] = dict(broker.broker_addrs)
        if any_moved:
            for callback in self.on_moved:
                callback()

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
                if not isinstance(error, NoNameServer):  # which has been logged
                    self._log.failed(error)
                return
        self._log.worked()
        named = {broker.broker_name for route in self._routes.values() for broker in route.broker_datas}
        self._brokers = {name: addresses for name, addresses in self._brokers.items() if name in named}
        self._pairs &= named
