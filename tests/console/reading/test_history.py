"""History: bounded, kept over a restart, silent about what did not happen."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyromq.console.reading import history as history_module
from pyromq.console.reading.forecast import seconds_until_full
from pyromq.console.reading.history import COARSE_STEP, FINE_POINTS, FINE_STEP, FigureHistory, Points

START = 1_800_000_000


def test_a_series_begins_with_its_first_value_and_gaps_are_unknown() -> None:
    history = FigureHistory()
    history.add(START, {"in": 0.0, "lag": 0.0})
    assert history.points("in").times == []
    history.add(START + FINE_STEP, {"in": 5.0, "lag": 0.0})
    history.add(START + 4 * FINE_STEP, {"in": 0.0})
    points = history.points("in")
    assert points.values[-4:] == [5.0, None, None, 0.0]
    assert points.times[-1] == START + 4 * FINE_STEP
    assert history.points("lag").known == []
    assert history.spark("in", 5) == [0.0, 5.0, 5.0, 5.0, 0.0]  # a small chart bridges gaps
    assert len(history) == 1


def test_old_points_go_and_the_long_view_keeps_the_highest_of_a_minute() -> None:
    history = FigureHistory()
    for step in range(FINE_POINTS + 60):
        history.add(START + step * FINE_STEP, {"in": 100.0 if step == 3 else 1.0})
    assert max(value for _, value in history.points("in").known) == 1.0
    long = dict(history.points("in", long=True).known)
    assert long[(START + 3 * FINE_STEP) // COARSE_STEP * COARSE_STEP] == 100.0


def test_the_number_of_series_is_bounded_and_the_idle_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_module, "MOST_SERIES", 10)
    history = FigureHistory()
    history.add(START, {f"topic/{number}/in": 1.0 for number in range(10)})
    history.add(START + FINE_STEP, {f"topic/{number}/in": 1.0 for number in range(5)} | {"topic/new/in": 2.0})
    assert len(history) == 10
    assert history.points("topic/new/in").known[-1][1] == 2.0
    assert all(history.points(f"topic/{number}/in").known for number in range(5))
    assert len(history.points("topic/new/in").known) == 1  # nothing of the series that had the row before


def test_a_restart_keeps_it(tmp_path: Path) -> None:
    history = FigureHistory(tmp_path / "console" / "history.bin")
    for step in range(50):
        history.add(START + step * FINE_STEP, {"in": float(step), "lag": 2.0})
    history.save()
    again = FigureHistory(tmp_path / "console" / "history.bin")
    assert again.load()
    for long in (False, True):
        assert again.points("in", long=long) == history.points("in", long=long)
    again.add(START + 50 * FINE_STEP, {"in": 7.0})
    assert again.points("in").values[-2:] == [49.0, 7.0]


@pytest.mark.parametrize("damage", [b"", b"{}\n", b"not json\n", None])
def test_a_damaged_file_is_left_out(damage: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "history.bin"
    history = FigureHistory(path)
    history.add(START, {"in": 1.0})
    history.save()
    path.write_bytes(path.read_bytes()[:-1] if damage is None else damage)
    assert not FigureHistory(path).load()


def test_a_filling_disk_is_full_at_a_time() -> None:
    times = [START + 60 * minute for minute in range(60)]
    filling = Points(times, [50.0 + minute * 0.1 for minute in range(60)])
    left = seconds_until_full(filling)
    assert left is not None
    assert left == pytest.approx((100 - 55.9) / 0.1 * 60, rel=0.01)
    assert seconds_until_full(Points(times, [50.0] * 60)) is None
    assert seconds_until_full(Points(times[:3], [50.0, 51.0, 52.0])) is None
