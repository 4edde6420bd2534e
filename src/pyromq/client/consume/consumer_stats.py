"""Counters of what a consumer pulled and consumed, by topic, and their rates over the last minute and hour."""

from __future__ import annotations

from collections import deque

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


class _Topic:
    def __init__(self, now: float) -> None:
        self.counters = _Counters()
        self.samples = deque([_Counters(at=now)], maxlen=_HOUR + 1)


class ConsumerStats:
    """Counts what was pulled and consumed, by topic."""

    def __init__(self, now: float) -> None:
        self._started = now
        self._topics: dict[str, _Topic] = {}

    def count_pull(self, topic: str, seconds: float, messages: int) -> None:
        """Count a pull that returned messages."""
        counters = self._counters(topic)
        counters.pulls += 1
        counters.pull_seconds += seconds
        counters.pulled += messages

    def count_job(self, topic: str, seconds: float, taken: int, failed: int) -> None:
        """Count a call of the listener, the messages that it consumed and those that failed."""
        counters = self._counters(topic)
        counters.jobs += 1
        counters.job_seconds += seconds
        counters.taken += taken
        counters.failed += failed

    def _counters(self, topic: str) -> _Counters:
        found = self._topics.get(topic)
        if found is None:
            found = self._topics[topic] = _Topic(self._started)
        return found.counters

    def sample(self, now: float) -> None:
        """Keep a copy of the counters; call this every ten seconds."""
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


def _mean_ms(seconds: float, count: int) -> float:
    return seconds * 1000 / count if count else 0.0
