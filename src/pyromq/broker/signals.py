"""Signal: something that happens in a broker, for those who want to know.

Whoever can cause it gets the signal when it is built, and so does whoever listens: neither has to know the other, and
nothing is set on either afterwards. A listener that goes, such as one of the writing side's, unsubscribes. An
error of one is logged: neither the others nor whoever causes the signal may suffer from it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Generic, ParamSpec

from pyromq.errors import StoreError
from pyromq.store.results import Arrival

P = ParamSpec("P")
logger = logging.getLogger(__name__)


class Signal(Generic[P]):
    """A list of listeners, all called in order when it happens."""

    def __init__(self) -> None:
        self._listeners: list[Callable[P, object]] = []

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> None:
        """Tell all listeners; an error of one is logged."""
        for listener in tuple(self._listeners):
            try:
                listener(*args, **kwargs)
            except Exception:
                logger.exception("a listener failed")

    def subscribe(self, listener: Callable[P, object]) -> Callable[[], None]:
        """Call `listener` each time from now on; call what is returned to end that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)


class StoreSignals:
    """What a store tells a broker; made before the store, which gets the three as its callbacks."""

    def __init__(self) -> None:
        self.arrived: Signal[[Iterable[Arrival]]] = Signal()
        """Messages have become visible."""
        self.durable: Signal[[int]] = Signal()
        """The log is durable up to an end; only where sends wait for the flush."""
        self.failed: Signal[[StoreError]] = Signal()
        """The store has stopped writing."""
