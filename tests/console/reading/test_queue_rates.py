"""Rates of queues: from two readings of a moment ago, and unknown rather than wrong."""

from __future__ import annotations

import pytest

from pyromq.clock import SystemClock
from pyromq.console.reading import queue_rates as module
from pyromq.console.reading.queue_rates import QueueRates
from pyromq.protocol.messages.message import MessageQueue

FIRST, SECOND = (MessageQueue("orders", "broker-a", number) for number in range(2))


class StoppedClock(SystemClock):
    """A clock that stands still until a test sets it."""

    def __init__(self) -> None:
        self.at = 1000.0

    def monotonic(self) -> float:
        return self.at


@pytest.fixture
def clock() -> StoppedClock:
    return StoppedClock()


def test_a_rate_is_what_a_queue_grew_since_the_page_saw_it(clock: StoppedClock) -> None:
    rates = QueueRates(clock)
    assert rates.read("orders", {FIRST: 10, SECOND: 10}) == {}
    clock.at += 4
    assert rates.read("orders", {FIRST: 50, SECOND: 10}) == {FIRST: 10.0, SECOND: 0.0}
    clock.at += 4
    assert rates.read("orders", {FIRST: 50, SECOND: 18}) == {FIRST: 0.0, SECOND: 2.0}


def test_many_readers_at_once_do_not_shorten_the_time_over_which_a_rate_is_taken(clock: StoppedClock) -> None:
    rates = QueueRates(clock)
    for _ in range(50):
        found = rates.read("orders", {FIRST: int(clock.at * 8)})
        assert found in ({}, {FIRST: 8.0})
        clock.at += 0.5
    assert found == {FIRST: 8.0}


def test_a_queue_that_was_recreated_and_an_old_reading_tell_nothing(clock: StoppedClock) -> None:
    rates = QueueRates(clock)
    rates.read("orders", {FIRST: 100})
    clock.at += 3
    assert rates.read("orders", {FIRST: 5, SECOND: 7}) == {}
    clock.at += module.MOST + 1
    assert rates.read("orders", {FIRST: 500}) == {}


def test_only_the_topics_that_were_read_last_are_kept(clock: StoppedClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_TOPICS", 2)
    rates = QueueRates(clock)
    for topic in ("a", "b", "a", "c"):
        rates.read(topic, {MessageQueue(topic, "broker-a", 0): 1})
    clock.at += 3
    assert len(rates) == 2
    assert rates.read("a", {MessageQueue("a", "broker-a", 0): 4})
