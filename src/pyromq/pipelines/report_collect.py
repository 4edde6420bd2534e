"""Have Spark count, and bring together what it says."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pyromq.pipelines.outcome import Progress
from pyromq.pipelines.report_frames import Frames
from pyromq.pipelines.report_profile import (
    Failure,
    Named,
    Percentiles,
    Profile,
    QueueProfile,
    Timing,
    TopicProfile,
    Weight,
)
from pyromq.pipelines.report_survey import Survey

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row


def collect(frames: Frames, sample: float, progress: Progress) -> Profile:
    """Have Spark count, and bring together what it says."""
    rows = _Counting(frames, progress)
    topics = {row["topic"]: _topic(row) for row in rows.of("topics", "messages")}
    _add_queues(topics, frames.survey)
    width_ms = 1000
    for row in rows.of("rates", "rates over time"):
        queue = _queue(topics[row["topic"]], row)
        queue.messages += row["messages"]
        queue.rates[row["step"]] = row["messages"]
        width_ms = row["width_ms"]
    for name, put in _PUTTERS.items():
        for row in rows.of(name, name.replace("_", " ")):
            put(topics[row["topic"]], row)
    return Profile(
        origin=frames.survey.origin,
        sample=sample,
        width=width_ms / 1000,
        topics=sorted(topics.values(), key=lambda topic: -topic.messages),
        progress=frames.survey.progress,
        failures=[_failure(row) for row in rows.collect(frames.failures, "failures")],
        sends=[_timing(row) for row in rows.collect(frames.traces and frames.traces.sends, "traces")],
        ways=[_timing(row) for row in rows.collect(frames.traces and frames.traces.ways, "traces")],
        calls=[_timing(row) for row in rows.collect(frames.traces and frames.traces.calls, "traces")],
    )


class _Counting:
    """Runs one frame after the other, and tells how far that has come."""

    def __init__(self, frames: Frames, progress: Progress) -> None:
        self._frames = frames
        self._progress = progress
        self._total = sum(frames.survey.sizes.values())
        self._steps = 2 + len(_PUTTERS) + 4
        self._done = 0

    def of(self, name: str, doing: str) -> list[Row]:
        """Return the rows of one of the frames that are always there."""
        return self.collect(getattr(self._frames, name), doing)

    def collect(self, frame: DataFrame | None, doing: str) -> list[Row]:
        """Return the rows of a frame, none of one that is not there."""
        self._progress.reached(self._total * self._done // self._steps, self._total, f"counting {doing}")
        self._done += 1
        rows = [] if frame is None else frame.collect()
        if self._done == self._steps:
            self._progress.reached(self._total, self._total, "writing the page")
        return rows


# --- rows to values ---------------------------------------------------------------------------------------------------


def _topic(row: Any) -> TopicProfile:
    return TopicProfile(
        topic=row["topic"],
        messages=row["messages"],
        stored=row["stored"],
        bodies=row["bodies"],
        first=_time(row["first_ms"]),
        last=_time(row["last_ms"]),
        sizes=Percentiles._make([*row["sizes"], row["largest"]]),
        latencies_ms=Percentiles._make([*row["latencies_ms"], row["slowest_ms"]]),
        early=row["early"],
        tag_count=row["tags"],
    )


def _time(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def _add_queues(topics: dict[str, TopicProfile], survey: Survey) -> None:
    """Give each topic all its queues: Spark sees only those that have messages."""
    for queue in sorted(survey.sizes):
        if queue.topic in topics:
            topics[queue.topic].queues.append(QueueProfile(broker_name=queue.broker_name, queue_id=queue.queue_id))


def _queue(topic: TopicProfile, row: Any) -> QueueProfile:
    for queue in topic.queues:
        if (queue.broker_name, queue.queue_id) == (row["broker_name"], row["queue_id"]):
            return queue
    topic.queues.append(QueueProfile(broker_name=row["broker_name"], queue_id=row["queue_id"]))  # it came meanwhile
    return topic.queues[-1]


def _put_size(topic: TopicProfile, row: Any) -> None:
    topic.size_steps[row["step"]] = Weight(row["messages"], row["stored"])


def _put_latency(topic: TopicProfile, row: Any) -> None:
    topic.latency_steps[row["step"]] = Weight(row["messages"], row["stored"])


def _put_latency_over_time(topic: TopicProfile, row: Any) -> None:
    topic.latency_over_time[row["step"]] = tuple(row["latency_ms"])


def _put_tag(topic: TopicProfile, row: Any) -> None:
    topic.tags.append(Named(row["tag"], row["messages"]))


def _put_key(topic: TopicProfile, row: Any) -> None:
    topic.keys.append(Named(row["key"], row["messages"], row["queues"], row["queue_id"]))


def _put_key_totals(topic: TopicProfile, row: Any) -> None:
    topic.key_count, topic.with_key, topic.scattered_keys = row["keys"], row["messages"], row["scattered"]


def _put_hottest(topic: TopicProfile, row: Any) -> None:
    _queue(topic, row).hottest = Named(row["key"], row["messages"])


_PUTTERS: dict[str, Callable[[TopicProfile, Any], None]] = {
    "sizes": _put_size,
    "latencies": _put_latency,
    "latency_over_time": _put_latency_over_time,
    "tags": _put_tag,
    "keys": _put_key,
    "key_totals": _put_key_totals,
    "hottest": _put_hottest,
}


def _failure(row: Any) -> Failure:
    return Failure(row["kind"] == "dead", row["group"], row["topic"], row["cause"], row["messages"], row["most_tries"])


def _timing(row: Any) -> Timing:
    values = row.asDict()
    p50, p90, p99 = values["percentiles_ms"] or (0, 0, 0)
    names = values.get("topic") or "", values.get("group") or ""
    return Timing(*names, values["messages"], p50, p90, p99, values["slowest_ms"] or 0, values.get("failed", 0))
