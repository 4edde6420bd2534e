"""Counters for tools, console and metrics: plain numbers on the hot path, rates from samples taken beside it."""

from __future__ import annotations

from collections import deque
from datetime import datetime
from typing import NamedTuple

from pyromq.broker.topics import TopicTable

SAMPLE_PERIOD = 10.0
MINUTE = 6  # samples
RATE_SPANS = (1, MINUTE, 10 * MINUTE)  # samples: rates over 10, 60 and 600 s, as RocketMQ shows them


class Count:
    """How many messages a group was given of a topic, and how many bytes."""

    __slots__ = ("_samples", "bytes", "messages")

    def __init__(self) -> None:
        self.messages = 0
        self.bytes = 0
        self._samples: deque[tuple[float, int]] = deque(maxlen=MINUTE + 1)

    def sample(self, now: float) -> None:
        """Note the count; called every SAMPLE_PERIOD."""
        self._samples.append((now, self.messages))

    @property
    def rate(self) -> float:
        """Return messages a second over the last minute."""
        if len(self._samples) < 2:
            return 0.0
        (since, before), (now, messages) = self._samples[0], self._samples[-1]
        return (messages - before) / max(now - since, 1e-3)


class Totals(NamedTuple):
    """All that a broker has put and got since it started."""

    puts: int
    put_bytes: int
    gets: int
    get_bytes: int


class Sample(NamedTuple):
    """The totals at a time."""

    now: float
    totals: Totals


class Rates:
    """Totals as they were at times, and at midnight."""

    def __init__(self, now: float) -> None:
        self._samples: deque[Sample] = deque(maxlen=max(RATE_SPANS) + 1)
        self._day = _day(now)
        self.this_morning = Totals(0, 0, 0, 0)
        self.yesterday_morning = Totals(0, 0, 0, 0)

    def sample(self, now: float, totals: Totals) -> None:
        """Note the totals; called every SAMPLE_PERIOD."""
        if _day(now) != self._day:
            self._day = _day(now)
            self.yesterday_morning, self.this_morning = self.this_morning, totals
        self._samples.append(Sample(now, totals))

    def text(self, field: str) -> str:
        """Return the rates of one total over 10, 60 and 600 s as RocketMQ writes them: three numbers and blanks."""
        return " ".join(str(round(self._rate(field, span), 3)) for span in RATE_SPANS)

    def _rate(self, field: str, span: int) -> float:
        """Return the rate over so many samples, or over those that there are."""
        if len(self._samples) < 2:
            return 0.0
        old, new = self._samples[max(0, len(self._samples) - 1 - span)], self._samples[-1]
        change: int = getattr(new.totals, field) - getattr(old.totals, field)
        return change / max(new.now - old.now, 1e-3)


class BrokerStats:
    """All that is counted: puts by topic (each topic counts its own), gets by topic and group."""

    def __init__(self, topics: TopicTable, now: float) -> None:
        self.rates = Rates(now)
        self.gets: dict[tuple[str, str], Count] = {}
        self._topics = topics

    def count_get(self, topic: str, group: str, messages: int, size: int) -> None:
        """Count an answer with messages in it."""
        count = self.gets.get((topic, group))
        if count is None:
            count = self.gets[topic, group] = Count()
        count.messages += messages
        count.bytes += size

    def group_rate(self, topic: str, group: str) -> float:
        """Return how many messages a second the group was given of the topic, over the last minute."""
        count = self.gets.get((topic, group))
        return count.rate if count else 0.0

    def totals(self) -> Totals:
        """Return what has been put and got since the start."""
        topics, gets = self._topics.by_name.values(), self.gets.values()
        return Totals(
            self._topics.removed_puts + sum(topic.puts for topic in topics),
            self._topics.removed_put_bytes + sum(topic.put_bytes for topic in topics),
            sum(count.messages for count in gets),
            sum(count.bytes for count in gets),
        )

    def sample(self, now: float) -> None:
        """Note all counts; called every SAMPLE_PERIOD."""
        self.rates.sample(now, self.totals())
        for count in self.gets.values():
            count.sample(now)


def _day(now: float) -> int:
    return datetime.fromtimestamp(now).toordinal()
