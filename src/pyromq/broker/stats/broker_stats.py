"""BrokerStats: counters for tools, console and metrics. The hot path only adds numbers; samples give the rates."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from typing import Final, NamedTuple

from pyromq.broker.stats.time_series import LONG_PERIOD, TICK, Column, CountSample, CountSeries
from pyromq.broker.tables.topic_table import Topic, TopicTable
from pyromq.figures import BoundFigures, Figure, Kind
from pyromq.protocol.bodies import BrokerStatsData

SAMPLE_PERIOD = TICK
MINUTE = 6  # samples
RATE_SPANS = {"10": 1, "60": MINUTE, "600": 10 * MINUTE}  # seconds: samples; the rates that RocketMQ shows

AT_A_TIME = 200  # counts sampled at once, in about 1 ms

Later = Callable[[Callable[[], None]], object]

# RocketMQ's names for what is counted, and our column.
_OF_TOPICS: dict[str, Column] = {"TOPIC_PUT_NUMS": "messages", "TOPIC_PUT_SIZE": "bytes"}
_OF_GROUPS: dict[str, Column] = {
    "GROUP_GET_NUMS": "messages",
    "GROUP_GET_SIZE": "bytes",
    "GROUP_GET_LATENCY": "read_ms",
}
_BROKER_PUTS = "BROKER_PUT_NUMS"
_BROKER_GETS = "BROKER_GET_NUMS"


class Count:
    """How often something was done, with how many messages and bytes, and how long it took."""

    __slots__ = ("bytes", "calls", "messages", "read_ms", "sampled", "series")

    def __init__(self) -> None:
        self.messages = 0
        self.bytes = 0
        self.calls = 0
        self.read_ms = 0.0
        self.series = CountSeries()
        self.sampled = 0
        """What `messages` was when the last minute had no more changes; -1 while it has."""

    def sample(self, tick: int) -> None:
        """Add a sample; called every SAMPLE_PERIOD unless the count is idle."""
        busy = self.series.sample(tick, CountSample(self.messages, self.bytes, self.calls, self.read_ms))
        self.sampled = -1 if busy else self.messages


class Totals(NamedTuple):
    """What a broker has stored and delivered since it started; `found` and `missed` count pulls."""

    puts: int
    put_bytes: int
    gets: int
    get_bytes: int
    found: int = 0
    missed: int = 0


class Sample(NamedTuple):
    """The totals at a time."""

    at: float
    totals: Totals


class Rates:
    """The totals at each sample and at midnight."""

    def __init__(self, now: float) -> None:
        self._samples: deque[Sample] = deque(maxlen=max(RATE_SPANS.values()) + 1)
        self._day = _day(now)
        self.this_morning = Totals(0, 0, 0, 0)
        self.yesterday_morning = Totals(0, 0, 0, 0)

    def sample(self, now: float, at: float, totals: Totals) -> None:
        """Add a sample of the totals, every SAMPLE_PERIOD; `now` gives its day, and `at` its monotonic time."""
        if _day(now) != self._day:
            self._day = _day(now)
            self.yesterday_morning, self.this_morning = self.this_morning, totals
        self._samples.append(Sample(at, totals))

    def by_span(self, *fields: str) -> dict[str, float]:
        """Return the rates of totals, added up, over the last 10, 60 and 600 s."""
        return {
            seconds: round(sum(self._rate(field, span) for field in fields), 3) for seconds, span in RATE_SPANS.items()
        }

    def _rate(self, field: str, span: int) -> float:
        """Return the rate over this many samples, or over those there are."""
        if len(self._samples) < 2:
            return 0.0
        old, new = self._samples[max(0, len(self._samples) - 1 - span)], self._samples[-1]
        change: int = getattr(new.totals, field) - getattr(old.totals, field)
        return change / max(new.at - old.at, 1e-3)


class StatsReading(NamedTuple):
    """What the figures are read from: the totals are added up once for all of them."""

    stats: BrokerStats
    totals: Totals

    def by_day(self, field: str) -> dict[str, int]:
        """Return one of the totals as it was at the last two midnights and is now, by RocketMQ's words."""
        moments = {
            "YesterdayMorning": self.stats.rates.yesterday_morning,
            "TodayMorning": self.stats.rates.this_morning,
            "TodayNow": self.totals,
        }
        return {moment: getattr(totals, field) for moment, totals in moments.items()}


class BrokerStats:
    """All counts: puts by topic (in the topics themselves), gets by topic and group, rarer events by name."""

    def __init__(self, topics: TopicTable, now: float, later: Later = lambda work: work()) -> None:
        """`later` schedules the rest of a long piece of work, as a loop's call_soon does."""
        self.rates = Rates(now)
        self._later = later
        self.gets: dict[tuple[str, str], Count] = {}
        self.missed = 0
        """Pulls that found nothing."""
        self.longest_get_ms = 0.0
        self.replies_taken = 0
        """Replies that the waiting client took."""
        self.replies_not_taken = 0
        self._topics = topics
        self._named: dict[tuple[str, str], Count] = {}
        self._puts_of_all, self._gets_of_all = CountSeries(), CountSeries()
        self._tick = 0

    def count_get(self, topic: str, group: str, messages: int, size: int, read_ms: float) -> None:
        """Count an answer with messages."""
        count = self.count_of(topic, group)
        count.messages += messages
        count.bytes += size
        count.calls += 1
        count.read_ms += read_ms
        if read_ms > self.longest_get_ms:
            self.longest_get_ms = read_ms

    def count_of(self, topic: str, group: str) -> Count:
        """Return the count of what a group gets of a topic, for whoever adds to it and to `longest_get_ms` himself."""
        count = self.gets.get((topic, group))
        if count is None:
            count = self.gets[topic, group] = Count()
        return count

    def count(self, name: str, key: str, number: int = 1) -> None:
        """Count a rare event under RocketMQ's name for it, such as SNDBCK_PUT_NUMS of `topic@group`."""
        count = self._named.get((name, key))
        if count is None:
            count = self._named[name, key] = Count()
        count.messages += number
        count.calls += 1

    def named(self, name: str) -> list[tuple[tuple[str, str], Count]]:
        """Return the counts of a rare event, each with its topic and group."""
        return [(_topic_and_group(key), count) for (event, key), count in self._named.items() if event == name]

    def group_rate(self, topic: str, group: str) -> float:
        """Return how many messages a second of the topic the group got in the last minute."""
        count = self.gets.get((topic, group))
        return count.series.rate if count else 0.0

    def count_miss(self) -> None:
        """Count a pull that found nothing."""
        self.missed += 1

    def count_reply(self, *, taken: bool) -> None:
        """Count a reply; `taken` says whether the client that waited for it took it."""
        if taken:
            self.replies_taken += 1
        else:
            self.replies_not_taken += 1

    def figures(self) -> BoundFigures[StatsReading]:
        """Return the figures of what was counted."""
        return BoundFigures(_FIGURES, lambda: StatsReading(self, self.totals()))

    def totals(self) -> Totals:
        """Return what has been stored and delivered since the start."""
        gets = self.gets.values()
        puts, put_bytes = self._topics.removed_puts, self._topics.removed_put_bytes
        for topic in self._topics.by_name.values():
            puts += topic.puts
            put_bytes += topic.put_bytes
        return Totals(
            puts,
            put_bytes,
            sum(count.messages for count in gets),
            sum(count.bytes for count in gets),
            sum(count.calls for count in gets),
            self.missed,
        )

    def sample(self, now: float, at: float) -> None:
        """Sample all counts, every SAMPLE_PERIOD; `now` is the wall clock's time, and `at` the monotonic one."""
        self._tick += 1
        totals = self.totals()
        self.rates.sample(now, at, totals)
        self._puts_of_all.sample(self._tick, CountSample(totals.puts, totals.put_bytes, totals.puts))
        self._gets_of_all.sample(self._tick, CountSample(totals.gets, totals.get_bytes, totals.found))
        everything = self._tick % LONG_PERIOD == 0
        self._sample_some(
            self._tick,
            [
                topic
                for topic in self._topics.by_name.values()
                if topic.puts != topic.sampled_puts or (everything and topic.series)
            ],
            [
                count
                for count in (*self.gets.values(), *self._named.values())
                if everything or count.messages != count.sampled
            ],
        )

    def _sample_some(self, tick: int, topics: list[Topic], counts: list[Count]) -> None:
        """Sample some counts now and the rest later: 100,000 topics at once would block the loop for too long."""
        for _ in range(AT_A_TIME):
            if topics:
                _sample_topic(topics.pop(), tick)
            elif counts:
                counts.pop().sample(tick)
            else:
                return
        self._later(partial(self._sample_some, tick, topics, counts))

    def data(self, name: str, key: str, cluster: str) -> BrokerStatsData | None:
        """Return the series for RocketMQ's name and key; None if nothing was counted."""
        if name in _OF_TOPICS:
            topic = self._topics.get(key)
            return _of_topic(topic, _OF_TOPICS[name]) if topic else None
        if name in _OF_GROUPS:
            count = self.gets.get(_topic_and_group(key))
            return count.series.data(_OF_GROUPS[name]) if count else None
        if name in (_BROKER_PUTS, _BROKER_GETS) and key == cluster:
            series = self._puts_of_all if name == _BROKER_PUTS else self._gets_of_all
            return series.data("messages")
        count = self._named.get((name, key))
        return count.series.data("messages") if count else None


def _sample_topic(topic: Topic, tick: int) -> None:
    if topic.series is None:
        topic.series = CountSeries()
    busy = topic.series.sample(tick, CountSample(topic.puts, topic.put_bytes, topic.puts))
    topic.sampled_puts = -1 if busy else topic.puts


def _of_topic(topic: Topic, column: Column) -> BrokerStatsData | None:
    if topic.series is not None:
        return topic.series.data(column)
    return BrokerStatsData() if topic.puts else None  # its first sample has not been taken yet


def _topic_and_group(key: str) -> tuple[str, str]:
    """Read `topic@group`, or RocketMQ's `queue id@topic@group` for latencies; ours are counted by group."""
    topic, _, group = key.rpartition("@")
    return topic.rpartition("@")[2], group


def _day(now: float) -> int:
    return datetime.fromtimestamp(now).toordinal()


def spaced(rates: Mapping[str, float]) -> str:
    """Return rates as RocketMQ writes them: numbers with blanks between them."""
    return " ".join(map(str, rates.values()))


def _rate(name: str, help: str, runtime: str, exporter: str, *fields: str) -> Figure[StatsReading]:
    """Make the row of a rate over 10, 60 and 600 s; Prometheus has rates of its own, from the counters."""
    return Figure(
        name,
        help,
        Kind.GAUGE,
        lambda now: now.stats.rates.by_span(*fields),
        label="seconds",
        runtime=runtime,
        runtime_text=spaced,
        in_varz=False,
        in_metrics=False,
        exporter=f"rocketmq_brokeruntime_{exporter}_tps{{}}",
    )


def _by_day(verb: str) -> dict[str, str]:
    """Return rocketmq-exporter's names of a total at midnight and now; their spelling differs."""
    prefix = "rocketmq_brokeruntime_msg_"
    now = f"{prefix}put_total_today_now" if verb == "put" else f"{prefix}gettotal_today_now"
    return {
        "YesterdayMorning": f"{prefix}{verb}total_yesterdaymorning",
        "TodayMorning": f"{prefix}{verb}total_todaymorning",
        "TodayNow": now,
    }


_FIGURES: Final[tuple[Figure[StatsReading], ...]] = (
    Figure(
        "put_rate_now",
        "Messages stored a second, over the last 10 s.",
        Kind.GAUGE,
        lambda now: now.stats.rates.by_span("puts")["10"],
        in_varz=False,
        in_metrics=False,
        exporter="rocketmq_broker_tps",
    ),
    Figure(
        "get_rate_now",
        "Messages delivered a second, over the last 10 s.",
        Kind.GAUGE,
        lambda now: now.stats.rates.by_span("gets")["10"],
        in_varz=False,
        in_metrics=False,
        exporter="rocketmq_broker_qps",
    ),
    Figure(
        "messages_put",
        "Messages stored, all topics.",
        Kind.COUNTER,
        lambda now: now.totals.puts,
        runtime="putMessageTimesTotal",
        exporter="rocketmq_brokeruntime_putmessage_times_total",
    ),
    Figure(
        "bytes_put",
        "Bytes stored, all topics.",
        Kind.COUNTER,
        lambda now: now.totals.put_bytes,
        runtime="putMessageSizeTotal",
        exporter="rocketmq_brokeruntime_put_message_size_total",
    ),
    Figure(
        "average_put_bytes",
        "Bytes of a stored message, on average.",
        Kind.GAUGE,
        lambda now: now.totals.put_bytes / now.totals.puts if now.totals.puts else 0.0,
        runtime="putMessageAverageSize",
        in_varz=False,
        in_metrics=False,
        exporter="rocketmq_brokeruntime_put_message_average_size",
    ),
    _rate("put_rate", "Messages stored a second.", "putTps", "put", "puts"),
    _rate("get_rate", "Messages delivered a second.", "getTransferedTps", "gettransfered", "gets"),
    _rate("found_pull_rate", "Pulls a second that found messages.", "getFoundTps", "getfound", "found"),
    _rate("missed_pull_rate", "Pulls a second that found nothing.", "getMissTps", "getmiss", "missed"),
    _rate("pull_rate", "Pulls a second.", "getTotalTps", "gettotal", "found", "missed"),
    Figure(
        "longest_get_ms",
        "The longest read for a pull.",
        Kind.GAUGE,
        lambda now: now.stats.longest_get_ms,
        runtime="getMessageEntireTimeMax",
        runtime_text=lambda value: str(round(value)),
        exporter="rocketmq_brokeruntime_getmessage_entire_time_max",
    ),
    Figure(
        "messages_put_by_day",
        "Messages stored, up to midnight and now.",
        Kind.COUNTER,
        lambda now: now.by_day("puts"),
        label="moment",
        runtime="msgPutTotal{}",
        in_varz=False,
        in_metrics=False,
        exporter=_by_day("put"),
    ),
    Figure(
        "messages_got_by_day",
        "Messages delivered, up to midnight and now.",
        Kind.COUNTER,
        lambda now: now.by_day("gets"),
        label="moment",
        runtime="msgGetTotal{}",
        in_varz=False,
        in_metrics=False,
        exporter=_by_day("get"),
    ),
    Figure("messages_got", "Messages delivered to consumers.", Kind.COUNTER, lambda now: now.totals.gets),
    Figure("bytes_got", "Bytes delivered to consumers.", Kind.COUNTER, lambda now: now.totals.get_bytes),
    Figure("pulls_found", "Pulls that found messages.", Kind.COUNTER, lambda now: now.totals.found),
    Figure("pulls_missed", "Pulls that found nothing.", Kind.COUNTER, lambda now: now.totals.missed),
    Figure("replies_taken", "Replies that the waiting client took.", Kind.COUNTER, lambda now: now.stats.replies_taken),
    Figure("replies_not_taken", "Replies that no client took.", Kind.COUNTER, lambda now: now.stats.replies_not_taken),
)
