"""Deadlines of outstanding requests."""

from __future__ import annotations

import pytest

from pyromq.remoting.outstanding import TICK, Deadlines

from .helpers import FakeClock


class Waiter:
    """Notes when its deadline was reported."""

    def __init__(self, clock: FakeClock, deadlines: Deadlines, timeout: float) -> None:
        self.clock = clock
        self.began = clock.time
        self.waited: float | None = None
        deadlines.watch(self)
        self.deadline = deadlines.after(timeout)

    def expire(self, tick: int) -> bool:
        if self.waited is None and tick >= self.deadline:
            self.waited = self.clock.time - self.began
        return self.waited is None


@pytest.mark.parametrize("timeout", [0.0, 0.01, TICK, 0.31, 3.0, 15.0])
def test_no_deadline_comes_early_or_more_than_two_ticks_late(clock: FakeClock, timeout: float) -> None:
    deadlines = Deadlines(clock)
    waiters = []
    for _ in range(10):
        waiters.append(Waiter(clock, deadlines, timeout))
        clock.advance(0.013)
    clock.advance(timeout + 1.0)
    for waiter in waiters:
        assert waiter.waited is not None
        assert timeout - 1e-6 <= waiter.waited <= timeout + 2 * TICK + 1e-6
    assert clock.waiting == 0
