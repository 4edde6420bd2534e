"""ChangedKeys: which rows of a table changed after which mark, for slaves that follow it."""

from __future__ import annotations

from collections import OrderedDict

from pyromq.broker.signals import Signal


class ChangedKeys:
    """Remembers each row's last change, in order; a removed row counts too."""

    def __init__(self) -> None:
        self.mark = 0
        """Grows with every change."""
        self.changed: Signal[[]] = Signal()
        self._marks: OrderedDict[str, int] = OrderedDict()

    def note(self, key: str) -> None:
        """Note that a row is new, different or gone."""
        self.mark += 1
        self._marks[key] = self.mark
        self._marks.move_to_end(key)
        self.changed()

    def since(self, mark: int) -> list[str]:
        """Return the rows that changed after a mark, the latest first."""
        found = []
        for key in reversed(self._marks):
            if self._marks[key] <= mark:
                break
            found.append(key)
        return found
