"""QuickFlush: whether the disk is so quick that the loop may wait for a flush itself.

A flush in a thread costs two wake-ups, of the thread and then of the loop: on a disk that answers in a tenth of a
millisecond that is as much as the flush. But a flush in the loop stops every connection meanwhile. So it is done there
only while the disk is measured to be quick:

    thread ── flushes typically take less than twice the limit, and no pause lasts ──► loop
    loop ──── one takes 16 times the limit, or they typically take 1.5 times ────────► thread, for a pause

What a thread measures is too long, for it also waits for the interpreter's lock: hence twice the limit there, and what
the loop measures itself decides. A wrong guess costs some flushes. The pause doubles with each one, up to minutes.

The typical time is a running median: it moves by a tenth towards each new time. So an odd one counts no more than any
other, however long it took.
"""

from __future__ import annotations

from math import inf
from typing import Final

MOST_BYTES: Final = 256 * 1024
"""Bytes of a flush in the loop; more take longer, and one flush for them is cheap enough in a thread."""
FIRST_PAUSE: Final = 5.0
LONGEST_PAUSE: Final = 320.0
_START: Final = 10  # times the limit: some twenty quick flushes come before the first one in the loop
_STEP: Final = 1.1
_QUICK_IN_THREAD: Final = 2.0
_SLOW_IN_LOOP: Final = 1.5
_MUCH_TOO_SLOW: Final = 16.0
_LONG: Final = 10  # pauses: whoever was quick for so long begins with a short one again


class QuickFlush:
    """Decides where flushes happen; times are seconds."""

    def __init__(self, limit: float) -> None:
        """`limit` is how long a flush in the loop may typically take; 0 for none there."""
        self.in_loop = False
        """Whether the loop may flush."""
        self._limit = limit
        self._typical = limit * _START
        self._pause = FIRST_PAUSE
        self._since = -inf
        self._not_before = -inf

    def note(self, took: float, now: float) -> None:
        """Note how long a flush took of not more than MOST_BYTES, in the loop or in a thread, and ended now."""
        self._typical = self._typical * _STEP if took > self._typical else self._typical / _STEP
        if self.in_loop:
            if took > self._limit * _MUCH_TOO_SLOW or self._typical > self._limit * _SLOW_IN_LOOP:
                self._leave(now)
        elif self._typical < self._limit * _QUICK_IN_THREAD and now >= self._not_before:
            self.in_loop = True
            self._since = now
            self._typical = self._limit

    def _leave(self, now: float) -> None:
        if now - self._since > self._pause * _LONG:
            self._pause = FIRST_PAUSE
        self.in_loop = False
        self._typical = self._limit * _START
        self._not_before = now + self._pause
        self._pause = min(self._pause * 2, LONGEST_PAUSE)
