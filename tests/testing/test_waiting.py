"""`eventually` and `wait_until`: they return when the condition holds, and say what did not happen."""

from __future__ import annotations

import asyncio
import threading

import pytest

from pyromq.testing import eventually, wait_until


async def test_a_condition_that_holds_is_not_waited_for() -> None:
    await eventually(lambda: True, seconds=0)
    wait_until(lambda: True, seconds=0)


async def test_the_event_loop_goes_on_while_a_test_waits() -> None:
    happened = asyncio.Event()
    asyncio.get_running_loop().call_later(0.01, happened.set)
    await eventually(happened.is_set)


async def test_a_condition_may_be_a_coroutine_function() -> None:
    asked: list[None] = []

    async def asked_often() -> bool:
        asked.append(None)
        return len(asked) == 3

    await eventually(asked_often)
    assert len(asked) == 3


async def test_a_condition_that_hangs_is_given_up_too() -> None:
    with pytest.raises(TimeoutError):
        await eventually(asyncio.Event().wait, seconds=0.01)


def test_a_thread_waits_for_what_another_does() -> None:
    happened = threading.Event()
    threading.Timer(0.01, happened.set).start()
    wait_until(happened.is_set)


async def test_the_error_says_what_was_waited_for() -> None:
    with pytest.raises(TimeoutError, match=r"waited 0.01 s in vain until the broker is there"):
        await eventually(lambda: False, "the broker is there", seconds=0.01)
    with pytest.raises(TimeoutError, match=r"waited 0.01 s in vain until the broker is there"):
        wait_until(lambda: False, "the broker is there", seconds=0.01)


async def test_errors_of_the_condition_pass() -> None:
    with pytest.raises(ZeroDivisionError):
        await eventually(lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        wait_until(lambda: 1 / 0)
