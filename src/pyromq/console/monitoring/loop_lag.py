"""LoopLag: how late the event loop is. What runs for long on the loop delays every request by as much."""

from __future__ import annotations

import asyncio
from collections import deque
from time import perf_counter
from typing import Final

from pyromq.figures import BoundFigures, Figure, Figures, Kind

PERIOD: Final = 0.1
REMEMBERED: Final = 600  # looks: one minute


class LoopLag:
    """A timer that notes how late it is called, ten times a second; it needs real time, so no Clock."""

    def __init__(self) -> None:
        self._lags: deque[float] = deque([0.0], maxlen=REMEMBERED)
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Measure from now on."""
        self._timer = asyncio.get_running_loop().call_later(PERIOD, self._look, perf_counter() + PERIOD)

    def stop(self) -> None:
        """Measure no more."""
        if self._timer is not None:
            self._timer.cancel()

    @property
    def last(self) -> float:
        """How late the loop was just now, in seconds."""
        return self._lags[-1]

    @property
    def longest(self) -> float:
        """How late it was at most within the last minute."""
        return max(self._lags)

    def figures(self) -> Figures:
        """Return the figures of the loop."""
        return Figures(BoundFigures(_FIGURES, lambda: self))

    def _look(self, due: float) -> None:
        self._lags.append(max(perf_counter() - due, 0.0))
        self.start()


_FIGURES: Final[tuple[Figure[LoopLag], ...]] = (
    Figure("loop_lag_ms", "How late the event loop was just now.", Kind.GAUGE, lambda lag: lag.last * 1000),
    Figure(
        "loop_lag_max_ms",
        "How late the event loop was at most within the last minute.",
        Kind.GAUGE,
        lambda lag: lag.longest * 1000,
    ),
)
