"""Counters of what a consumer pulled and consumed, by topic, and their rates over the last minute and hour."""

from __future__ import annotations

from collections import deque
from itertools import pairwise, zip_longest
from typing import NamedTuple

from msgspec import Struct

from pyromq.protocol.bodies import ConsumeStatus

SAMPLE_INTERVAL = 10.0
_MINUTE = 6  # samples
_HOUR = 360


class _Counters(Struct):
    at: float = 0.0
    pulls: int = 0
    pull_seconds: float = 0.0
    pulled: int = 0
    jobs: int = 0
    job_seconds: float = 0.0
    taken: int = 0
    failed: int = 0
    measured: int = 0
    """Messages of calls whose times were measured: a part of all."""
    cpu_seconds: float = 0.0
    measured_seconds: float = 0.0


class _Topic:
    def __init__(self, now: float) -> None:
        self.counters = _Counters()
        self.samples = deque([_Counters(at=now)], maxlen=_HOUR + 1)


class ListenerLoad(NamedTuple):
    """How a consumer's listener was used: its times within the last hour, and how busy it was in the last minute."""

    measured: int
    """Messages that were measured."""
    cpu_ms: float
    """CPU time of one message."""
    wait_ms: float
    """Time that one message waited, for a database or another service."""
    job_seconds: float
    """Seconds that calls took, in each second."""
    peak_rate: float
    """The most messages a second that were pulled within ten seconds of the last hour."""


class ConsumerStats:
    """Counts what was pulled and consumed, by topic."""

    def __init__(self, now: float) -> None:
        self._started = now
        self._topics: dict[str, _Topic] = {}
        self._new_times: deque[tuple[str, int, float, float]] = deque()  # threads append, the loop adds them up

    def count_pull(self, topic: str, seconds: float, messages: int) -> None:
        """Count a pull that returned messages."""
        counters = self._counters(topic)
        counters.pulls += 1
        counters.pull_seconds += seconds
        counters.pulled += messages

    def count_job(self, topic: str, seconds: float, taken: int, failed: int) -> None:
        """Count a call of the listener, the messages that it consumed and those that failed."""
        found = self._topics.get(topic)
        counters = self._counters(topic) if found is None else found.counters
        counters.jobs += 1
        counters.job_seconds += seconds
        counters.taken += taken
        counters.failed += failed

    def count_measured(self, topic: str, messages: int, cpu: float, seconds: float) -> None:
        """Count the times of a call of the listener that was measured; any thread may call this."""
        self._new_times.append((topic, messages, cpu, seconds))

    def _add_times(self) -> None:
        while self._new_times:
            topic, messages, cpu, seconds = self._new_times.popleft()
            counters = self._counters(topic)
            counters.measured += messages
            counters.cpu_seconds += cpu
            counters.measured_seconds += seconds

    def _counters(self, topic: str) -> _Counters:
        found = self._topics.get(topic)
        if found is None:
            found = self._topics[topic] = _Topic(self._started)
        return found.counters

    def sample(self, now: float) -> None:
        """Keep a copy of the counters; call this every ten seconds."""
        self._add_times()
        for topic in self._topics.values():
            counters = topic.counters
            counters.at = now
            topic.samples.append(_Counters(*[getattr(counters, name) for name in counters.__struct_fields__]))

    def status(self, topic: str, now: float) -> ConsumeStatus:
        """Return the rates of the last minute; times are in milliseconds."""
        found = self._topics.get(topic)
        if found is None:
            return ConsumeStatus()
        new, oldest = found.counters, found.samples[0]
        old = found.samples[-min(len(found.samples), _MINUTE + 1)]
        seconds = max(now - old.at, 1.0)
        return ConsumeStatus(
            pull_rt=_mean_ms(new.pull_seconds - old.pull_seconds, new.pulls - old.pulls),
            pull_tps=(new.pulled - old.pulled) / seconds,
            consume_rt=_mean_ms(new.job_seconds - old.job_seconds, new.jobs - old.jobs),
            consume_ok_tps=(new.taken - old.taken) / seconds,
            consume_failed_tps=(new.failed - old.failed) / seconds,
            consume_failed_msgs=new.failed - oldest.failed,
        )

    def listener_load(self, now: float) -> ListenerLoad:
        """Return how the listener was used, for all topics together."""
        self._add_times()
        measured = cpu = seconds = busy = 0.0
        for topic in self._topics.values():
            new, oldest = topic.counters, topic.samples[0]
            old = topic.samples[-min(len(topic.samples), _MINUTE + 1)]
            measured += new.measured - oldest.measured
            cpu += new.cpu_seconds - oldest.cpu_seconds
            seconds += new.measured_seconds - oldest.measured_seconds
            busy += (new.job_seconds - old.job_seconds) / max(now - old.at, 1.0)
        cpu_ms = _mean_ms(cpu, int(measured))
        return ListenerLoad(
            int(measured), cpu_ms, max(_mean_ms(seconds, int(measured)) - cpu_ms, 0.0), busy, self._peak_rate(now)
        )

    def _peak_rate(self, now: float) -> float:
        """Return the highest rate between two samples. All topics are sampled together, so they are added up."""
        rates: list[float] = []
        for topic in self._topics.values():
            points = [*topic.samples, _Counters(at=now, pulled=topic.counters.pulled)]
            steps = [(b.pulled - a.pulled) / max(b.at - a.at, SAMPLE_INTERVAL) for a, b in pairwise(points)][::-1]
            rates = [one + other for one, other in zip_longest(rates, steps, fillvalue=0.0)]
        return max(rates, default=0.0)


def _mean_ms(seconds: float, count: int) -> float:
    return seconds * 1000 / count if count else 0.0
