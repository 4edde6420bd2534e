"""CountSeries: a count over the last minute, hour and day, as RocketMQ's tools show it.

A minute is seven samples 10 s apart, an hour seven samples 10 minutes apart, a day 25 samples an hour apart. A count
that does not change keeps no samples and costs no time, because a broker may have many idle topics.
"""

from __future__ import annotations

from typing import ClassVar, Final, Literal, NamedTuple

from pyromq.protocol.bodies import BrokerStatsData, BrokerStatsItem

TICK: Final = 10.0
"""Seconds between two samples."""

Column = Literal["messages", "bytes", "read_ms"]


class CountSample(NamedTuple):
    """What has been counted so far; no column ever decreases."""

    messages: int = 0
    bytes: int = 0
    calls: int = 0
    read_ms: float = 0.0


_NOTHING: Final = CountSample()


class _TimedSample(NamedTuple):
    tick: int
    counts: CountSample


class Span:
    """What was counted in a span of time: one sample for each period of `reach`, and the one before them."""

    __slots__ = ("_base", "_born", "_samples")

    period: ClassVar[int]
    """Ticks between two samples."""
    reach: ClassVar[int]
    """Ticks that the samples cover."""

    def __init__(self) -> None:
        self._base = _NOTHING
        self._born: int | None = None
        self._samples: list[_TimedSample] | None = None

    def sample(self, tick: int, counts: CountSample) -> None:
        """Add a sample; called every period."""
        if self._born is None:
            self._born = tick
        samples = self._samples
        if samples is None:
            if counts.messages == self._base.messages:
                return
            # No samples were kept while nothing changed. As in RocketMQ, a new count was 0 one period ago.
            since = max(self._born - self.period, tick - self.reach)
            samples = self._samples = [_TimedSample(since, self._base)]
        samples.append(_TimedSample(tick, counts))
        while samples[1].tick <= tick - self.reach:
            del samples[0]
        if samples[0].counts.messages == counts.messages:
            self._base = counts
            self._samples = None

    def is_quiet(self, counts: CountSample) -> bool:
        """Return True if no sample is needed until the counts change."""
        return self._samples is None and self._base.messages == counts.messages

    def item(self, column: Column) -> BrokerStatsItem:
        """Return sum, rate a second and average for a call."""
        if self._samples is None:
            return BrokerStatsItem()
        first, last = self._samples[0], self._samples[-1]
        total = getattr(last.counts, column) - getattr(first.counts, column)
        calls = last.counts.calls - first.counts.calls
        seconds = min(last.tick - first.tick, self.reach) * TICK
        return BrokerStatsItem(sum=round(total), tps=total / seconds, avgpt=total / calls if calls else 0.0)


class LastMinute(Span):
    """The last minute, every 10 s."""

    __slots__ = ()
    period, reach = 1, 6


class LastHour(Span):
    """The last hour, every 10 minutes."""

    __slots__ = ()
    period, reach = 60, 360


class LastDay(Span):
    """The last day, every hour."""

    __slots__ = ()
    period, reach = 360, 8_640


LONG_PERIOD: Final = LastHour.period


class CountSeries:
    """One count over the last minute, hour and day."""

    __slots__ = ("_day", "_hour", "_minute")

    def __init__(self) -> None:
        self._minute = LastMinute()
        self._hour = LastHour()
        self._day = LastDay()

    def sample(self, tick: int, counts: CountSample) -> bool:
        """Add a sample; return True if the next tick needs one even if nothing changes.

        At every tick of LONG_PERIOD a sample is needed in any case.
        """
        self._minute.sample(tick, counts)
        for span in (self._hour, self._day):
            if not tick % span.period:
                span.sample(tick, counts)
        return not self._minute.is_quiet(counts)

    def data(self, column: Column) -> BrokerStatsData:
        """Return the series of one column."""
        return BrokerStatsData(self._minute.item(column), self._hour.item(column), self._day.item(column))

    @property
    def rate(self) -> float:
        """Messages a second over the last minute."""
        return self._minute.item("messages").tps

    @property
    def byte_rate(self) -> float:
        """Bytes a second over the last minute."""
        return self._minute.item("bytes").tps
