"""`pyromq.confirmed`, a small file of ours: up to where messages are visible in a store that shows only confirmed ones.

    {"end": 81920}

What the log has behind it waits for its confirmation after a restart too. A queue may well have more by now: what it
has was confirmed. Where the file is missing, all that is there counts as confirmed: a store that shows everything has
none. It counts together with the position; another broker that wrote here in between has shown all there is.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

from pyromq.store.files import OsFiles
from pyromq.store.small_files.sealed_file import read_sealed, replace_sealed

CONFIRMED_NAME: Final = "pyromq.confirmed"


class ConfirmedLog(Struct, frozen=True):
    """What the file says."""

    end: int


class ConfirmedEnd:
    """Reads and replaces the file."""

    def __init__(self, root: Path, files: OsFiles) -> None:
        self._root = str(root)
        self._files = files
        self._path = str(root / CONFIRMED_NAME)
        self._written: int | None = None

    def read(self) -> int | None:
        """Return the end; None if there is no such file, and 0 if it is damaged: then only the queues know."""
        if not self._files.exists(self._path):
            return None
        found = read_sealed(self._files, self._path, ConfirmedLog)
        return 0 if found is None else found.end

    def write(self, end: int) -> None:
        """Replace it, if it says something new; raises OSError."""
        if end != self._written:
            replace_sealed(self._files, self._path, ConfirmedLog(end))
            self._written = end

    def forget(self) -> None:
        """Remove it, durably: everything counts as confirmed from now on. Raises OSError."""
        with suppress(FileNotFoundError):
            self._files.unlink(self._path)
            self._files.sync_directory(self._root)
