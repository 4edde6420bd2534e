"""How far a group is in every queue, and how old the first message is that it has not consumed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from pyromq.client.admin_brokers import each
from pyromq.client.admin_groups_sight import Sight
from pyromq.client.consume.start_from import plain_pull
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.client.net.routes import read_queues
from pyromq.errors import NoRoute, PyroMQError
from pyromq.protocol.messages.message import MessageExt, MessageQueue
from pyromq.protocol.messages.record import decode_messages
from pyromq.protocol.names import RETRY_PREFIX, TOOLS_CONSUMER_GROUP

PULL_TIMEOUT = 5.0


class Place(NamedTuple):
    """Where a group, or one member of a broadcasting group, is in a queue."""

    queue: MessageQueue
    committed: int
    end: int
    client_id: str = ""


class First(NamedTuple):
    """The first message that is not consumed: its offset, and the message if it could be read."""

    offset: int
    message: MessageExt | None


class Places:
    """Finds the queues of a group, and what waits in them."""

    def __init__(self, api: BrokerApi, addresses: dict[str, str]) -> None:
        self._api = api
        self._addresses = addresses
        self.without_route: list[str] = []
        """Topics that are subscribed to and that no broker has."""

    async def find(self, sight: Sight) -> list[Place]:
        """Return where the group is in every queue of its topics."""
        counted = sight.offsets
        uncounted = [queue for queue in await self._subscribed(sight) if queue not in counted]
        places = [Place(queue, row.consumer_offset, row.broker_offset) for queue, row in counted.items()]
        places += await each(uncounted, lambda queue: self._ask(sight.group, queue))
        if sight.is_broadcasting:
            places = [own for place in places for own in _of_members(sight, place)]
        return sorted(places, key=lambda place: (place.queue.topic.startswith(RETRY_PREFIX), place))

    async def _subscribed(self, sight: Sight) -> list[MessageQueue]:
        """Return the queues of all topics that are subscribed to: a group commits nothing before it has consumed."""
        found = []
        for topic in sorted(sight.subscriptions):
            try:
                queues = read_queues(topic, await self._api.route(topic))
            except NoRoute:
                if not topic.startswith(RETRY_PREFIX):
                    self.without_route.append(topic)
                continue
            found += [queue for queue in queues if queue.broker_name in sight.views]
        return found

    async def _ask(self, group: str, queue: MessageQueue) -> Place:
        address = self._addresses[queue.broker_name]
        committed = await self._api.query_offset(address, group, queue.topic, queue.queue_id)
        end = await self._api.max_offset(address, queue.topic, queue.queue_id)
        return Place(queue, committed or 0, end)

    async def first_messages(self, places: Iterable[Place]) -> dict[Place, First]:
        """Return the first message of each place that something waits at."""
        waiting = [place for place in places if place.committed < place.end]
        return dict(zip(waiting, await each(waiting, self._first), strict=True))

    async def _first(self, place: Place) -> First:
        try:
            return await self._read(place.queue, place.committed)
        except PyroMQError:  # one that may not be read, or a broker that has gone meanwhile
            return First(place.committed, None)

    async def _read(self, queue: MessageQueue, offset: int) -> First:
        address = self._addresses[queue.broker_name]
        for _ in range(2):  # where the log no longer has the offset, a second pull reads where it begins
            header = plain_pull(TOOLS_CONSUMER_GROUP, queue.topic, queue.queue_id, offset, most=1)
            answer = await self._api.pull(address, header, timeout=PULL_TIMEOUT)
            for message in decode_messages(answer.body, queue.broker_name):
                return First(message.queue_offset, message)
            offset = answer.next_offset
        return First(offset, None)


def _of_members(sight: Sight, place: Place) -> Iterable[Place]:
    """Return where each member of a broadcasting group is: brokers do not know."""
    for client_id, state in sight.holders(place.queue).items():
        yield Place(place.queue, max(state.commit_offset, 0), place.end, client_id)
