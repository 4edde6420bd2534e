"""When a disk will be full, from how it filled so far."""

from __future__ import annotations

from typing import Final

import numpy as np

from pyromq.console.reading.history import Points

LEAST_SPAN: Final = 600.0
"""Seconds of history without which nothing is said."""
FULL: Final = 100.0
_LEAST_GROWTH: Final = 0.2  # percent; brokers say how full they are in steps of 0.1


def seconds_until_full(points: Points) -> float | None:
    """Return in how many seconds a disk is full if it goes on like this; None if it does not fill."""
    known = points.known
    if len(known) < 3 or known[-1][0] - known[0][0] < LEAST_SPAN:
        return None
    times = np.array([time for time, _ in known], dtype=float)
    values = np.array([value for _, value in known], dtype=float)
    slope, _ = np.polyfit(times - times[0], values, 1)
    if slope <= 0 or values[-1] - values[0] < _LEAST_GROWTH:
        return None
    return float((FULL - values[-1]) / slope)
