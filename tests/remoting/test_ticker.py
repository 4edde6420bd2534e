from __future__ import annotations

import pytest

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
