"""The chart of `pyromq bench`."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from pyromq.cli.bench.chart import latency_chart

_SPACE = "{http://www.w3.org/2000/svg}"


def points(percentiles: dict[str, float]) -> list[tuple[float, float]]:
    drawn = ElementTree.fromstring(latency_chart("send <fast>", "two & more", percentiles))
    (line,) = drawn.iter(f"{_SPACE}polyline")
    return [(float(x), float(y)) for x, y in (point.split(",") for point in line.attrib["points"].split())]


def test_slow_answers_are_higher_and_each_nine_takes_the_same_room() -> None:
    (x90, y90), (x99, y99), (x999, y999) = points({"90": 1.0, "99": 2.0, "99.9": 4.0, "100": 100.0})
    assert x999 - x99 == pytest.approx(x99 - x90, abs=0.2)
    assert y90 > y99 > y999  # SVG counts from the top
    assert y90 - y99 == pytest.approx((y99 - y999) / 2, abs=0.2)


@pytest.mark.parametrize("percentiles", [{"50": 0.0, "99": 0.0}, {"50": 1e-6, "99": 12345.6}, {"50": 3.0}])
def test_any_times_stay_within_the_chart(percentiles: dict[str, float]) -> None:
    for x, y in points(percentiles):
        assert 70 <= x <= 760
        assert 64 <= y <= 300
