"""How far groups are: in messages (208, 317) and in time (303)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Final

from pyromq.broker.parts import Parts
from pyromq.broker.tables.topic_table import Topic
from pyromq.protocol.bodies import (
    ConsumeStats,
    ConsumeStatsList,
    OffsetWrapper,
    QueryConsumeTimeSpanBody,
    QueueTimeSpan,
    encode,
)
from pyromq.protocol.command import RemotingCommand, response
from pyromq.protocol.headers.admin import (
    GetBrokerConsumeStatsRequestHeader,
    GetConsumeStatsRequestHeader,
    QueryConsumeTimeSpanRequestHeader,
)
from pyromq.protocol.messages.message import MessageQueue
from pyromq.protocol.messages.record import read_head
from pyromq.remoting.connection import Connection
from pyromq.store.read.readable import ReadableStore

NEVER: Final = -1


def stored_at(store: ReadableStore, topic: str, queue_id: int, offset: int) -> int:
    """Return when the message at a queue offset was stored, ms since the epoch; NEVER if it is not there."""
    if offset < 0:
        return NEVER
    views = store.get(topic, queue_id, offset, 1).views
    return read_head(bytes(views[0])).store_timestamp_ms if views else NEVER


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

    def of_group(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Return how far a group is in every queue of its topics, or of one of them."""
        header = request.header(GetConsumeStatsRequestHeader)
        group = header.consumer_group
        names = [header.topic] if header.topic else self._offsets.topics_of(group)
        topics = list(self._consumed(group, names))
        table = {queue: offsets for topic in topics for queue, offsets in self._queues(group, topic, topic.read_queues)}
        tps = sum(self._stats.group_rate(topic.name, group) for topic in topics)
        return response(request, body=encode(ConsumeStats(offset_table=table, consume_tps=tps)))

    async def of_all(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Return how far every group is in every topic, or in every ordered one, and what is left in all."""
        only_ordered = request.header(GetBrokerConsumeStatsRequestHeader).is_order
        topics = self._offsets.topics_by_group()
        found: dict[str, list[ConsumeStats]] = {}
        for name in list(self._groups.by_name):
            of_group = partial(self._by_topic, name, topics.get(name, ()), only_ordered)
            found[name] = await self._reads.read(of_group)
            await self._clock.sleep(0)  # each queue is a read, and other requests wait
        left = sum(
            queue.broker_offset - queue.consumer_offset
            for stats in found.values()
            for topic in stats
            for queue in topic.offset_table.values()
        )
        rows = [{name: stats} for name, stats in found.items()]
        return response(request, body=encode(ConsumeStatsList(rows, self._address, left)))

    def time_spans(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Return what time a group has reached in each queue of a topic, and how late that is."""
        header = request.header(QueryConsumeTimeSpanRequestHeader)
        topic = self._topics.find(header.topic)
        spans = [self._span(header.group, topic.name, queue_id) for queue_id in range(topic.write_queues)]
        return response(request, body=encode(QueryConsumeTimeSpanBody([span.with_texts() for span in spans])))

    def _consumed(self, group: str, names: Iterable[str]) -> Iterator[Topic]:
        """Leave out topics that do not exist, and those that the group, being online, no longer consumes."""
        online = self._clients.consumers.get(group)
        for name in names:
            topic = self._topics.get(name)
            if topic is not None and (online is None or name in online.subscriptions):
                yield topic

    def _by_topic(self, group: str, names: Iterable[str], only_ordered: bool) -> list[ConsumeStats]:
        return [
            ConsumeStats(
                offset_table=dict(self._queues(group, topic, topic.write_queues)),
                consume_tps=self._stats.group_rate(topic.name, group),
            )
            for topic in self._consumed(group, names)
            if topic.config.order or not only_ordered
        ]

    def _queues(self, group: str, topic: Topic, count: int) -> Iterator[tuple[MessageQueue, OffsetWrapper]]:
        committed = self._offsets.of(group, topic.name)
        for queue_id in range(count):
            offset = max(committed.get(queue_id, 0), 0)
            yield (
                MessageQueue(topic.name, self._broker_name, queue_id),
                OffsetWrapper(
                    broker_offset=max(self._store.max_offset(topic.name, queue_id), 0),
                    consumer_offset=offset,
                    last_timestamp=max(stored_at(self._store, topic.name, queue_id, offset - 1), 0),
                ),
            )

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
