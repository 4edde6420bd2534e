"""InitialOffset: where reading starts in a queue that was just assigned."""

from __future__ import annotations

from pyromq.client.consume.assigned_queue import AssignedQueue
from pyromq.client.consume.offset_store import BrokerOffsets, OffsetStore
from pyromq.client.consume.start_from import StartPoint, start_offset
from pyromq.client.net.calls.answers import CommittedOffset
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.client.net.routes import Routes
from pyromq.protocol.codes import MASTER_ID
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
        """Find the offset and set the queue to it, unless it has jumped elsewhere meanwhile."""
        queue, jumps = held.queue, held.jumps
        reader = await self._routes.find_reader(queue)
        committed = await self._load(held)
        offset = committed.offset
        if offset is None:
            # Messages in a retry topic are never older than the group: skipping any of them would lose messages.
            is_retry = queue.topic.startswith(RETRY_PREFIX)
            start: StartPoint = "earliest" if is_retry or held.is_recreated else self._start
            offset = await start_offset(self._api, reader.address, self._group, queue.topic, queue.queue_id, start)
        if held.jumps == jumps:
            held.start_at(offset)
            held.committed_offset = committed.offset
            held.committed_is_sure = reader.broker_id == MASTER_ID
            held.deleted_at = committed.deleted_at

    async def _load(self, held: AssignedQueue) -> CommittedOffset:
        if isinstance(self._offsets, BrokerOffsets):
            return await self._offsets.load_with_source(held.queue)
        # Brokers forget the offsets of a deleted topic. Other stores do not hear of it.
        return CommittedOffset(None if held.is_recreated else await self._offsets.load(held.queue))
