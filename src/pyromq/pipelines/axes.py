"""Axes of charts: where they end, and where their marks are."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

SMALLEST, LARGEST = 1e-9, 1e18
"""What can be drawn; beyond, floating-point numbers play tricks."""
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_TIME_STEPS = (
    *(1, 2, 5, 10, 15, 30),
    *(60, 120, 300, 600, 900, 1800),
    *(3600, 7200, 10_800, 21_600, 43_200),
    *(86_400, 172_800, 604_800, 2_592_000, 7_776_000, 31_536_000),
)
"""Seconds that a clock's or a calendar's marks may be apart."""


class Scale(NamedTuple):
    """A straight axis from 0: values up to `limit` become lengths up to `length`."""

    limit: float
    step: float
    length: float

    def place(self, value: float) -> float:
        """Return where a value lies; what is out of range, at the nearer end."""
        return round(min(max(value / self.limit, 0.0), 1.0) * self.length, 2)

    @property
    def marks(self) -> list[float]:
        """The values that get a line and a number."""
        return [self.step * index for index in range(1 + round(self.limit / self.step))]


def scale(values: Iterable[float], length: float, marks: int = 4) -> Scale:
    """Return an axis that holds all values and ends at a round number, never at nothing."""
    most = min(max((value for value in values if math.isfinite(value)), default=0.0), LARGEST)
    if most < SMALLEST:
        return Scale(1.0, 1.0, length)
    step = _round_step(most / marks)
    return Scale(step * math.ceil(most / step - 1e-9), step, length)


def _round_step(rough: float) -> float:
    power = 10.0 ** math.floor(math.log10(rough))
    return next(step * power for step in _STEPS if step * power >= rough * (1 - 1e-9))


def clock_marks(start: datetime, end: datetime, most: int = 8) -> list[tuple[datetime, str]]:
    """Return round times between two others, `most` of them or a few less, and what to write beside them."""
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
