"""Runs several streaming queries together: starts them, watches them, and adds up their row counts."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pyromq.pipelines.common.watching import STARTS, start_and_watch, was_slow
from pyromq.pipelines.outcome import Progress, Stopped

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_IDLE = "Waiting for data to arrive"
_GLANCE = 0.2
_PARTS = "spark.sql.shuffle.partitions"
Start = Callable[[], "StreamingQuery"]
LATE, REPEATED = "too late", "seen before"


@contextmanager
def state_in(spark: SparkSession, parts: int) -> Iterator[None]:
    """Make queries started within this context use `parts` state partitions; Spark's default of 200 is for clusters."""
    before = spark.conf.get(_PARTS)
    spark.conf.set(_PARTS, str(parts))
    try:
        yield
    finally:
        spark.conf.set(_PARTS, str(before))


def writer(frame: DataFrame, checkpoint: str, *, follow: bool) -> DataStreamWriter:
    """Return a writer for a stream, either to its current end or for ever."""
    stream = frame.writeStream.option("checkpointLocation", checkpoint)
    return stream if follow else stream.trigger(availableNow=True)


class RowCounts:
    """Row counts from a query's reports: those named by `observe`, and those dropped by its state."""

    def __init__(self) -> None:
        self.rows: Counter[str] = Counter()
        self._batch = -1

    def take(self, reports: Sequence[Any]) -> None:
        """Add the new ones among a query's latest reports."""
        for report in reports:
            if report["batchId"] > self._batch:
                self._batch = report["batchId"]
                for metrics in report["observedMetrics"].values():
                    self.rows.update(_by_name(metrics))
                for state in report["stateOperators"]:
                    self.rows[LATE] += state["numRowsDroppedByWatermark"]
                    self.rows[REPEATED] += state["customMetrics"].get("numDroppedDuplicateRows", 0)


def _by_name(metrics: Any) -> dict[str, int]:
    """Return the counts of `observe` by name; over Connect the names come separately, in a schema."""
    found: dict[str, Any] = metrics.asDict()
    if found.keys() == {"values", "schema"}:
        names = [column["name"] for column in found["schema"]["fields"]]
        return dict(zip(names, found["values"], strict=True))
    return found


class _Queries:
    """The queries of one run: starts them, reports their progress, and ends all if one fails."""

    def __init__(self, starts: Mapping[str, Start], progress: Progress) -> None:
        self.counts = RowCounts()
        self.is_stopped = False
        self._starts = starts
        self._progress = progress
        self._first = next(iter(starts))
        self._queries: dict[str, StreamingQuery] = {}

    def begin(self, name: str) -> StreamingQuery:
        """Return a running query; start it if needed, with all that have failed, from their checkpoints."""
        failed = [other for other, query in self._queries.items() if query.exception() is not None]
        for one in {name, *failed}:
            if one not in self._queries or not self._queries[one].isActive:
                self._queries[one] = self._starts[one]()
        return self._queries[name]

    def settle(self, name: str) -> None:
        """Wait for a query's first trigger: several Python processes starting at once can exceed Spark's limit."""
        try:
            for _ in range(STARTS):
                query = self.begin(name)
                while query.isActive and query.lastProgress is None and query.status["message"] != _IDLE:
                    self._progress.reached(0, None, name)
                    time.sleep(_GLANCE)
                if not was_slow(query.exception()):
                    return
        except Stopped:
            self.is_stopped = True

    def is_begun(self, name: str) -> bool:
        """Return True if a query was started."""
        return name in self._queries

    def finish(self, name: str) -> None:
        """Wait until a query has ended."""
        _, stopped = start_and_watch(lambda: self.begin(name), self, name)
        self.is_stopped |= stopped
        self.counts.take(self._queries[self._first].recentProgress)

    def reached(self, done: int, total: int | None, doing: str = "") -> None:
        self.counts.take(self._queries[self._first].recentProgress)
        for query in self._queries.values():
            if error := query.exception():
                raise error
        if self.is_stopped:
            raise Stopped
        self._progress.reached(done, total, doing)

    def stop(self) -> None:
        """Stop all queries that still run."""
        for query in self._queries.values():
            query.stop()


def run_all(starts: Mapping[str, Start], progress: Progress, *, at_once: bool) -> tuple[RowCounts, bool]:
    """Run queries to their end; return the counts of the first one, and whether they were stopped.

    Queries that end by themselves run one after another, which suits a small machine; `at_once` is for endless ones.
    Raises the error of a failed query.
    """
    run = _Queries(starts, progress)
    try:
        for name in starts if at_once else ():
            if not run.is_stopped:
                run.settle(name)
        for name in starts:
            if run.is_begun(name) or not run.is_stopped:
                run.finish(name)
    finally:
        run.stop()
    return run.counts, run.is_stopped
