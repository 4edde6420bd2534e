"""Where a queue that was just assigned begins."""

from __future__ import annotations

from pyromq.client.consume.assigned_queue import AssignedQueue
from pyromq.client.consume.offset_store import OffsetStore
from pyromq.client.consume.start_from import StartPoint, start_offset
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.client.net.routes import Routes
from pyromq.protocol.names import RETRY_PREFIX


class InitialOffset:
    """Finds out where a queue starts: at the committed offset, and where there is none, as `start` says."""

    def __init__(self, api: BrokerApi, routes: Routes, offsets: OffsetStore, group: str, start: StartPoint) -> None:
        self._api = api
        self._routes = routes
        self._offsets = offsets
        self._group = group
        self._start = start

    async def begin(self, held: AssignedQueue) -> None:
        """Set a queue to its start."""
        queue = held.queue
        committed = await self._offsets.load(queue)
        if committed is not None:
            held.start_at(committed)
            held.committed_offset = committed
            return
        reader = await self._routes.find_reader(queue)
        # What waits in a retry topic is never older than the group: to skip any of it would lose messages.
        start = "earliest" if queue.topic.startswith(RETRY_PREFIX) else self._start
        held.start_at(await start_offset(self._api, reader.address, self._group, queue.topic, queue.queue_id, start))
