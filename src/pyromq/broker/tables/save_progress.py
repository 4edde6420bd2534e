"""SaveProgress: which changes of a table are on disk, and who waits for them."""

from __future__ import annotations

import logging
from collections.abc import Callable

WhenSaved = Callable[[bool], None]
"""What is done once a table is saved (True) or could not be (False)."""

logger = logging.getLogger(__name__)


class SaveProgress:
    """Numbers the changes of a table; a crash takes away none up to `saved`."""

    def __init__(self) -> None:
        self.requested = self.saved = 0
        """The number of the last change, and of the last one that is on disk."""
        self._listeners: list[tuple[int, WhenSaved]] = []

    @property
    def pending(self) -> bool:
        """Whether a change is not on disk yet: it is being written, or could not be."""
        return self.saved < self.requested

    def listen(self, listener: WhenSaved) -> None:
        """Call `listener` when all changes up to now are saved, or are not."""
        self._listeners.append((self.requested, listener))

    def advance(self, saved: int) -> None:
        """Note that changes up to a number are saved, and tell those who wait for them."""
        self.saved = max(self.saved, saved)
        self._tell(lambda number: number <= self.saved)

    def give_up(self) -> None:
        """Tell all that still wait that their changes could not be saved."""
        self._tell(lambda number: True)

    def _tell(self, is_meant: Callable[[int], bool]) -> None:
        listeners = self._listeners
        self._listeners = [entry for entry in listeners if not is_meant(entry[0])]
        for number, listener in listeners:
            if is_meant(number):
                self._call(listener, number <= self.saved)

    def _call(self, listener: WhenSaved, saved: bool) -> None:
        try:
            listener(saved)
        except Exception:  # the others must hear it all the same
            logger.exception("a listener failed when a table was saved")
