"""Problems: said once when they begin and once when they are over, and a clock that jumps."""

from __future__ import annotations

import logging

import pytest

from pyromq.problems import Problem, ProblemWatch
from pyromq.testing import TestClock

FULL = Problem("disk_full", "the disk is full", "free some space", stops_messages=True)


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [(record.levelname, record.getMessage()) for record in caplog.records]


async def test_a_problem_is_logged_once_with_what_to_do_and_once_when_it_is_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    clock, found = TestClock(), [FULL]
    with ProblemWatch("broker=a", clock, lambda: found) as watch:
        await clock.advance_async(seconds=21)
        assert watch.look() == [FULL]
        assert 20 <= watch.seconds("disk_full") <= 22
        found.clear()
        await clock.advance_async(seconds=6)
    assert lines(caplog) == [
        ("ERROR", "problem disk_full broker=a: the disk is full; free some space"),
        ("INFO", "problem over disk_full broker=a after 25 s"),
    ]


@pytest.mark.parametrize(("hours", "words"), [(2, "jumped ahead by 7200 s"), (-1, "jumped back by 3600 s")])
async def test_a_clock_that_is_set_is_a_problem_for_ten_minutes(hours: float, words: str) -> None:
    clock = TestClock()
    watch = ProblemWatch("broker=a", clock, list)
    await clock.advance_async(hours=3)
    assert watch.look() == [], "time that passes is no jump"
    clock.set_wall_clock(hours=hours)
    (problem,) = watch.look()
    assert problem.cause == "clock_jumped"
    assert words in problem.text
    await clock.advance_async(minutes=9)
    assert watch.look() == [problem]
    await clock.advance_async(minutes=2)
    assert watch.look() == []


def test_a_look_that_fails_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> list[Problem]:
        raise OSError("gone")

    assert ProblemWatch("broker=a", TestClock(), fail).look() == []
    assert "looking for problems failed" in caplog.text
