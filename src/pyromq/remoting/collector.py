"""The memory of a server process: full collections must not stop the loop, and nothing may leak for ever.

A full collection looks at every object; with 15,000 connections it takes half a second. So what survives one is frozen,
and the next looks only at what came since. A frozen object that becomes part of a cycle is not found any more. Hardly
any does: what lives long in a server, its connections first of all, goes without a cycle when it goes. In case some
does, a process that has grown a lot lets the frozen objects go once, and one collection looks at all of them again.

Answers of megabytes are made in each round and gone at its end. glibc would hand their memory back to the system at
once, and each round would have it mapped again, page by page: up to a quarter of what a pull costs. So it is told to
keep some. Other C libraries have no such settings and are left alone.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from typing import Final

_OLDEST: Final = 2
_SWITCH_INTERVAL: Final = 0.001
_MUCH: Final = 4_000_000
"""Blocks of memory by which a process must have grown, besides having doubled: some 300 MB. A server with 15,000
topics and as many clients stays below, so that its loop is never stopped by a look at everything."""

_FULL_AFTER: Final = 1
"""Collections of the middle generation before a full one. Each object is looked at by one full collection and frozen
then, so that many short ones cost no more than a few long ones: these look at some 10,000 objects."""

_MALLOC: Final = (
    # What it is called in the environment, its number in malloc.h, bytes.
    ("MALLOC_TRIM_THRESHOLD_", -1, 64 << 20),
    ("MALLOC_TOP_PAD_", -2, 16 << 20),
    ("MALLOC_MMAP_THRESHOLD_", -3, 32 << 20),
)


class FrozenSurvivors:
    """Freezes what each full collection leaves."""

    def __init__(self) -> None:
        self._whole = sys.getallocatedblocks()
        """How many blocks of memory the last look at all objects left."""
        self._looking_at_all = False

    def __call__(self, phase: str, info: dict[str, int]) -> None:
        """Called by the collector; no collection can be started here."""
        if phase != "stop" or info["generation"] != _OLDEST:
            return
        # Not by gc.get_freeze_count(), which walks all frozen objects: 50 ms for a million.
        if not self._looking_at_all and sys.getallocatedblocks() > 2 * self._whole + _MUCH:
            gc.unfreeze()  # the next full collection looks at all
            self._looking_at_all = True
            return
        gc.freeze()
        if self._looking_at_all:
            self._looking_at_all = False
            self._whole = sys.getallocatedblocks()


def freeze_code() -> None:
    """Let no collection look at modules and what they hold: settle_memory() then has only what a start has made.

    For a process that is a server, before its servers answer anybody.
    """
    gc.collect()
    gc.freeze()


def settle_memory() -> None:
    """Let neither the garbage collector nor another thread stop the loop for long.

    What start-up left is collected, and the rest frozen. Threads hand over the interpreter within a millisecond, not
    five, when the loop waits for it. Memory that is free for a moment is kept. For a process that is a server and
    nothing else, once its servers have started.
    """
    keep_memory()
    sys.setswitchinterval(_SWITCH_INTERVAL)
    gc.set_threshold(*gc.get_threshold()[:_OLDEST], _FULL_AFTER)
    gc.collect()
    gc.freeze()
    gc.collect()  # of nothing: the next one waits until there is a quarter more than the last one left
    gc.callbacks.append(FrozenSurvivors())


def keep_memory() -> None:
    """Have the C library keep what is free for a moment. What an operator has set in the environment stays so."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if os.name == "posix" else None
    if mallopt is None:
        return
    for name, number, size in _MALLOC:
        if name not in os.environ:
            mallopt(number, size)
