"""Queries of one run are watched together: one that fails ends all, and one that is stopped ends the others."""

from __future__ import annotations

from typing import Any, cast

import pytest
from pyspark.sql import Row

from pyromq.pipelines.common.streams import LATE, REPEATED, RowCounts, Start, run_all
from pyromq.pipelines.outcome import Silent, Stopped


class FakeQuery:
    """A query that ends after some checks, or fails, or never ends."""

    def __init__(
        self, log: list[str], name: str, looks: int = 1, error: Exception | None = None, has_begun: bool = True
    ) -> None:
        self.isActive = True
        self.status = {"isTriggerActive": False, "message": "Initializing sources"}
        self.recentProgress = [report(0, read=3)]
        self.lastProgress = self.recentProgress[-1] if has_begun else None
        self._log, self._name, self._looks, self._error = log, name, looks, error
        log.append(f"{name} starts")

    def awaitTermination(self, seconds: int) -> bool:
        self._looks -= 1
        if self._looks > 0:
            return False
        self.isActive = False
        self._log.append(f"{self._name} ends")
        return True

    def exception(self) -> Exception | None:
        return self._error

    def stop(self) -> None:
        if self.isActive:
            self.isActive = False
            self._log.append(f"{self._name} is stopped")


def report(batch: int, read: int, late: int = 0, repeated: int = 0) -> dict[str, Any]:
    state = {"numRowsDroppedByWatermark": late, "customMetrics": {"numDroppedDuplicateRows": repeated}}
    source = {"endOffset": None, "latestOffset": None, "numInputRows": read}
    return {
        "batchId": batch,
        "numInputRows": None,  # as over Connect
        "observedMetrics": {"checked": Row(read=read)},
        "stateOperators": [state],
        "sources": [source],
    }


class StopAfter:
    """A Progress that stops the run."""

    def reached(self, done: int, total: int | None, doing: str = "") -> None:
        raise Stopped


def starts(log: list[str], **queries: dict[str, Any]) -> dict[str, Start]:
    def start(name: str) -> Start:
        return cast(Start, lambda: FakeQuery(log, name, **queries[name]))

    return {name: start(name) for name in queries}


def test_queries_that_end_run_one_after_the_other() -> None:
    log: list[str] = []
    counts, stopped = run_all(starts(log, a={"looks": 2}, b={}), Silent(), at_once=False)
    assert log == ["a starts", "a ends", "b starts", "b ends"]
    assert not stopped
    assert counts.rows["read"] == 3, "of the first one only"


def test_a_run_that_is_stopped_begins_nothing_more() -> None:
    log: list[str] = []
    assert run_all(starts(log, a={"looks": 9}, b={}), StopAfter(), at_once=False)[1]
    assert log == ["a starts", "a is stopped"]


def test_queries_that_go_on_are_stopped_together() -> None:
    log: list[str] = []
    assert run_all(starts(log, a={"looks": 9}, b={"looks": 9}), StopAfter(), at_once=True)[1]
    assert log == ["a starts", "b starts", "a is stopped", "b is stopped"]


def test_the_next_query_starts_when_the_one_before_has_begun_and_a_stop_meanwhile_starts_no_more() -> None:
    log: list[str] = []
    slow = {"looks": 9, "has_begun": False}
    assert run_all(starts(log, a=slow, b={"looks": 9}), StopAfter(), at_once=True)[1]
    assert log == ["a starts", "a is stopped"]


def test_one_that_fails_ends_the_others() -> None:
    log: list[str] = []
    broken = {"looks": 9, "error": ValueError("no such topic")}
    with pytest.raises(ValueError, match="no such topic"):
        run_all(starts(log, a={"looks": 9}, b=broken), Silent(), at_once=True)
    assert log == ["a starts", "b starts", "a is stopped", "b is stopped"]


def test_one_that_was_slow_to_start_is_started_again_beside_the_others() -> None:
    log: list[str] = []
    slow = FakeQuery(log, "b", looks=0, error=RuntimeError("Python worker failed to connect back."))
    slow.isActive = False
    both = starts(log, a={"looks": 3}, b={"looks": 2})
    first = iter([cast(Any, slow)])
    run_all({"a": both["a"], "b": lambda: next(first, None) or both["b"]()}, Silent(), at_once=True)
    assert log == ["b starts", "a starts", "b starts", "a ends", "b ends"]


def test_counts_take_each_batch_once() -> None:
    counts = RowCounts()
    counts.take([report(0, 5, late=1), report(1, 7, repeated=2)])
    counts.take([report(1, 7, repeated=2), report(2, 1)])
    assert (counts.rows["read"], counts.rows[LATE], counts.rows[REPEATED]) == (13, 1, 2)


def test_counts_are_read_as_they_come_over_connect() -> None:
    counts = RowCounts()
    schema = {"type": "struct", "fields": [{"name": "read"}, {"name": "no order_id"}]}
    counts.take([report(0, 5) | {"observedMetrics": {"checked": Row(values=[5, 2], schema=schema)}}])
    assert (counts.rows["read"], counts.rows["no order_id"]) == (5, 2)
