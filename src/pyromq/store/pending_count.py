"""How many messages wait for a time in a directory that somebody else has open, or nobody."""

from __future__ import annotations

import logging
import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Final

from pyromq.store.pending_table import DIRECTORY_NAME, FILE_NAME

logger = logging.getLogger(__name__)

_BESIDE: Final = ("", "-wal")
_QUESTION: Final = "SELECT count, queue_offset FROM progress"


def count_pending(root: Path, first: int, end: int, *, is_live: bool) -> int:
    """Return how many of a timer's queue, which has these offsets, wait; what ended in the last seconds counts still.

    Without the timer's table all that the queue has count: only a broker can tell which of them were delivered.
    """
    path = root / DIRECTORY_NAME / FILE_NAME
    try:
        saved = (_ask(path) if is_live else _ask_copy(path)) if path.exists() else None
    except (sqlite3.Error, OSError) as error:
        logger.warning("the timer's table cannot be read file=%s: %s", path, error)
        saved = None
    if saved is None:
        return end - first
    count, queue_offset = saved
    return count + max(end - max(queue_offset, first), 0)


def _ask(path: Path) -> tuple[int, int] | None:
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        row: tuple[int, int] | None = connection.execute(_QUESTION).fetchone()
    return row


def _ask_copy(path: Path) -> tuple[int, int] | None:
    # SQLite would finish what a killed broker left in the file beside it: not in a directory that is only looked at.
    with tempfile.TemporaryDirectory(prefix="pyromq-") as directory:
        for ending in _BESIDE:
            source = path.with_name(path.name + ending)
            if source.exists():
                shutil.copyfile(source, Path(directory) / source.name)
        return _ask(Path(directory) / path.name)
