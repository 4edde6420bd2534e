"""How long writes of the log take: the last one, the longest, and how many messages took how long.

A message takes as long as the write of its group. The cost is a few additions for each group.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from operator import sub
from typing import Final

LIMITS: Final = (1e-3, 1e-2, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 10.0)
"""RocketMQ's steps, in seconds; its first one holds what takes less than a millisecond."""
_FINE_LIMITS: Final = tuple(1e-5 * 1.25**step for step in range(64))  # up to 12 s, each a quarter longer
_MINUTE: Final = 60.0


class WriteTimes:
    """Notes each write."""

    __slots__ = ("_counts", "_fine", "_fine_before", "_last_minute", "_minute_ends", "last", "longest")

    def __init__(self) -> None:
        self.last = self.longest = 0.0
        """Seconds; who acts upon the last write sets it to 0."""
        self._counts = [0] * (len(LIMITS) + 1)
        self._fine = [0] * (len(_FINE_LIMITS) + 1)
        self._fine_before = self._fine.copy()
        self._last_minute = self._fine.copy()
        self._minute_ends = 0.0

    def note(self, began: float, ended: float, messages: int) -> None:
        """Note the write of a group, with its times by perf_counter()."""
        took = self.last = ended - began
        if took > self.longest:
            self.longest = took
        if ended >= self._minute_ends:
            self._end_minute(ended)
        self._counts[bisect_right(LIMITS, took)] += messages
        self._fine[bisect_right(_FINE_LIMITS, took)] += messages

    @property
    def messages(self) -> tuple[int, ...]:
        """How many messages took less than each limit and not less than the one before; then those that took longer."""
        return tuple(self._counts)

    def percentile(self, share: float, now: float) -> float:
        """Return what this share of the messages of the last full minute took at most; 0 if there were none.

        It is exact to a quarter. `now` is perf_counter()'s.
        """
        if now >= self._minute_ends:
            self._end_minute(now)
        total = sum(self._last_minute)
        if not total:
            return 0.0
        sums = accumulate(self._last_minute)
        place = next(place for place, count in enumerate(sums) if count >= share * total)
        return _FINE_LIMITS[min(place, len(_FINE_LIMITS) - 1)]

    def _end_minute(self, now: float) -> None:
        is_next = now < self._minute_ends + _MINUTE
        counts = list(map(sub, self._fine, self._fine_before))
        self._last_minute = counts if is_next else [0] * len(counts)
        self._fine_before = self._fine.copy()
        self._minute_ends = self._minute_ends + _MINUTE if is_next else now + _MINUTE
