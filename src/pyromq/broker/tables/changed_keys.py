"""ChangedKeys: which rows of a table changed after which mark, for slaves that follow it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

from pyromq.broker.signals import Signal

K = TypeVar("K", bound=Hashable)

_MOST: Final = 2_000_000
"""Rows whose last change is remembered; a slave that asks for older changes takes the whole table."""

_MOST_FRESH: Final = 10_000


class ChangedKeys(Generic[K]):
    """Remembers each row's last change, in order; a removed row counts too."""

    def __init__(self, most: int = _MOST) -> None:
        self.fresh: set[K] = set()
        """Rows, not all, that have changed since the mark was last read. Nobody can miss another change of such a row,
        so whoever changes rows often need not note it."""
        self._mark = 0
        self.changed: Signal[[]] = Signal()
        self._marks: OrderedDict[K, int] = OrderedDict()
        self._most = most
        self._forgotten = 0

    @property
    def mark(self) -> int:
        """Grows with every change after which it is read."""
        self.fresh.clear()
        return self._mark

    def note(self, key: K) -> None:
        """Note that a row is new, different or gone."""
        if len(self.fresh) >= _MOST_FRESH:
            self.fresh.clear()
        self.fresh.add(key)
        self._mark += 1
        self._marks[key] = self._mark
        self._marks.move_to_end(key)
        if len(self._marks) > self._most:
            self._forgotten = self._marks.popitem(last=False)[1]
        self.changed()

    def knows_since(self, mark: int) -> bool:
        """Return True if all changes after a mark are remembered."""
        return mark >= self._forgotten

    def since(self, mark: int) -> list[K]:
        """Return the rows that changed after a mark, the latest first."""
        found = []
        for key in reversed(self._marks):
            if self._marks[key] <= mark:
                break
            found.append(key)
        return found
