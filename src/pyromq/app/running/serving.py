"""Serving: an App in this process until it is asked to stop."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pyromq.app.application import App
from pyromq.errors import ConfigError

logger = logging.getLogger(__name__)

INTERRUPTED = 130
STOP_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGBREAK") if hasattr(signal, name)]


async def serve(app: App, announce: Callable[[str], object], *, supervised: bool = False) -> None:
    """Run an App until SIGTERM or SIGINT, or until the supervisor closes our standard input; then finish and leave."""
    if not app.handlers:
        raise ConfigError(f"the App {app.name!r} has no handler: decorate a function with @app.on(...)")
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    with stop_signals(lambda: loop.call_soon_threadsafe(stopping.set)):
        if supervised:
            _stop_with_parent(loop, stopping)
        async with app:
            announce(describe(app))
            await stopping.wait()
            logger.info("the app %s finishes what it has in hand and leaves", app.name)


def describe(app: App) -> str:
    """Return what runs, in one line."""
    groups = dict.fromkeys(handler.group for handler in app.handlers)
    handlers = f"{len(app.handlers)} handler{'s' if len(app.handlers) > 1 else ''}"
    return f"PyroMQ app ready: {app.name}, {handlers} in {', '.join(groups)} (pid {os.getpid()})"


@contextmanager
def stop_signals(stop: Callable[[], object]) -> Iterator[None]:
    """Call `stop` at the first signal that asks to stop; a second SIGINT ends the process at once."""
    interrupts = 0

    def asked(number: int, frame: object) -> None:
        nonlocal interrupts
        interrupts += number == signal.SIGINT
        if interrupts > 1:
            os._exit(INTERRUPTED)
        stop()

    before = {number: signal.signal(number, asked) for number in STOP_SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _stop_with_parent(loop: asyncio.AbstractEventLoop, stopping: asyncio.Event) -> None:
    def wait() -> None:
        while os.read(0, 4096):  # not sys.stdin, whose lock would be held when the interpreter ends
            pass
        try:
            loop.call_soon_threadsafe(stopping.set)
        except RuntimeError:  # the loop has ended
            return

    threading.Thread(target=wait, name="pyromq parent watch", daemon=True).start()
