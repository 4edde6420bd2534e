"""NoSpace: remembers that the disk refused space to a message, until there is some again."""

from __future__ import annotations

from typing import Final

from pyromq.errors import DiskFull

ENOUGH: Final = 16 << 20
"""Free bytes with which it is worth to say that there is space again, before a message proves it."""


class NoSpace:
    """Set by whoever finds no space for a message; the path of a message that finds some does not come by here."""

    def __init__(self) -> None:
        self.error: DiskFull | None = None
        """What the disk last refused; None if there is space."""
        self._log_end = 0

    def note(self, error: DiskFull, log_end: int) -> None:
        """Note that a message was refused while the log ended there."""
        self.error = error
        self._log_end = log_end

    def look(self, log_end: int, usable: int) -> None:
        """Forget it if a message was stored since, or the disk has many free bytes."""
        if self.error is not None and (log_end > self._log_end or usable >= ENOUGH):
            self.error = None
