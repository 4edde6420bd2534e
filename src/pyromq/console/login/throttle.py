"""Throttle: pauses after wrong passwords, by address and by name."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from pyromq.clock import Clock

FREE_TRIES: Final = 5
FIRST_PAUSE: Final = 2.0
LONGEST_PAUSE: Final = 300.0
_FORGOTTEN: Final = 900.0
_REMEMBERED: Final = 10_000


class Throttle:
    """Counts failures; after five, each further one doubles the pause before the next try."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failures: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def pause(self, *keys: str) -> float:
        """Return for how many seconds these addresses and names must wait; 0 if they may try."""
        return max((self._pause(key) for key in keys), default=0.0)

    def failed(self, *keys: str) -> None:
        """Count a failure."""
        for key in keys:
            count, _ = self._known(key)
            self._failures[key] = count + 1, self._clock.monotonic()
            self._failures.move_to_end(key)
        while len(self._failures) > _REMEMBERED:
            self._failures.popitem(last=False)

    def succeeded(self, *keys: str) -> None:
        """Forget failures."""
        for key in keys:
            self._failures.pop(key, None)

    def _known(self, key: str) -> tuple[int, float]:
        count, at = self._failures.get(key, (0, 0.0))
        return (0, 0.0) if count and self._clock.monotonic() - at > _FORGOTTEN else (count, at)

    def _pause(self, key: str) -> float:
        count, at = self._known(key)
        if count < FREE_TRIES:
            return 0.0
        length = min(FIRST_PAUSE * 2.0 ** (count - FREE_TRIES), LONGEST_PAUSE)
        return max(at + length - self._clock.monotonic(), 0.0)
