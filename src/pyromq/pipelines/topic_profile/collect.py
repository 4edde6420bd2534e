"""Runs the frames of a profile and gathers their rows into plain values."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pyromq.pipelines.outcome import Progress
from pyromq.pipelines.topic_profile.distributions import STEPS_OF_AN_OCTAVE, highest, histogram, percentiles, quantiles
from pyromq.pipelines.topic_profile.frames import LATENCY_DIGITS, SIZE_DIGITS, Frames
from pyromq.pipelines.topic_profile.profile import (
    Failure,
    NameCount,
    Profile,
    QueueProfile,
    Timing,
    TopicProfile,
    Weight,
)
from pyromq.pipelines.topic_profile.survey import Survey

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

_FRAMES = 4


def collect(frames: Frames, sample: float, progress: Progress) -> Profile:
    """Run all frames and return the profile."""
    counting = _Counting(sum(frames.survey.sizes.values()), progress)
    figures = _by_topic(counting.rows(frames.figures, "messages"))
    topics = {topic: _topic(topic, rows, frames.survey) for topic, rows in figures.items()}
    for row in counting.rows(frames.names, "keys and tags"):
        _put_names(topics[row["topic"]], row)
    failures = counting.rows(frames.failures, "failures")
    timings = counting.rows(frames.traces, "traces")
    counting.finish()
    return Profile(
        origin=frames.survey.origin,
        sample=sample,
        width=next((rows[0]["width_ms"] for rows in figures.values()), 1000) / 1000,
        topics=sorted(topics.values(), key=lambda topic: -topic.messages),
        progress=frames.survey.progress,
        failures=[_failure(row) for row in failures],
        sends=[_timing(row) for row in timings if row["kind"] == "send"],
        ways=[_timing(row) for row in timings if row["kind"] == "way"],
        calls=[_timing(row) for row in timings if row["kind"] == "call"],
    )


class _Counting:
    """Runs one frame after another and reports progress."""

    def __init__(self, total: int, progress: Progress) -> None:
        self._total = total
        self._progress = progress
        self._done = 0

    def rows(self, frame: DataFrame | None, doing: str) -> list[Row]:
        """Return the rows of a frame; none if there is no frame."""
        self._progress.reached(self._total * self._done // _FRAMES, self._total, f"counting {doing}")
        self._done += 1
        return [] if frame is None else frame.collect()

    def finish(self) -> None:
        """Report that Spark has finished."""
        self._progress.reached(self._total, self._total, "writing the page")


# --- rows to values ---------------------------------------------------------------------------------------------------


def _by_topic(rows: list[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["topic"], []).append(row)
    return found


def _topic(name: str, figures: list[Row], survey: Survey) -> TopicProfile:
    in_queues = [row for row in figures if row["broker_name"] is not None]
    sizes = _values(figures, "size_value")
    latencies = _values(figures, "latency_value")
    topic = TopicProfile(
        topic=name,
        messages=sum(row["messages"] for row in in_queues),
        stored=sum(row["stored"] for row in in_queues),
        bodies=sum(row["bodies"] for row in in_queues),
        first=_time(min(row["first_ms"] for row in in_queues)),
        last=_time(max(row["last_ms"] for row in in_queues)),
        sizes=percentiles(sizes, SIZE_DIGITS, max(row["largest"] for row in in_queues)),
        latencies_ms=percentiles(latencies, LATENCY_DIGITS, max(row["slowest_ms"] for row in in_queues)),
        early=sum(row["early"] for row in in_queues),
        compressed=sum(row["compressed"] for row in in_queues),
        size_steps=histogram(sizes, STEPS_OF_AN_OCTAVE),
        latency_steps=histogram(latencies, 1),
        latency_over_time=_latency_over_time(figures),
        queues=_queues(name, survey),
    )
    for row in in_queues:
        queue = _queue(topic, row)
        queue.messages += row["messages"]
        queue.rates[row["step"]] = row["messages"]
    return topic


def _values(figures: list[Row], column: str) -> dict[int, Weight]:
    """Return the number and bytes of messages for each value of a column."""
    found: dict[int, Weight] = {}
    for row in figures:
        if (value := row[column]) is not None:
            so_far = found.get(value, Weight(0, 0))
            found[value] = Weight(so_far.messages + row["messages"], so_far.stored + row["stored"])
    return found


def _latency_over_time(figures: list[Row]) -> dict[int, tuple[float, float]]:
    by_step: dict[int, list[Row]] = {}
    for row in figures:
        if (step := row["latency_step"]) is not None:
            by_step.setdefault(step, []).append(row)
    return {step: _half_and_most(rows) for step, rows in by_step.items()}


def _half_and_most(rows: list[Row]) -> tuple[float, float]:
    slowest_ms = max(row["slowest_ms"] for row in rows)
    half, most = quantiles(_values(rows, "latency_value"), (0.5, 0.99))
    return highest(half, LATENCY_DIGITS, slowest_ms), highest(most, LATENCY_DIGITS, slowest_ms)


def _time(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def _queues(topic: str, survey: Survey) -> list[QueueProfile]:
    """Return all queues of a topic; Spark sees only those with messages."""
    return [
        QueueProfile(broker_name=queue.broker_name, queue_id=queue.queue_id, held=survey.sizes[queue])
        for queue in sorted(survey.sizes)
        if queue.topic == topic
    ]


def _queue(topic: TopicProfile, row: Row) -> QueueProfile:
    for queue in topic.queues:
        if (queue.broker_name, queue.queue_id) == (row["broker_name"], row["queue_id"]):
            return queue
    topic.queues.append(QueueProfile(broker_name=row["broker_name"], queue_id=row["queue_id"]))  # created meanwhile
    return topic.queues[-1]


def _put_names(topic: TopicProfile, row: Row) -> None:
    """Store a topic's keys or tags, or the hottest key of a queue."""
    match row["kind"], row["most"]:
        case "key", None:
            _queue(topic, row).hottest = NameCount(row["hottest"]["name"], row["hottest"]["messages"])
        case "key", most:
            topic.key_count, topic.with_key, topic.scattered_keys = row["names"], row["messages"], row["scattered"]
            topic.keys = [NameCount(*name) for name in most]
        case "tag", most if most is not None:
            topic.tag_count = row["names"]
            topic.tags = [NameCount(*name) for name in most]


def _failure(row: Row) -> Failure:
    return Failure(row["kind"] == "dead", row["group"], row["topic"], row["cause"], row["messages"], row["most_tries"])


def _timing(row: Row) -> Timing:
    p50, p90, p99 = row["percentiles_ms"] or (0, 0, 0)
    names = row["topic"] or "", row["group"] or ""
    return Timing(*names, row["messages"], p50, p90, p99, row["slowest_ms"] or 0, row["failed"])
