from __future__ import annotations

import pytest

from pyromq.remoting.outstanding import TICK, Deadlines
from pyromq.remoting.ticker import Ticker

from .helpers import FakeClock


def test_a_ticker_ticks_until_the_sweep_has_nothing_left(clock: FakeClock) -> None:
    left = [3, 2, 1, 0]
    ticker = Ticker(clock, 1.0, lambda: left.pop(0) > 0)
    ticker.start()
    ticker.start()
    clock.advance(10.0)
    assert (ticker.count, left, clock.waiting) == (4, [], 0)


def test_a_stopped_ticker_is_silent_and_can_start_again(clock: FakeClock) -> None:
    ticker = Ticker(clock, 1.0, lambda: True)
    ticker.start()
    clock.advance(2.5)
    ticker.stop()
    clock.advance(5.0)
    assert ticker.count == 2
    ticker.start()
    clock.advance(1.0)
    assert ticker.count == 3


def test_a_sweep_that_raises_does_not_end_the_ticking(clock: FakeClock, caplog: pytest.LogCaptureFixture) -> None:
    def sweep() -> bool:
        if ticker.count == 1:
            raise RuntimeError("broken sweep")
        return ticker.count < 3

    ticker = Ticker(clock, 1.0, sweep)
    ticker.start()
    clock.advance(10.0)
    assert ticker.count == 3
    assert "broken sweep" in caplog.text


class Waiter:
    """Notes when it was told that its deadline has come."""

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
