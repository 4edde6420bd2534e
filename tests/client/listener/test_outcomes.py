from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.client.listener.outcomes import (
    COMMIT,
    ROLLBACK,
    Ack,
    Action,
    DeadLetter,
    RetryLater,
    Suspend,
    cause_of,
    judge,
)
from pyromq.protocol.messages.properties import decode_properties, encode_properties


@pytest.mark.parametrize("returned", [None, COMMIT, True, False, "RECONSUME_LATER", 0, object(), Ack(3), Ack(7)])
def test_returning_acknowledges_whatever_is_returned(returned: object) -> None:
    verdict = judge(3, returned)
    assert (verdict.acknowledged, verdict.action) == (3, Action.NOTHING)


def test_a_partial_acknowledgement_has_the_rest_come_again() -> None:
    verdict = judge(5, Ack(first=2))
    assert (verdict.acknowledged, verdict.action, verdict.delay) == (2, Action.RETRY, None)
    assert verdict.cause == "the listener acknowledged 2 of 5 messages"


@pytest.mark.parametrize("delay", [90, 90.0, timedelta(minutes=1.5)])
def test_a_delay_is_seconds_or_a_timedelta(delay: float | timedelta) -> None:
    assert judge(1, RetryLater(delay)).delay == judge(1, Suspend(delay)).delay == 90.0


@pytest.mark.parametrize("delay", [-1, float("nan"), float("inf"), timedelta(seconds=-1)])
def test_a_delay_into_the_past_is_refused(delay: float) -> None:
    with pytest.raises(ValueError, match="delay"):
        RetryLater(delay)


def test_the_other_outcomes_say_what_becomes_of_the_messages() -> None:
    assert judge(1, RetryLater()).action is Action.RETRY
    assert judge(1, DeadLetter("no such order")).action is Action.GIVE_UP
    assert judge(1, DeadLetter("no such order")).cause == "DeadLetter: no such order"
    assert judge(2, ROLLBACK).action is Action.ROLL_BACK
    assert judge(1, ZeroDivisionError()).action is Action.RETRY
    with pytest.raises(ValueError, match="must not be negative"):
        Ack(first=-1)


def divide() -> None:
    _ = 1 / 0


def test_the_cause_names_the_exception_and_the_place() -> None:
    with pytest.raises(ZeroDivisionError) as raised:
        divide()
    line = divide.__code__.co_firstlineno + 1
    assert cause_of(raised.value) == f"ZeroDivisionError: division by zero (test_outcomes.py:{line} in divide)"


@given(st.text(max_size=2000))
def test_any_text_becomes_a_cause_that_fits_into_a_property(text: str) -> None:
    cause = cause_of(ValueError(text))
    assert len(cause) <= 500
    assert decode_properties(encode_properties({"PYROMQ_CAUSE": cause})) == {"PYROMQ_CAUSE": cause}
    assert "\n" not in cause
