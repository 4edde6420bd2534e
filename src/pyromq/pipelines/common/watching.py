"""Watches a streaming query until it ends: reports progress, and on request stops it after the current batch."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pyromq.pipelines.outcome import Progress, Stopped
from pyromq.spark.error_text import one_line
from pyromq.spark.offsets import Offsets, from_json

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

logger = logging.getLogger(__name__)

_PERIOD = 1
"""Seconds between two checks; Spark takes whole seconds."""
STARTS = 4
_SLOW_START = "Python worker failed to connect back"
"""The error of a query whose Python process took more than Spark's 10 s to start; nothing was read then."""
_LONGEST_BATCH = 600.0
"""Seconds to wait for the current batch; then it is interrupted and repeated by the next run."""


class QueryProgress:
    """The progress of a query, from its reports so far."""

    def __init__(self) -> None:
        self.rows = 0
        self.left: int | None = None
        self.reached: Offsets = {}
        self._batch = -1

    def take(self, reports: list[Any]) -> None:
        """Add the new ones among a query's latest reports."""
        for report in reports:
            if report["batchId"] > self._batch:
                self._batch = report["batchId"]
                self.rows += sum(source["numInputRows"] for source in report["sources"])  # Connect gives no total
        if reports:
            self._look_at(reports[-1]["sources"][0])

    def _look_at(self, source: Any) -> None:
        end, latest = _offsets(source["endOffset"]), _offsets(source["latestOffset"])
        self.reached = end or self.reached
        if latest:
            self.left = sum(max(0, offset - end.get(queue, 0)) for queue, offset in latest.items())

    @property
    def total(self) -> int | None:
        """The number of messages of the whole run, if known."""
        return None if self.left is None else self.rows + self.left


def _offsets(text: Any) -> Offsets:
    value = json.loads(text) if isinstance(text, str) else text
    return from_json(value) if value else {}


def was_slow(error: BaseException | None) -> bool:
    """Return True if a query failed only because its Python process took too long to start."""
    return error is not None and _SLOW_START in str(error)


def start_and_watch(start: Callable[[], StreamingQuery], progress: Progress, doing: str) -> tuple[QueryProgress, bool]:
    """Start a query and watch it to its end; return its progress and whether it was stopped. Raises its error."""
    for _ in range(STARTS - 1):
        try:
            return watch(start(), progress, doing)
        except Exception as error:  # Spark's have no root in common
            if not was_slow(error):
                raise
            logger.warning("the machine is busy, starting the query again: %s", one_line(error))
    return watch(start(), progress, doing)


def watch(query: StreamingQuery, progress: Progress, doing: str) -> tuple[QueryProgress, bool]:
    """Watch a query to its end; return its progress and whether it was stopped. Raises its error."""
    watched = QueryProgress()
    stopped = False
    try:
        while not query.awaitTermination(_PERIOD):
            watched.take(query.recentProgress)
            progress.reached(watched.rows, watched.total, doing)
    except Stopped:
        stopped = True
        _finish_batch(query)
    finally:
        query.stop()
    watched.take(query.recentProgress)
    return watched, stopped


def _finish_batch(query: StreamingQuery) -> None:
    """Wait until the current batch is done."""
    deadline = time.monotonic() + _LONGEST_BATCH
    before = _last_batch(query)
    while query.isActive and _last_batch(query) == before and time.monotonic() < deadline:
        if not query.status["isTriggerActive"]:
            return
        query.awaitTermination(_PERIOD)


def _last_batch(query: StreamingQuery) -> int:
    report = query.lastProgress
    return -1 if report is None else int(report["batchId"])
