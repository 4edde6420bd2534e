"""Wait for a condition, in real time, instead of sleeping and hoping that the pause was long enough."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from inspect import isawaitable
from typing import Final

PATIENCE: Final = 60.0  # seconds; only a test that fails waits that long
PAUSE: Final = 0.005  # seconds between two looks
_CONDITION: Final = "the condition holds"


async def eventually(
    condition: Callable[[], object], what: str = _CONDITION, *, seconds: float = PATIENCE, pause: float = PAUSE
) -> None:
    """Wait until `condition()` is true; raise TimeoutError after `seconds`. The condition may be a coroutine function.

    >>> await eventually(lambda: len(received) == 10)
    """
    try:
        async with asyncio.timeout(seconds):
            while not await _value(condition):  # noqa: ASYNC110 (no event says when it becomes true)
                await asyncio.sleep(pause)
    except TimeoutError:
        raise TimeoutError(_timeout_text(seconds, what)) from None


async def _value(condition: Callable[[], object]) -> object:
    value = condition()
    return await value if isawaitable(value) else value


def wait_until(
    condition: Callable[[], object], what: str = _CONDITION, *, seconds: float = PATIENCE, pause: float = PAUSE
) -> None:
    """Wait like `eventually`, but block the calling thread, for tests without an event loop."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(_timeout_text(seconds, what))
        time.sleep(pause)


def _timeout_text(seconds: float, what: str) -> str:
    return f"waited {seconds:g} s in vain until {what}"
