"""Topics that were deleted: `pyromq.deletions`, kept until the log has lost the last record from before.

    {"orders": 123456}          the topic, and where the log ended when it was deleted

The log keeps a deleted topic's records until they expire, and after a crash recovery meets them again. What lies before
the end noted here stays deleted; a topic of the same name that was made later has its records behind it.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Final

from pyromq.store.files import OsFiles
from pyromq.store.small_files.sealed_file import read_sealed, replace_sealed

DELETIONS_NAME: Final = "pyromq.deletions"


class Deletions:
    """Which records of the log belong to topics that are gone; changed on one thread, saved on any."""

    def __init__(self, root: Path, files: OsFiles) -> None:
        self._path = str(root / DELETIONS_NAME)
        self._files = files
        self._ends: dict[str, int] = {}
        self._saved: dict[str, int] = {}
        self._saving = threading.Lock()

    def load(self) -> None:
        """Read the file; one that is damaged counts as empty, for then topics come back and nothing is lost."""
        self._ends = read_sealed(self._files, self._path, dict[str, int]) or {}
        self._saved = dict(self._ends)

    def add(self, topic: str, log_end: int) -> None:
        """Note that a topic was deleted when the log ended there; durable after save()."""
        self._ends[topic] = log_end

    def end_of(self, topic: str) -> int:
        """Return where the log ended when a topic was deleted; 0 if it was not, or the log has moved past that."""
        return self._ends.get(topic, 0)

    @property
    def ends(self) -> dict[str, int]:
        """All of them: the topic, and where the log ended."""
        return dict(self._ends)

    def covers(self, topic: str, physical_offset: int) -> bool:
        """Tell whether a record was stored before its topic was deleted."""
        return physical_offset < self._ends.get(topic, 0)

    def forget_before(self, log_start: int) -> None:
        """Forget the deletions that the log has moved past."""
        self._ends = {topic: end for topic, end in self._ends.items() if end > log_start}

    def stay_within(self, log_end: int) -> None:
        """Follow a log that ends earlier now: what is written there from now on is not what was deleted."""
        self._ends = {topic: min(end, log_end) for topic, end in self._ends.items()}

    def save(self) -> None:
        """Make the list durable, if it changed; raises OSError if that fails. It waits for the disk."""
        with self._saving:
            ends = dict(self._ends)
            if ends != self._saved:
                replace_sealed(self._files, self._path, ends)
                self._saved = ends
