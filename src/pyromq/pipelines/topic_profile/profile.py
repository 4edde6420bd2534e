"""A profile as plain values: everything that a page shows, by topic."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from msgspec import Struct, field

from pyromq.pipelines.topic_profile.survey import GroupProgress


class Percentiles(NamedTuple):
    """Percentiles: half of the values are at most `p50`, and so on."""

    p50: float
    p90: float
    p99: float
    p999: float
    most: float


class NameCount(NamedTuple):
    """A key or tag, and how many messages have it."""

    name: str | None
    messages: int
    queues: int = 0
    queue_id: int = 0


class Weight(NamedTuple):
    """One step of a histogram: the number of messages and their bytes."""

    messages: int
    stored: int


class QueueProfile(Struct, kw_only=True):
    """One queue."""

    broker_name: str
    queue_id: int
    messages: int = 0
    held: int = 0
    """All messages it holds, counted or not: a queue outside the sample or time range is not empty."""
    hottest: NameCount | None = None
    rates: dict[int, int] = field(default_factory=dict)
    """Messages by time step."""


class TopicProfile(Struct, kw_only=True):
    """One topic."""

    topic: str
    messages: int
    stored: int
    bodies: int
    first: datetime
    last: datetime
    sizes: Percentiles
    latencies_ms: Percentiles
    early: int
    """Messages stored before they were created, by clocks that differ."""
    compressed: int = 0
    """Messages whose sizes are those after compression."""
    tag_count: int = 0
    queues: list[QueueProfile] = field(default_factory=list)
    size_steps: dict[int, Weight] = field(default_factory=dict)
    latency_steps: dict[int, Weight] = field(default_factory=dict)
    latency_over_time: dict[int, tuple[float, float]] = field(default_factory=dict)
    """Milliseconds within which half, and 99 %, of the messages were stored, by time step."""
    tags: list[NameCount] = field(default_factory=list)
    keys: list[NameCount] = field(default_factory=list)
    key_count: int = 0
    with_key: int = 0
    scattered_keys: int = 0
    """The number of keys in more than one queue."""

    def name_of(self, queue: QueueProfile) -> str:
        """Return a queue's name within its topic."""
        several = len({queue.broker_name for queue in self.queues}) > 1
        return f"{queue.broker_name}/{queue.queue_id}" if several else str(queue.queue_id)


class Failure(NamedTuple):
    """Messages that a group could not consume."""

    is_dead: bool
    group: str
    topic: str
    cause: str
    messages: int
    most_tries: int


class Timing(NamedTuple):
    """How long something took, according to traces."""

    topic: str
    group: str
    messages: int
    p50: float
    p90: float
    p99: float
    most: float
    failed: int = 0


class Profile(Struct, kw_only=True):
    """Everything that a page shows."""

    origin: str
    sample: float
    width: float
    """Length of a time step in seconds; steps are counted from 1970."""
    topics: list[TopicProfile]
    progress: list[GroupProgress] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    sends: list[Timing] = field(default_factory=list)
    ways: list[Timing] = field(default_factory=list)
    calls: list[Timing] = field(default_factory=list)

    @property
    def messages(self) -> int:
        """The number of counted messages."""
        return sum(topic.messages for topic in self.topics)

    @property
    def lags(self) -> dict[tuple[str, str], int]:
        """The lag of each group in each topic."""
        lags: dict[tuple[str, str], int] = {}
        for step in self.progress:
            name = step.group, step.queue.topic
            lags[name] = lags.get(name, 0) + step.lag
        return lags

    @property
    def steps(self) -> range:
        """All time steps, from the first message to the last."""
        firsts = [self._step(topic.first) for topic in self.topics]
        lasts = [self._step(topic.last) for topic in self.topics]
        return range(min(firsts), max(lasts) + 1) if firsts else range(0)

    def _step(self, time: datetime) -> int:
        return round(time.timestamp() * 1000) // round(self.width * 1000)  # as Spark counts: in whole milliseconds
