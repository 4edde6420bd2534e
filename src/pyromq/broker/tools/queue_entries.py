"""QUERY_CONSUME_QUEUE (321): the entries of a queue as they are stored, and whether a group wants what they name."""

from __future__ import annotations

from typing import Final

from pyromq.broker.clients.client_registry import GroupSubscription
from pyromq.broker.parts import Parts
from pyromq.broker.pulls.property_filters import accepts_record
from pyromq.errors import BrokerError, OffsetOutOfRange
from pyromq.protocol.bodies import ConsumeQueueData, QueryConsumeQueueResponseBody
from pyromq.protocol.bodies.fastjson import dumps_pretty
from pyromq.protocol.bodies.json_steps import encoding
from pyromq.protocol.command import RemotingCommand, response
from pyromq.protocol.headers.admin import QueryConsumeQueueRequestHeader
from pyromq.remoting.connection import Connection
from pyromq.remoting.slices import AnswerSteps
from pyromq.store.consume_queue import ENTRY, ConsumeQueueEntry

MOST_ENTRIES: Final = 10_000


class QueueHandlers:
    """Shows queues to whoever wants to know why a message does not arrive."""

    def __init__(self, parts: Parts) -> None:
        self._store = parts.store
        self._clients = parts.clients
        self._filters = parts.tables.filters

    def entries(self, request: RemotingCommand, connection: Connection) -> AnswerSteps:
        """Return entries of a queue; an index outside it is answered with a remark and no body, as RocketMQ does."""
        header = request.header(QueryConsumeQueueRequestHeader)
        if header.queue_id not in self._store.queue_ids(header.topic):
            raise BrokerError(f"topic {header.topic} has no queue {header.queue_id} with messages")
        entries = self._entries(header)
        if not entries:
            where = f"queue {header.queue_id} of topic {header.topic}"
            return response(request, remark=f"index {header.index} is outside {where}")
        body = QueryConsumeQueueResponseBody(
            max_queue_index=self._store.max_offset(header.topic, header.queue_id),
            min_queue_index=self._store.min_offset(header.topic, header.queue_id),
        )
        wanted = self._describe_group(header, body)
        for entry in entries:
            body.queue_data.append(self._row(entry, wanted, header))
            yield  # it may have read a record and evaluated a long expression
        return response(request, body=(yield from encoding(body)))

    def _entries(self, header: QueryConsumeQueueRequestHeader) -> list[ConsumeQueueEntry]:
        if header.index < 0:
            return []
        stop = header.index + min(header.count, MOST_ENTRIES)
        try:
            data = self._store.raw_entries(header.topic, header.queue_id, header.index, stop)
        except OffsetOutOfRange:
            return []
        return [ConsumeQueueEntry(*fields) for fields in ENTRY.iter_unpack(data)]

    def _describe_group(
        self, header: QueryConsumeQueueRequestHeader, body: QueryConsumeQueueResponseBody
    ) -> GroupSubscription | None:
        """Tell what the group asked about subscribes to."""
        if not header.consumer_group:
            return None
        group = self._clients.consumers.get(header.consumer_group)
        found = group.subscriptions.get(header.topic) if group else None
        if found is None:
            body.filter_data = f"{header.consumer_group} does not subscribe to {header.topic} now"
            return None
        body.subscription_data = found.data
        filter_data = self._filters.stored(header.topic, header.consumer_group)
        body.filter_data = dumps_pretty(filter_data).decode() if filter_data else None
        return found

    def _row(
        self, entry: ConsumeQueueEntry, wanted: GroupSubscription | None, header: QueryConsumeQueueRequestHeader
    ) -> ConsumeQueueData:
        row = ConsumeQueueData(physic_offset=entry.physical_offset, physic_size=entry.size, tags_code=entry.tags_code)
        if wanted is not None:
            row.eval = self._wants(entry, wanted, header)
        return row

    def _wants(
        self, entry: ConsumeQueueEntry, wanted: GroupSubscription, header: QueryConsumeQueueRequestHeader
    ) -> bool:
        if wanted.is_tags:
            return wanted.codes is None or entry.tags_code in wanted.codes
        known = self._filters.get(header.topic, header.consumer_group or "")
        record = self._store.read(entry.physical_offset)
        return known is not None and record is not None and accepts_record(known.scan, record)
