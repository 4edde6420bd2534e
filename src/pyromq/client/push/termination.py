"""SIGTERM, by which process managers ask a program to end: consumers finish what they have in hand and leave."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_callbacks: list[Callable[[], object]] = []  # used in the main thread only, as signal handlers are


@contextmanager
def on_sigterm(callback: Callable[[], object]) -> Iterator[None]:
    """Call `callback` when SIGTERM arrives, in the main thread; it must not block.

    A program that handles SIGTERM itself keeps its handler, and threads other than the main one cannot have any: then
    nothing is called. Afterwards SIGTERM ends the process again.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGTERM) not in (signal.SIG_DFL, _call_all):
        yield
        return
    signal.signal(signal.SIGTERM, _call_all)
    _callbacks.append(callback)
    try:
        yield
    finally:
        _callbacks.remove(callback)
        if not _callbacks and signal.getsignal(signal.SIGTERM) is _call_all:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _call_all(number: int, frame: object) -> None:
    for callback in tuple(_callbacks):
        callback()
