"""Charts work for any values: finite coordinates inside the picture, and escaped texts."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from xml.etree import ElementTree as Xml

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyromq.pipelines.pages import charts
from pyromq.pipelines.pages.charts import NOTHING, Bar, Series, clock_marks, scale

START = datetime(2026, 1, 31, 8, tzinfo=UTC)
WIDTH = 460

numbers = st.floats()  # all of them: NaN, both infinities, negative numbers
names = st.sampled_from(["", "a", "<b>&\"'", "→ ü", "long " * 20])
bar_lists = st.lists(st.builds(Bar, names, numbers, names, names, st.just("warn")), max_size=12)
series_lists = st.lists(st.builds(Series, names, st.lists(numbers | st.none(), max_size=12)), max_size=7)
steps = st.floats(min_value=0.05, max_value=1e6)


def pictures(html: str) -> Iterator[Xml.Element]:
    """Yield every SVG of some markup, parsed; raises if it is not well-formed."""
    if html != NOTHING and html:
        yield from Xml.fromstring(f"<div>{html}</div>").iter("svg")


def check(html: str) -> None:
    """Assert that all shapes lie inside the picture."""
    for picture in pictures(html):
        _, _, width, height = map(float, picture.attrib["viewBox"].split())
        for shape in picture.iter():
            for x, y in corners(shape):
                assert -0.01 <= x <= width + 0.01, shape.attrib
                assert -0.01 <= y <= height + 0.01, shape.attrib


def corners(shape: Xml.Element) -> Iterator[tuple[float, float]]:
    """Yield the corner points of a shape."""
    value = {name: float(text) for name, text in shape.attrib.items() if name in ("x", "y", "width", "height")}
    if shape.tag == "rect":
        assert value["width"] >= 0
        assert value["height"] >= 0
        yield value["x"], value["y"]
        yield value["x"] + value["width"], value["y"] + value["height"]
    elif shape.tag == "text":
        yield value["x"], value["y"]
    for pair in shape.attrib.get("points", "").split():
        x, _, y = pair.partition(",")
        yield float(x), float(y)


@settings(max_examples=50)
@given(bar_lists)
def test_bars_stay_inside_whatever_the_values_are(data: list[Bar]) -> None:
    check(charts.bars(data, width=WIDTH))
    check(charts.rows(data, width=WIDTH))


@settings(max_examples=50)
@given(series_lists, steps)
def test_lines_and_heat_maps_stay_inside_whatever_the_values_are(series: list[Series], step: float) -> None:
    check(charts.timeline(START, step, series))
    check(charts.heat(START, step, series))


LETTER = 6  # width in pixels of a letter on an axis, rather too narrow


def labels_below(html: str) -> list[tuple[float, str]]:
    """Return the labels below a chart with the places of their middles."""
    (picture,) = pictures(html)
    height = float(picture.attrib["viewBox"].split()[3])
    texts = [text for text in picture.iter("text") if float(text.attrib["y"]) == height - 8]
    return [(float(text.attrib["x"]), text.text or "") for text in texts if text.attrib["text-anchor"] == "middle"]


def check_labels(html: str, width: int) -> None:
    """Assert that labels neither overlap nor leave the picture."""
    edges = [(x - len(text) * LETTER / 2, x + len(text) * LETTER / 2) for x, text in labels_below(html)]
    assert all(left[1] <= right[0] for left, right in pairwise(edges)), labels_below(html)
    assert all(start >= 0 and end <= width for start, end in edges), labels_below(html)


@pytest.mark.parametrize("width", [charts.NARROW, charts.HALF, charts.WIDE])
@given(
    count=st.integers(1, 120),
    step=st.sampled_from([0.05, 0.1, 1, 5, 60, 900, 3600, 86_400, 604_800]),
    after=st.integers(0, 86_400),
)
def test_times_below_a_chart_can_be_read(width: int, count: int, step: float, after: int) -> None:
    start = START + timedelta(seconds=after)
    line = [Series("a", [1.0] * count)]
    check_labels(charts.timeline(start, step, line, width=width), width)
    check_labels(charts.heat(start, step, line, width=width), width)


@pytest.mark.parametrize("width", [charts.NARROW, charts.HALF])
@given(labels=st.lists(st.sampled_from(["1 B", "512 B", "1.02 KiB", "2.18 min", "16.4 s"]), min_size=1, max_size=33))
def test_labels_of_bars_can_be_read(width: int, labels: list[str]) -> None:
    check_labels(charts.bars([Bar(label, 1) for label in labels], width=width), width)


def test_a_chart_for_phones_is_narrow_and_has_nothing_to_hover_over() -> None:
    line = [Series("a", [1.0] * 20), Series("b", [2.0] * 20)]
    html = charts.fitting(lambda width: charts.timeline(START, 1, line, width=width), charts.WIDE)
    wide, narrow = pictures(html)
    assert (wide.attrib["viewBox"], narrow.attrib["viewBox"]) == ("0 0 960 220", "0 0 400 220")
    assert len(list(wide.iter("title"))) == 20
    assert not list(narrow.iter("title"))
    assert len(list(narrow.iter("polyline"))) == 2
    check(html)


@given(st.lists(numbers, max_size=50))
def test_sparklines_stay_inside_whatever_the_values_are(values: list[float]) -> None:
    check(charts.sparkline(values))


@given(st.lists(st.floats(min_value=0, max_value=1e15), min_size=1), st.integers(1, 10))
def test_an_axis_holds_its_values_and_ends_at_its_last_mark(values: list[float], marks: int) -> None:
    axis = scale(values, 100.0, marks)
    assert axis.limit >= max(values) * (1 - 1e-9)
    assert axis.marks[0] == 0
    assert math.isclose(axis.marks[-1], axis.limit)
    assert len(axis.marks) <= marks + 1 or max(values) == 0
    assert all(0 <= axis.place(value) <= 100 for value in values)


@given(st.floats(min_value=0, max_value=4e8), st.floats(min_value=0, max_value=1e6))
def test_marks_of_a_clock_lie_in_its_range_and_are_few(seconds: float, after: float) -> None:
    start = START + timedelta(seconds=after)
    marks = clock_marks(start, start + timedelta(seconds=seconds))
    assert all(start <= time <= start + timedelta(seconds=seconds) for time, _ in marks)
    assert len(marks) <= 9
    assert len(set(marks)) == len(marks)


@pytest.mark.parametrize(
    "html", [charts.bars([]), charts.rows([]), charts.timeline(START, 1, []), charts.heat(START, 1, [])]
)
def test_what_has_nothing_to_show_says_so(html: str) -> None:
    assert html == NOTHING


def test_one_value_is_a_chart_too() -> None:
    for html in (
        charts.bars([Bar("a", 1)]),
        charts.rows([Bar("a", 1)]),
        charts.timeline(START, 1, [Series("a", [5])]),
        charts.heat(START, 1, [Series("a", [5])]),
        charts.sparkline([5]),
    ):
        assert list(pictures(html))
        check(html)


def test_a_gap_parts_a_line() -> None:
    html = charts.timeline(START, 1, [Series("a", [1, 2, None, 3, 4, None, 5])])
    picture = next(pictures(html))
    assert len(list(picture.iter("polyline"))) == 2
    assert len(list(picture.iter("circle"))) == 1, "one point alone is a dot"


def test_names_are_texts_and_never_markup() -> None:
    evil = "</title></svg><script>alert(1)</script>\"'&"
    for html in (
        charts.bars([Bar(evil, 1, evil, evil)]),
        charts.rows([Bar(evil, 1, evil, evil)]),
        charts.timeline(START, 1, [Series(evil, [1]), Series("b", [1])]),
        charts.heat(START, 1, [Series(evil, [1])]),
    ):
        assert "<script" not in html
        assert list(pictures(html)), "still well-formed"
