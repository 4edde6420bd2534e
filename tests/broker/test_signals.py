from __future__ import annotations

import logging

import pytest

from pyromq.broker.signals import Signal


def test_all_listeners_hear_it_in_order_until_they_unsubscribe() -> None:
    heard: list[str] = []
    signal: Signal[[str]] = Signal()
    end_first = signal.subscribe(lambda word: heard.append(f"first {word}"))
    signal.subscribe(lambda word: heard.append(f"second {word}"))
    signal("one")
    end_first()
    signal("two")
    assert heard == ["first one", "second one", "second two"]


def test_a_listener_may_unsubscribe_while_it_is_told() -> None:
    heard: list[int] = []
    signal: Signal[[int]] = Signal()

    def once(number: int) -> None:
        heard.append(number)
        end()

    end = signal.subscribe(once)
    signal.subscribe(heard.append)
    signal(1)
    signal(2)
    assert heard == [1, 1, 2]


def test_a_listener_that_fails_is_logged_and_costs_nobody_anything(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[int] = []
    signal: Signal[[int]] = Signal()
    signal.subscribe(lambda number: 1 // number)
    signal.subscribe(heard.append)
    with caplog.at_level(logging.ERROR):
        signal(0)
    assert heard == [0]
    assert "ZeroDivisionError" in caplog.text
