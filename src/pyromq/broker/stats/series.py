"""What /metrics shows of every topic, group and queue of a master: the rows, and reading them a few at a time.

Slaves have copies of the same tables and show none of this, or sums over a cluster would count everything twice.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from itertools import islice
from typing import Any, Final, NamedTuple

from pyromq.broker.parts import Parts
from pyromq.broker.stats.broker_stats import Count
from pyromq.broker.stats.group_lag import GroupBacklog, GroupLags, QueueBacklog
from pyromq.broker.tables.topic_table import Topic
from pyromq.figures import BoundFigures, Figure, Kind, MetricSeries, SeriesBatch, SeriesTable
from pyromq.protocol.names import DLQ_PREFIX, RETRY_PREFIX

TOPICS_A_STEP: Final = 50
COUNTS_A_STEP: Final = 200
MOST_PAIRS: Final = 20_000
"""Pairs of group and topic that a page shows, waiting or not; then as many again in which messages wait."""


class TopicReading(NamedTuple):
    """A topic, and what its queues hold."""

    topic: Topic
    end: int
    """The ends of all queues, added up."""

    @property
    def put_rate(self) -> float:
        """Messages stored a second in the last minute."""
        return 0.0 if self.topic.series is None else self.topic.series.rate

    @property
    def put_byte_rate(self) -> float:
        """Bytes stored a second in the last minute."""
        return 0.0 if self.topic.series is None else self.topic.series.byte_rate


class DeadLetterReading(NamedTuple):
    """The dead letters of a group."""

    group: str
    end: int
    waiting: int


class GroupReading(NamedTuple):
    """Who is in a group."""

    group: str
    members: int


class DeliveryReading(NamedTuple):
    """What a group got of a topic."""

    topic: str
    group: str
    delivered: Count


class BrokerSeries:
    """Reads topics, groups and queues a few at a time; others have their turn in between."""

    def __init__(self, parts: Parts, lags: GroupLags) -> None:
        self._parts = parts
        self._lags = lags
        self.left_out = 0
        """Pairs of group and topic that the last page did not show."""

    def figures(self) -> BoundFigures[BrokerSeries]:
        """Return the figures of the pages themselves."""
        return BoundFigures(_FIGURES, lambda: self)

    async def batches(self) -> AsyncGenerator[SeriesBatch, None]:
        """Yield all that there is, in batches that take about a millisecond each."""
        for batch in self._without_waiting():
            yield batch
            await self._parts.clock.sleep(0)
        shown = left_out = 0
        async with aclosing(self._lags.walk()) as walk:
            async for progress in walk:
                chosen = _chosen(progress, shown)
                shown += len(chosen)
                left_out += len(progress) - len(chosen)
                yield (GROUP_TOPIC_TABLE,), chosen
                yield (QUEUE_TABLE,), [queue for each in chosen for queue in each.queues]
        self.left_out = left_out

    def _without_waiting(self) -> Iterator[SeriesBatch]:
        parts = self._parts
        topics = iter(list(parts.topics.by_name.values()))
        while some := list(islice(topics, TOPICS_A_STEP)):
            readings = [TopicReading(topic, self._end(topic)) for topic in some]
            yield (TOPIC_TABLE,), readings
            yield (RETRY_TOPIC_TABLE,), [each for each in readings if each.topic.is_retry]
            yield (DEAD_LETTER_TABLE,), [*self._dead_letters(readings)]
        deliveries = iter(list(parts.stats.gets.items()))
        while counts := list(islice(deliveries, COUNTS_A_STEP)):
            yield (DELIVERY_TABLE,), [DeliveryReading(topic, group, count) for (topic, group), count in counts]
        returned = iter(parts.stats.named("SNDBCK_PUT_NUMS"))
        while counts := list(islice(returned, COUNTS_A_STEP)):
            yield (SEND_BACK_TABLE,), [DeliveryReading(topic, group, count) for (topic, group), count in counts]
        consumers = [GroupReading(name, len(group.members)) for name, group in parts.clients.consumers.items()]
        yield (CONSUMER_TABLE,), consumers
        yield (PRODUCER_TABLE,), [GroupReading(name, len(who)) for name, who in parts.clients.producers.items()]

    def _end(self, topic: Topic) -> int:
        max_offset, name = self._parts.store.max_offset, topic.name
        return sum(max(max_offset(name, queue_id), 0) for queue_id in range(topic.queues))

    def _dead_letters(self, readings: list[TopicReading]) -> Iterator[DeadLetterReading]:
        for reading in readings:
            name = reading.topic.name
            if name.startswith(DLQ_PREFIX):
                first = sum(self._parts.store.min_offset(name, queue_id) for queue_id in range(reading.topic.queues))
                yield DeadLetterReading(name.removeprefix(DLQ_PREFIX), reading.end, max(reading.end - first, 0))


def _chosen(progress: list[GroupBacklog], shown: int) -> list[GroupBacklog]:
    """Return what a page shows that has so many pairs already: with thousands of groups it would grow without end."""
    if shown < MOST_PAIRS:
        return progress
    return [each for each in progress if each.lag] if shown < 2 * MOST_PAIRS else []


_FIGURES: Final[tuple[Figure[BrokerSeries], ...]] = (
    Figure(
        "metrics_left_out",
        "Pairs of group and topic that the last page of metrics did not show, because there are too many.",
        Kind.GAUGE,
        lambda series: series.left_out,
    ),
)
TOPIC_TABLE: Final = SeriesTable[TopicReading](
    ("topic",),
    lambda of: (of.topic.name,),
    (
        MetricSeries("pyromq_topic_messages_total", "Messages stored.", Kind.COUNTER, lambda of: of.topic.puts),
        MetricSeries("pyromq_topic_bytes_total", "Bytes stored.", Kind.COUNTER, lambda of: of.topic.put_bytes),
        MetricSeries("rocketmq_producer_tps", "Messages stored a second.", Kind.GAUGE, lambda of: of.put_rate),
        MetricSeries(
            "rocketmq_producer_message_size", "Bytes stored a second.", Kind.GAUGE, lambda of: of.put_byte_rate
        ),
        MetricSeries("rocketmq_producer_offset", "The ends of all queues, added up.", Kind.GAUGE, lambda of: of.end),
    ),
)
RETRY_TOPIC_TABLE: Final = SeriesTable[TopicReading](
    ("topic", "group"),
    lambda of: (of.topic.name, of.topic.name.removeprefix(RETRY_PREFIX)),
    (MetricSeries("rocketmq_topic_retry_offset", "The end of a group's retries.", Kind.GAUGE, lambda of: of.end),),
)
DEAD_LETTER_TABLE: Final = SeriesTable[DeadLetterReading](
    ("group",),
    lambda of: (of.group,),
    (
        MetricSeries("pyromq_group_dead_letters", "Dead letters of a group.", Kind.GAUGE, lambda of: of.waiting),
        MetricSeries("rocketmq_group_dlqdiff", "Dead letters of a group.", Kind.GAUGE, lambda of: of.waiting),
        MetricSeries("rocketmq_topic_dlq_offset", "The end of a group's dead letters.", Kind.GAUGE, lambda of: of.end),
    ),
)
DELIVERY_TABLE: Final = SeriesTable[DeliveryReading](
    ("topic", "group"),
    lambda of: (of.topic, of.group),
    (
        MetricSeries(
            "pyromq_group_messages_total", "Messages delivered.", Kind.COUNTER, lambda of: of.delivered.messages
        ),
        MetricSeries("pyromq_group_bytes_total", "Bytes delivered.", Kind.COUNTER, lambda of: of.delivered.bytes),
        MetricSeries(
            "rocketmq_consumer_tps", "Messages delivered a second.", Kind.GAUGE, lambda of: of.delivered.series.rate
        ),
        MetricSeries(
            "rocketmq_group_consume_tps",
            "Messages delivered a second.",
            Kind.GAUGE,
            lambda of: of.delivered.series.rate,
        ),
        MetricSeries(
            "rocketmq_consumer_message_size",
            "Bytes delivered a second.",
            Kind.GAUGE,
            lambda of: of.delivered.series.byte_rate,
        ),
    ),
)
SEND_BACK_TABLE: Final = SeriesTable[DeliveryReading](
    ("topic", "group"),
    lambda of: (of.topic, of.group),
    (
        MetricSeries(
            "pyromq_group_retries_total", "Messages sent back.", Kind.COUNTER, lambda of: of.delivered.messages
        ),
        MetricSeries("rocketmq_send_back_nums", "Messages sent back.", Kind.GAUGE, lambda of: of.delivered.messages),
    ),
)
CONSUMER_TABLE: Final = SeriesTable[GroupReading](
    ("group",),
    lambda of: (of.group,),
    (
        MetricSeries(
            "pyromq_group_members", "Consumers of a group that are online.", Kind.GAUGE, lambda of: of.members
        ),
        MetricSeries(
            "rocketmq_group_count", "Consumers of a group that are online.", Kind.GAUGE, lambda of: of.members
        ),
    ),
)
PRODUCER_TABLE: Final = SeriesTable[GroupReading](
    ("group",),
    lambda of: (of.group,),
    (
        MetricSeries(
            "rocketmq_producer_count", "Producers of a group that are online.", Kind.GAUGE, lambda of: of.members
        ),
    ),
)
GROUP_TOPIC_TABLE: Final = SeriesTable[GroupBacklog](
    ("group", "topic"),
    lambda of: (of.group, of.topic),
    (
        MetricSeries("pyromq_group_lag_messages", "Messages that wait for a group.", Kind.GAUGE, lambda of: of.lag),
        MetricSeries(
            "pyromq_group_lag_seconds",
            "The age of the oldest message that waits for a group; 0 if none does.",
            Kind.GAUGE,
            lambda of: of.behind,
        ),
        MetricSeries(
            "pyromq_group_blocked_seconds",
            "The longest that a queue of the group has stood still while messages waited; 0 if none does.",
            Kind.GAUGE,
            lambda of: of.still,
        ),
        MetricSeries(
            "rocketmq_group_get_latency_by_storetime",
            "The age of the oldest message that waits for a group, in ms.",
            Kind.GAUGE,
            lambda of: None if of.behind is None else of.behind * 1000,
        ),
        MetricSeries(
            "rocketmq_consumer_offset", "The committed offsets, added up.", Kind.GAUGE, lambda of: of.committed
        ),
        MetricSeries(
            "rocketmq_group_consume_total_offset",
            "The committed offsets, added up.",
            Kind.GAUGE,
            lambda of: of.committed,
        ),
        MetricSeries("rocketmq_group_diff", "Messages that wait for a group.", Kind.GAUGE, lambda of: of.lag),
        MetricSeries(
            "rocketmq_group_retrydiff",
            "Retries that wait for a group.",
            Kind.GAUGE,
            lambda of: of.lag if of.is_retry else None,
        ),
    ),
)
QUEUE_TABLE: Final = SeriesTable[QueueBacklog](
    ("group", "topic", "queue_id"),
    lambda of: (of.group, of.topic, str(of.queue_id)),
    (
        MetricSeries(
            "pyromq_queue_lag_messages", "Messages that wait in a queue, while some do.", Kind.GAUGE, lambda of: of.lag
        ),
        MetricSeries(
            "pyromq_queue_lag_seconds",
            "The age of the first message that waits in a queue.",
            Kind.GAUGE,
            lambda of: of.behind,
        ),
        MetricSeries(
            "pyromq_queue_blocked_seconds",
            "How long a queue has stood still while messages waited.",
            Kind.GAUGE,
            lambda of: of.still,
        ),
    ),
)
ALL_TABLES: Final[tuple[SeriesTable[Any], ...]] = (
    TOPIC_TABLE,
    RETRY_TOPIC_TABLE,
    DEAD_LETTER_TABLE,
    DELIVERY_TABLE,
    SEND_BACK_TABLE,
    CONSUMER_TABLE,
    PRODUCER_TABLE,
    GROUP_TOPIC_TABLE,
    QUEUE_TABLE,
)
