"""Problems: what is wrong with a server, in words for people and one word for machines.

A server finds its problems when it is asked; nothing is noted where messages pass. `ProblemWatch` looks every few
seconds and logs each problem once when it begins, with what to do, and once when it is over. /healthz, /readyz,
/metrics and `pyromq cluster status` show the problems of the moment.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, Self

from pyromq.clock import Clock, TimerHandle

logger = logging.getLogger(__name__)

LOOK_PERIOD: Final = 5.0
CLOCK_TOLERANCE: Final = 2.0
"""Seconds that the date may move against the time that nobody sets, between two looks."""
CLOCK_REMEMBERED: Final = 600.0
"""Seconds for which a jump of the clock is reported."""


class Problem(NamedTuple):
    """One thing that is wrong."""

    cause: str
    """What it is called in metrics, such as disk_full."""
    text: str
    advice: str
    """What to do about it."""
    stops_messages: bool = False
    """Whether no message is taken because of it."""
    needs_restart: bool = False
    """Whether only a restart ends it."""

    def __str__(self) -> str:
        return f"{self.text}; {self.advice}"


class ProblemWatch:
    """Looks at the problems of one server, every few seconds within a `with` block."""

    def __init__(self, who: str, clock: Clock, find: Callable[[], Iterable[Problem]]) -> None:
        """`who` is how the log names the server; `find` returns its problems, one of each cause."""
        self._who = who
        self._clock = clock
        self._find = find
        self._jumps = _ClockJumps(clock)
        self._since: dict[str, float] = {}
        self._timer: TimerHandle | None = None

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _start(self) -> None:
        self.look()
        self._timer = self._clock.call_later(LOOK_PERIOD, self._start)

    def look(self) -> list[Problem]:
        """Return what is wrong now; log what has begun or ended since the last look."""
        now = self._clock.monotonic()
        try:
            found = {problem.cause: problem for problem in [*self._find(), *self._jumps.find()]}
        except Exception:  # a server that cannot be looked at must not stop for it
            logger.exception("looking for problems failed")
            return []
        for cause, problem in found.items():
            if cause not in self._since:
                self._since[cause] = now
                log = logger.error if problem.stops_messages else logger.warning
                log("problem %s %s: %s", cause, self._who, problem)
        for cause in [cause for cause in self._since if cause not in found]:
            logger.info("problem over %s %s after %.0f s", cause, self._who, now - self._since.pop(cause))
        return list(found.values())

    def seconds(self, cause: str) -> float:
        """Return for how long a problem that was found has been known."""
        return self._clock.monotonic() - self._since.get(cause, self._clock.monotonic())


class _ClockJumps:
    """Compares the date with the time that nobody sets."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._difference = clock.now() - clock.monotonic()
        self._jumped_at: float | None = None
        self._jump = 0.0

    def find(self) -> list[Problem]:
        now = self._clock.monotonic()
        difference = self._clock.now() - now
        jump, self._difference = difference - self._difference, difference
        if abs(jump) > CLOCK_TOLERANCE:
            self._jumped_at, self._jump = now, jump
        if self._jumped_at is None or now - self._jumped_at > CLOCK_REMEMBERED:
            return []
        direction = "ahead" if self._jump > 0 else "back"
        return [
            Problem(
                "clock_jumped",
                f"the machine's clock jumped {direction} by {abs(self._jump):.0f} s within the last"
                f" {CLOCK_REMEMBERED / 60:.0f} minutes",
                "delayed messages are due, and files expire, by that clock: check NTP",
            )
        ]
