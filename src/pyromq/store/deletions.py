"""Topics that were deleted: `pyromq.deletions`, kept until the log has lost the last record from before.

    {"orders": 123456}          the topic, and where the log ended when it was deleted

The log keeps a deleted topic's records until they expire, and after a crash recovery meets them again. What lies before
the end noted here stays deleted; a topic of the same name that was made later has its records behind it.
"""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import Final

import msgspec

from pyromq.store.files import OsFiles, read_file, replace_file

logger = logging.getLogger(__name__)

DELETIONS_NAME: Final = "pyromq.deletions"

_MOST_BYTES: Final = 64 << 20


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
        data = read_file(self._files, self._path, _MOST_BYTES)
        if not data:
            return
        try:
            self._ends = msgspec.json.decode(data, type=dict[str, int])
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            logger.warning("deleted topics may come back, their list is unreadable file=%s: %s", self._path, error)
        self._saved = dict(self._ends)

    def add(self, topic: str, log_end: int) -> None:
        """Note that a topic was deleted when the log ended there; durable after save()."""
        self._ends[topic] = log_end

    def covers(self, topic: str, physical_offset: int) -> bool:
        """Tell whether a record was stored before its topic was deleted."""
        return physical_offset < self._ends.get(topic, 0)

    def forget_before(self, log_start: int) -> None:
        """Forget the deletions that the log has moved past."""
        self._ends = {topic: end for topic, end in self._ends.items() if end > log_start}

    def save(self) -> None:
        """Make the list durable, if it changed; raises OSError if that fails. It waits for the disk."""
        with self._saving:
            ends = dict(self._ends)
            if ends != self._saved:
                replace_file(self._files, self._path, msgspec.json.encode(ends))
                self._saved = ends
