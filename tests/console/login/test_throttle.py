"""Throttle: five tries are free, then the pause doubles; it is forgotten after a success or a quarter of an hour."""

from __future__ import annotations

from pyromq.console.login.throttle import FREE_TRIES, LONGEST_PAUSE, Throttle
from pyromq.testing import TestClock


def test_pauses_grow_and_are_forgotten() -> None:
    clock = TestClock()
    throttle = Throttle(clock)
    for _ in range(FREE_TRIES - 1):
        throttle.failed("name ada")
    assert throttle.pause("name ada") == 0
    throttle.failed("name ada")
    first = throttle.pause("name ada")
    assert 0 < first <= 2
    throttle.failed("name ada")
    assert throttle.pause("name ada", "name bob") > first
    assert throttle.pause("name bob") == 0
    clock.advance(seconds=1000)
    assert throttle.pause("name ada") == 0


def test_a_success_forgets_and_no_pause_is_endless() -> None:
    throttle = Throttle(TestClock())
    for _ in range(100):
        throttle.failed("address 10.0.0.1")
    assert throttle.pause("address 10.0.0.1") <= LONGEST_PAUSE
    throttle.succeeded("address 10.0.0.1")
    assert throttle.pause("address 10.0.0.1") == 0
