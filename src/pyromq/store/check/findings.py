"""What a check of a store finds: one line each, with the file and the byte where it is."""

from __future__ import annotations

import os
from enum import Enum

from msgspec import Struct
from msgspec.structs import replace


class Severity(Enum):
    """Whether something is wrong, or only worth knowing."""

    PROBLEM = "problem"
    NOTE = "note"


class Finding(Struct, frozen=True, kw_only=True):
    """One thing that was found."""

    severity: Severity = Severity.PROBLEM
    kind: str
    """What was checked: record, entry, index, checkpoint, table or file."""
    file: str
    """Below the store's directory, or absolute if the log is elsewhere."""
    offset: int | None = None
    """The byte in that file at which it begins."""
    text: str
    is_stray: bool = False
    """Whether the file as a whole does not belong there."""

    def __str__(self) -> str:
        place = self.file if self.offset is None else f"{self.file} at {self.offset}"
        return f"{self.severity.value}: {place}: {self.text}"

    def as_note(self, more: str = "") -> Finding:
        """Return the same, as something that is only worth knowing."""
        return replace(self, severity=Severity.NOTE, text=self.text + more)


def relative(path: str, root: str) -> str:
    """Return a path as findings show it."""
    return os.path.relpath(path, root) if path.startswith(root + os.sep) else path
