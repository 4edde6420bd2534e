"""How far groups are: in messages (208, 317) and in time (303)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Final

from pyromq.broker.parts import Parts
from pyromq.broker.stats.group_lag import NEVER, stored_at
from pyromq.broker.tables.topic_table import Topic
from pyromq.protocol.bodies import (
    ConsumeStats,
    ConsumeStatsList,
    OffsetWrapper,
    QueryConsumeTimeSpanBody,
    QueueTimeSpan,
)
from pyromq.protocol.bodies.json_steps import encoding
from pyromq.protocol.command import RemotingCommand, response
from pyromq.protocol.headers.admin import (
    GetBrokerConsumeStatsRequestHeader,
    GetConsumeStatsRequestHeader,
    QueryConsumeTimeSpanRequestHeader,
)
from pyromq.protocol.messages.message import MessageQueue
from pyromq.remoting.connection import Connection
from pyromq.remoting.slices import AnswerSteps, Steps

QUEUES_A_STEP: Final = 32
"""Queues looked at in one step of a long answer; each may need a read of the log."""

OffsetRows = dict[MessageQueue, OffsetWrapper]


class ProgressHandlers:
    """Compares what groups have committed with what their queues hold."""

    def __init__(self, parts: Parts) -> None:
        self._broker_name = parts.name
        self._address = parts.address
        self._clock = parts.clock
        self._store = parts.store
        self._reads = parts.reads
        self._topics = parts.topics
        self._groups = parts.groups
        self._offsets = parts.offsets
        self._clients = parts.clients
        self._stats = parts.stats
        self._one_at_a_time = asyncio.Lock()

    def of_group(self, request: RemotingCommand, connection: Connection) -> AnswerSteps:
        """Return how far a group is in every queue of its topics, or of one of them."""
        header = request.header(GetConsumeStatsRequestHeader)
        group = header.consumer_group
        names = [header.topic] if header.topic else self._offsets.topics_of(group)
        topics = list(self._consumed(group, names))
        table: OffsetRows = {}
        for topic in topics:
            for start in range(0, topic.read_queues, QUEUES_A_STEP):
                table |= self._rows(group, topic, start, min(start + QUEUES_A_STEP, topic.read_queues))
                yield
        tps = sum(self._stats.group_rate(topic.name, group) for topic in topics)
        body = yield from encoding(ConsumeStats(offset_table=table, consume_tps=tps))
        return response(request, body=body)

    async def of_all(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Return how far every group is in every topic, or in every ordered one, and what is left in all."""
        only_ordered = request.header(GetBrokerConsumeStatsRequestHeader).is_order
        rows: list[dict[str, list[ConsumeStats]]] = []
        left = 0
        async with self._one_at_a_time:
            for name in list(self._groups.by_name):
                stats: list[ConsumeStats] = []
                for topic in list(self._consumed(name, self._offsets.topics_of(name))):
                    if topic.config.order or not only_ordered:
                        table = await self._read_queues(name, topic)
                        left += sum(queue.broker_offset - queue.consumer_offset for queue in table.values())
                        stats.append(ConsumeStats(table, self._stats.group_rate(topic.name, name)))
                rows.append({name: stats})
                await self._clock.sleep(0)  # other requests wait
            body = await self._in_passes(encoding(ConsumeStatsList(rows, self._address, left)))
        return response(request, body=body)

    async def _read_queues(self, group: str, topic: Topic) -> OffsetRows:
        """Return the progress in the queues of a topic, a few at a time: each may be a read from the disk."""
        table: OffsetRows = {}
        for start in range(0, topic.write_queues, QUEUES_A_STEP):
            stop = min(start + QUEUES_A_STEP, topic.write_queues)
            table |= await self._reads.read(partial(self._rows, group, topic, start, stop))
            await self._clock.sleep(0)
        return table

    async def _in_passes(self, steps: Steps[bytes]) -> bytes:
        """Take one step in each pass of the loop."""
        while True:
            try:
                next(steps)
            except StopIteration as stop:
                result: bytes = stop.value
                return result
            await self._clock.sleep(0)

    def time_spans(self, request: RemotingCommand, connection: Connection) -> AnswerSteps:
        """Return what time a group has reached in each queue of a topic, and how late that is."""
        header = request.header(QueryConsumeTimeSpanRequestHeader)
        topic = self._topics.find(header.topic)
        spans: list[QueueTimeSpan] = []
        for queue_id in range(topic.write_queues):
            spans.append(self._span(header.group, topic.name, queue_id).with_texts())
            if queue_id % QUEUES_A_STEP == 0:
                yield
        body = yield from encoding(QueryConsumeTimeSpanBody(spans))
        return response(request, body=body)

    def _consumed(self, group: str, names: Iterable[str]) -> Iterator[Topic]:
        """Leave out topics that do not exist, and those that the group, being online, no longer consumes."""
        online = self._clients.consumers.get(group)
        for name in names:
            topic = self._topics.get(name)
            if topic is not None and (online is None or name in online.subscriptions):
                yield topic

    def _rows(self, group: str, topic: Topic, start: int, stop: int) -> OffsetRows:
        """Return the progress in some queues of a topic."""
        committed = self._offsets.of(group, topic.name)
        rows: OffsetRows = {}
        for queue_id in range(start, stop):
            offset = max(committed.get(queue_id, 0), 0)
            rows[MessageQueue(topic.name, self._broker_name, queue_id)] = OffsetWrapper(
                broker_offset=max(self._store.max_offset(topic.name, queue_id), 0),
                consumer_offset=offset,
                last_timestamp=max(stored_at(self._store, topic.name, queue_id, offset - 1), 0),
            )
        return rows

    def _span(self, group: str, topic: str, queue_id: int) -> QueueTimeSpan:
        first, end = self._store.min_offset(topic, queue_id), self._store.max_offset(topic, queue_id)
        committed = self._offsets.get(group, topic, queue_id) or 0
        earliest_ms = self._store.earliest_time(topic, queue_id)
        next_ms = stored_at(self._store, topic, queue_id, max(committed, first))
        return QueueTimeSpan(
            message_queue=MessageQueue(topic, self._broker_name, queue_id),
            min_time_stamp=earliest_ms,
            max_time_stamp=stored_at(self._store, topic, queue_id, end - 1),
            consume_time_stamp=stored_at(self._store, topic, queue_id, committed - 1) if committed > 0 else earliest_ms,
            delay_time=0 if next_ms == NEVER else self._clock.now_ms() - next_ms,
        )
