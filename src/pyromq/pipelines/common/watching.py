"""Watch a streaming query until it ends: how far it is, and an end after the batch in hand when one is wanted."""

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
"""Seconds between two looks; Spark takes whole ones."""
STARTS = 4
_SLOW_START = "Python worker failed to connect back"
"""What a query says whose Python process took more than the 10 s that Spark gives it; nothing was read then."""
_LONGEST_BATCH = 600.0
"""Seconds in which a batch must end that is waited for; then it is cut, and comes again with the next run."""


class QueryProgress:
    """What the reports of a query have told so far."""

    def __init__(self) -> None:
        self.rows = 0
        self.left: int | None = None
        self.reached: Offsets = {}
        self._batch = -1

    def take(self, reports: list[Any]) -> None:
        """Add what is new among a query's latest reports."""
        for report in reports:
            if report["batchId"] > self._batch:
                self._batch = report["batchId"]
                self.rows += sum(source["numInputRows"] for source in report["sources"])  # over Connect there is no sum
        if reports:
            self._look_at(reports[-1]["sources"][0])

    def _look_at(self, source: Any) -> None:
        end, latest = _offsets(source["endOffset"]), _offsets(source["latestOffset"])
        self.reached = end or self.reached
        if latest:
            self.left = sum(max(0, offset - end.get(queue, 0)) for queue, offset in latest.items())

    @property
    def total(self) -> int | None:
        """Messages of the whole run, as far as known."""
        return None if self.left is None else self.rows + self.left


def _offsets(text: Any) -> Offsets:
    value = json.loads(text) if isinstance(text, str) else text
    return from_json(value) if value else {}


def was_slow(error: BaseException | None) -> bool:
    """Tell whether a query has failed only because its Python process took too long to start."""
    return error is not None and _SLOW_START in str(error)


def start_and_watch(start: Callable[[], StreamingQuery], progress: Progress, doing: str) -> tuple[QueryProgress, bool]:
    """Start a query and return when it has ended, with what it did and whether it was stopped; raises what ended it."""
    for _ in range(STARTS - 1):
        try:
            return watch(start(), progress, doing)
        except Exception as error:  # Spark's have no root in common
            if not was_slow(error):
                raise
            logger.warning("this machine is busy, starting again: %s", one_line(error))
    return watch(start(), progress, doing)


def watch(query: StreamingQuery, progress: Progress, doing: str) -> tuple[QueryProgress, bool]:
    """Return when a query has ended, with what it did and whether it was stopped; raises what ended it."""
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
    """Wait until the batch in hand is done."""
    deadline = time.monotonic() + _LONGEST_BATCH
    before = _last_batch(query)
    while query.isActive and _last_batch(query) == before and time.monotonic() < deadline:
        if not query.status["isTriggerActive"]:
            return
        query.awaitTermination(_PERIOD)


def _last_batch(query: StreamingQuery) -> int:
    report = query.lastProgress
    return -1 if report is None else int(report["batchId"])
