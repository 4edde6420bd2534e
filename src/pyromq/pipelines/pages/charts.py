"""Small charts as SVG: bars, rows, lines over time and heat maps. The page sets the colours; hovering shows details.

Every text is escaped here, because tags, keys and topics are user input. Values that are not numbers count as missing,
and a chart without data says so.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from html import escape
from typing import NamedTuple

from pyromq.pipelines.pages.wording import cut_front, cut_middle, moment, short

NOTHING = '<p class="nothing">nothing to show</p>'
_TOP, _BOTTOM, _LEFT, _RIGHT = 12, 24, 52, 12
_ROW, _LABEL, _NUMBER = 24, 176, 108
_MOST_LABEL = 22
_LETTER, _BETWEEN = 6.4, 16
"""The width of a letter on an axis, and of the space between two labels."""
_HOVERING = re.compile('<rect class="hit"[^>]*><title>.*?</title></rect>|<title>.*?</title>', re.DOTALL)
HALF, WIDE, NARROW = 460, 960, 400
"""Widths of charts: in a card beside another one, across the page, and on a phone."""
COLOURS = 6
"""The number of series with distinct colours."""


Wording = Callable[[float], str]
"""Formats a value as text."""


class Bar(NamedTuple):
    """One value with a label, which may be empty; `title` is shown on hovering, `note` beside a row."""

    label: str
    value: float
    title: str = ""
    note: str = ""
    tone: str = ""
    """A CSS class of the page: `warn` highlights the bar."""


class Series(NamedTuple):
    """A line: one value per time step, None where it is missing."""

    name: str
    values: Sequence[float | None]


def fitting(draw: Callable[[int], str], width: int) -> str:
    """Return a chart drawn for two widths, of which the page shows one.

    A phone would shrink the wide one until nobody can read its texts. The narrow one needs no texts for hovering.
    """
    narrow = _HOVERING.sub("", draw(NARROW))
    return f'<div class="roomy">{draw(width)}</div><div class="narrow">{narrow}</div>'


def bars(data: Sequence[Bar], *, width: int = HALF, height: int = 200) -> str:
    """Draw vertical bars, for example a histogram, in the given order."""
    if not any(_number(bar.value) for bar in data):
        return NOTHING
    axis = scale((_number(bar.value) for bar in data), height - _TOP - _BOTTOM)
    slot = (width - _LEFT - _RIGHT) / len(data)
    most = _most_labels(width, max(len(bar.label) for bar in data))
    every = math.ceil(sum(bool(bar.label) for bar in data) / most)
    labelled = [index for index, bar in enumerate(data) if bar.label][:: every or 1]
    parts = [_grid(axis, width, height)]
    for index, bar in enumerate(data):
        left, tall = _LEFT + index * slot, axis.place(_number(bar.value))
        title = bar.title or f"{bar.label}: {short(_number(bar.value))}"
        inset = min(slot * 0.1, 2)
        parts.append(_hit(left, _TOP, slot, height - _TOP - _BOTTOM, title))
        parts.append(_rect(left + inset, height - _BOTTOM - tall, slot - 2 * inset, tall, f"bar {bar.tone}", title))
        if index in labelled:
            parts.append(_mark(left + slot / 2, width, height, bar.label))
    return _svg(width, height, parts)


def rows(data: Sequence[Bar], *, width: int = HALF) -> str:
    """Draw horizontal bars with labels on the left and figures on the right."""
    if not data:
        return NOTHING
    axis = Scale(max(_number(bar.value) for bar in data) or 1.0, 1.0, width - _LABEL - _NUMBER)
    parts = []
    for index, bar in enumerate(data):
        top, value = index * _ROW, _number(bar.value)
        title = bar.title or f"{bar.label}: {short(value)}"
        parts.append(_rect(_LABEL, top + 4, axis.length, _ROW - 8, "rail", title))
        parts.append(_rect(_LABEL, top + 4, axis.place(value), _ROW - 8, f"bar {bar.tone}", title))
        parts.append(_text(_LABEL - 8, top + 16, cut_middle(bar.label, _MOST_LABEL), "end", "name"))
        parts.append(_text(_LABEL + axis.length + 8, top + 16, bar.note or short(value), "start", "figure"))
    return _svg(width, len(data) * _ROW, parts)


def timeline(
    start: datetime, step: float, series: Sequence[Series], *, width: int = WIDE, height: int = 220, unit: str = ""
) -> str:
    """Draw lines over time, the first one filled; hovering shows the values of each step of `step` seconds."""
    steps = max((len(line.values) for line in series), default=0)
    values = [[_number(value) if value is not None else None for value in line.values] for line in series]
    if not any(value for line in values for value in line):
        return NOTHING
    axis = scale((value for line in values for value in line if value is not None), height - _TOP - _BOTTOM)
    slot = (width - _LEFT - _RIGHT) / steps
    parts = [_grid(axis, width, height), _clock(start, step * steps, width, height)]
    for index, line in enumerate(values):
        places = _places(line, axis, slot, height - _BOTTOM)
        if index == 0:
            parts += [_area(run, height - _BOTTOM) for run in places]
        parts += [_line(run, f"line c{index % COLOURS}") for run in places]
    for index in range(steps):
        title = _step_title(start + timedelta(seconds=index * step), series, index, unit)
        parts.append(_hit(_LEFT + index * slot, _TOP, slot, height - _TOP - _BOTTOM, title))
    return _svg(width, height, parts) + legend([line.name for line in series])


def heat(
    start: datetime, step: float, series: Sequence[Series], *, width: int = WIDE, row: int = 18, unit: str = ""
) -> str:
    """Draw each line as a row of cells: the stronger the colour, the larger the value."""
    steps = max((len(line.values) for line in series), default=0)
    most = max((_number(value or 0) for line in series for value in line.values), default=0)
    if not most:
        return NOTHING
    slot = (width - _LEFT - _RIGHT) / steps
    height = _TOP // 2 + row * len(series) + _BOTTOM
    parts = [_clock(start, step * steps, width, height)]
    for number, line in enumerate(series):
        top = _TOP // 2 + number * row
        parts.append(_text(_LEFT - 6, top + row / 2 + 4, cut_front(line.name, 7), "end"))
        parts.append(_rect(_LEFT, top + 1, width - _LEFT - _RIGHT, row - 2, "rail", f"{line.name}: none"))
        for index, value in enumerate(line.values):
            if amount := _number(value or 0):
                when = moment(start + timedelta(seconds=index * step))
                title = f"{line.name}, {when}: {short(amount)} {unit}".rstrip()
                opacity = round(0.08 + 0.92 * amount / most, 3)
                parts.append(_rect(_LEFT + index * slot, top + 1, slot, row - 2, "cell", title, opacity))
    return _svg(width, height, parts)


def sparkline(values: Sequence[float], *, width: int = 120, height: int = 24) -> str:
    """Draw a line the size of a word."""
    numbers = [_number(value) for value in values]
    if not any(numbers):
        return ""
    axis = Scale(max(numbers), 1.0, height - 4)
    slot = width / len(numbers)
    run = [(round((index + 0.5) * slot, 2), height - 2 - axis.place(value)) for index, value in enumerate(numbers)]
    parts = [_area(run, height), _line(run, "line c0")]
    return f'<svg class="spark" viewBox="0 0 {width} {height}" width="{width}" height="{height}">{"".join(parts)}</svg>'


def legend(names: Sequence[str]) -> str:
    """Return the legend of colours; a single line needs none."""
    if len(names) < 2:
        return ""
    items = [f'<span><i class="c{index % COLOURS}"></i>{escape(name)}</span>' for index, name in enumerate(names)]
    return f'<div class="legend">{"".join(items)}</div>'


# --- parts ------------------------------------------------------------------------------------------------------------

Run = list[tuple[float, float]]
"""The points of a line without gaps."""


def _number(value: float) -> float:
    """Return a value that can be drawn: 0 if it is not a number or negative."""
    return min(value, LARGEST) if math.isfinite(value) and value >= SMALLEST else 0.0


def _places(values: Sequence[float | None], axis: Scale, slot: float, floor: float) -> list[Run]:
    """Return the points of a line, split where values are missing."""
    runs: list[Run] = [[]]
    for index, value in enumerate(values):
        if value is None:
            runs.append([])
        else:
            runs[-1].append((round(_LEFT + (index + 0.5) * slot, 2), round(floor - axis.place(value), 2)))
    return [run for run in runs if run]


def _line(run: Run, kind: str) -> str:
    if len(run) == 1:
        return f'<circle class="{kind} dot" cx="{run[0][0]}" cy="{run[0][1]}" r="3"/>'
    return f'<polyline class="{kind}" points="{_points(run)}"/>'


def _area(run: Run, floor: float) -> str:
    closed = [(run[0][0], floor), *run, (run[-1][0], floor)]
    return f'<polygon class="area" points="{_points(closed)}"/>'


def _points(run: Run) -> str:
    return " ".join(f"{x},{y}" for x, y in run)


def _grid(axis: Scale, width: int, height: int) -> str:
    parts = []
    for mark in axis.marks:
        y = round(height - _BOTTOM - axis.place(mark), 2)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{width - _RIGHT}" y1="{y}" y2="{y}"/>')
        parts.append(_text(_LEFT - 6, y + 4, short(mark), "end"))
    return "".join(parts)


def _clock(start: datetime, seconds: float, width: int, height: int) -> str:
    parts = []
    for time, label in clock_marks(start, start + timedelta(seconds=seconds), _most_labels(width, len("00:00:00"))):
        x = _LEFT + (width - _LEFT - _RIGHT) * (time - start).total_seconds() / seconds
        parts.append(_mark(x, width, height, label))
    return "".join(parts)


def _most_labels(width: int, letters: int) -> int:
    """Return how many labels fit side by side below a chart."""
    return max(1, int((width - _LEFT - _RIGHT) / (letters * _LETTER + _BETWEEN)))


def _mark(x: float, width: int, height: int, label: str) -> str:
    """Return a label below a chart, moved inwards if the edge would cut it."""
    half = len(label) * _LETTER / 2
    return _text(min(x, width - half), height - 8, label, "middle")


def _step_title(time: datetime, series: Sequence[Series], index: int, unit: str) -> str:
    lines = [moment(time)]
    for name, values in series:
        value = values[index] if index < len(values) else None
        lines.append(f"{name}: {'none' if value is None else f'{short(_number(value))} {unit}'.rstrip()}")
    return "\n".join(lines)


def _hit(x: float, y: float, width: float, height: float, title: str) -> str:
    return _rect(x, y, width, height, "hit", title)


def _rect(x: float, y: float, width: float, height: float, kind: str, title: str, opacity: float | None = None) -> str:
    place = f'x="{round(x, 2)}" y="{round(y, 2)}" width="{round(max(width, 0), 2)}" height="{round(height, 2)}"'
    seen = "" if opacity is None else f' fill-opacity="{opacity}"'
    return f'<rect class="{kind.strip()}" {place}{seen}><title>{escape(title)}</title></rect>'


def _text(x: float, y: float, text: str, anchor: str, kind: str = "") -> str:
    style = f' class="{kind}"' if kind else ""
    return f'<text x="{round(x, 2)}" y="{round(y, 2)}" text-anchor="{anchor}"{style}>{escape(text)}</text>'


def _svg(width: int, height: int, parts: Sequence[str]) -> str:
    return f'<svg viewBox="0 0 {width} {height}" role="img">{"".join(parts)}</svg>'


SMALLEST, LARGEST = 1e-9, 1e18
"""The range of values that can be drawn; beyond it, floating-point errors show."""
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_TIME_STEPS = (
    *(1, 2, 5, 10, 15, 30),
    *(60, 120, 300, 600, 900, 1800),
    *(3600, 7200, 10_800, 21_600, 43_200),
    *(86_400, 172_800, 604_800, 2_592_000, 7_776_000, 31_536_000),
)
"""Possible distances, in seconds, between the marks of a time axis."""


class Scale(NamedTuple):
    """A linear axis from 0: maps values up to `limit` to lengths up to `length`."""

    limit: float
    step: float
    length: float

    def place(self, value: float) -> float:
        """Return the position of a value, clamped to the axis."""
        return round(min(max(value / self.limit, 0.0), 1.0) * self.length, 2)

    @property
    def marks(self) -> list[float]:
        """The values marked with a line and a number."""
        return [self.step * index for index in range(1 + round(self.limit / self.step))]


def scale(values: Iterable[float], length: float, marks: int = 4) -> Scale:
    """Return an axis that holds all values and ends at a round number above 0."""
    most = min(max((value for value in values if math.isfinite(value)), default=0.0), LARGEST)
    if most < SMALLEST:
        return Scale(1.0, 1.0, length)
    step = _round_step(most / marks)
    return Scale(step * math.ceil(most / step - 1e-9), step, length)


def _round_step(rough: float) -> float:
    power = 10.0 ** math.floor(math.log10(rough))
    return next(step * power for step in _STEPS if step * power >= rough * (1 - 1e-9))


def clock_marks(start: datetime, end: datetime, most: int = 8) -> list[tuple[datetime, str]]:
    """Return at most `most` round times between two others, with their labels."""
    seconds = (end - start).total_seconds()
    step = next((step for step in _TIME_STEPS if seconds / step <= most), _TIME_STEPS[-1])
    form = "%H:%M:%S" if step < 60 else "%H:%M" if step < 86_400 else "%d %b"
    first = math.ceil(start.timestamp() / step) * step
    marks = []
    for index in range(most + 1):
        time = datetime.fromtimestamp(first, UTC) + timedelta(seconds=index * step)
        if time > end:
            break
        marks.append((time, time.strftime("%d %b" if step >= 3600 and not time.hour else form)))
    return marks
