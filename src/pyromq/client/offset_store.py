"""Where a group's progress is kept: on the brokers, unless the caller has a better place."""

from __future__ import annotations

from typing import Protocol

from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.client.net.routes import Routes
from pyromq.protocol.messages.message import MessageQueue


class OffsetStore(Protocol):
    """Keeps one committed offset for each queue of a group."""

    async def load(self, queue: MessageQueue) -> int | None:
        """Return the committed offset, None if there is none; raise if that cannot be known now."""

    async def commit(self, queue: MessageQueue, offset: int) -> None:
        """Keep an offset; return when it is kept."""


class BrokerOffsets:
    """Keeps offsets on the broker that has the queue."""

    def __init__(self, api: BrokerApi, routes: Routes, group: str) -> None:
        self._api = api
        self._routes = routes
        self._group = group

    async def load(self, queue: MessageQueue) -> int | None:
        """Ask the master, or a slave while there is no master."""
        reader = await self._routes.find_reader(queue)
        return await self._api.query_offset(reader.address, self._group, queue.topic, queue.queue_id)

    async def commit(self, queue: MessageQueue, offset: int) -> None:
        """Send it to the master and wait for its answer."""
        address = await self._routes.find_master(queue)
        await self._api.commit_offset(address, self._group, queue.topic, queue.queue_id, offset)
