"""The event loop: uvloop where it is installed, asyncio's own elsewhere (12-20 % slower under load)."""

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
    """Run `main` to its end on a new loop; the first Ctrl-C cancels it."""
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(main)
