"""The garbage collector of a server process: full collections must not stop the loop, and nothing may leak for ever.

A full collection looks at every object; with 15,000 connections it takes half a second. So what survives one is frozen,
and the next looks only at what came since. A frozen object that becomes part of a cycle is not found any more. When the
frozen objects have doubled, they are let go once, and one collection looks at all of them again: garbage can at most
double a process, and a server that has grown as far as it will is not stopped again.
"""

from __future__ import annotations

import gc
import sys
from typing import Final

_OLDEST: Final = 2
_SWITCH_INTERVAL: Final = 0.001
_FEW: Final = 200_000
"""So many objects are looked at in some 20 ms: they need not double to be looked at again."""


_FULL_AFTER: Final = 3
"""Collections of the middle generation before a full one. Each object is looked at by one full collection and frozen
then, so that many short ones cost no more than a few long ones: these look at some 25,000 objects."""


class FrozenSurvivors:
    """Freezes what each full collection leaves."""

    def __init__(self) -> None:
        self._whole = gc.get_freeze_count()
        """How many objects the last look at all of them left."""
        self._looking_at_all = False

    def __call__(self, phase: str, info: dict[str, int]) -> None:
        """Called by the collector; no collection can be started here."""
        if phase != "stop" or info["generation"] != _OLDEST:
            return
        if not self._looking_at_all and gc.get_freeze_count() > 2 * self._whole + _FEW:
            gc.unfreeze()  # the next full collection looks at all
            self._looking_at_all = True
            return
        gc.freeze()
        if self._looking_at_all:
            self._looking_at_all = False
            self._whole = gc.get_freeze_count()


def settle_memory() -> None:
    """Let neither the garbage collector nor another thread stop the loop for long.

    What start-up left is collected, and the rest frozen. Threads hand over the interpreter within a millisecond, not
    five, when the loop waits for it. For a process that is a server and nothing else, once its servers have started.
    """
    sys.setswitchinterval(_SWITCH_INTERVAL)
    gc.set_threshold(*gc.get_threshold()[:_OLDEST], _FULL_AFTER)
    gc.collect()
    gc.freeze()
    gc.collect()  # of nothing: the next one waits until there is a quarter more than the last one left
    gc.callbacks.append(FrozenSurvivors())
