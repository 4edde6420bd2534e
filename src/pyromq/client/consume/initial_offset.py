"""InitialOffset: where reading starts in a queue that was just assigned."""

from __future__ import annotations

from pyromq.client.consume.assigned_queue import AssignedQueue
from pyromq.client.consume.offset_store import OffsetStore
from pyromq.client.consume.start_from import StartPoint, start_offset
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.client.net.routes import Routes
from pyromq.protocol.names import RETRY_PREFIX


class InitialOffset:
    """Starts a queue at its committed offset or, if it has none, where `start` says."""

    def __init__(self, api: BrokerApi, routes: Routes, offsets: OffsetStore, group: str, start: StartPoint) -> None:
        self._api = api
        self._routes = routes
        self._offsets = offsets
        self._group = group
        self._start = start

    async def apply(self, held: AssignedQueue) -> None:
        """Find the offset and set the queue to it."""
        queue = held.queue
        committed = await self._offsets.load(queue)
        if committed is not None:
            held.start_at(committed)
            held.committed_offset = committed
            return
        reader = await self._routes.find_reader(queue)
        # Messages in a retry topic are never older than the group: skipping any of them would lose messages.
        start = "earliest" if queue.topic.startswith(RETRY_PREFIX) else self._start
        held.start_at(await start_offset(self._api, reader.address, self._group, queue.topic, queue.queue_id, start))
