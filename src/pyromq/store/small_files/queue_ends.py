"""`pyromq.queues`, a small file of ours: which queues there are, and how many entries of each are flushed.

    {"orders": {"0": 120, "1": 87}}

Nothing else tells a queue that lost its directory, a file or its last entries from one that never had them. It counts
together with the position, and is written before it; a queue may well have more by now.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from pyromq.store.consume_queue import ConsumeQueue
from pyromq.store.files import OsFiles
from pyromq.store.small_files.sealed_file import read_sealed, replace_sealed

QUEUES_NAME: Final = "pyromq.queues"

EndsByTopic = dict[str, dict[int, int]]


class QueueEnds:
    """Reads and replaces the file."""

    def __init__(self, root: Path, files: OsFiles) -> None:
        self._files = files
        self._path = str(root / QUEUES_NAME)
        self._written: EndsByTopic | None = None

    def read(self) -> EndsByTopic:
        """Return what is there; nothing if that is damaged."""
        return read_sealed(self._files, self._path, EndsByTopic) or {}

    def write(self, ends: EndsByTopic) -> None:
        """Replace it, if it says something new; raises OSError."""
        if ends != self._written:
            replace_sealed(self._files, self._path, ends)
            self._written = ends


def ends_of(queues: Iterable[ConsumeQueue]) -> EndsByTopic:
    """Return how many entries each queue has in its files."""
    ends: EndsByTopic = {}
    for queue in queues:
        if end := queue.written_offset:
            ends.setdefault(queue.topic, {})[queue.queue_id] = end
    return ends
