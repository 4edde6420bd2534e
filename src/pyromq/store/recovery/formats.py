"""Which files of ours a directory has, and whether this release knows their formats.

    pyromq.position  pyromq.index                     packed (`sealed_file`)
    pyromq.confirmed  pyromq.queues  pyromq.fences    sealed JSON (`sealed_file`); any other `pyromq.NAME` too: a
    pyromq.deletions  pyromq.epochs  pyromq.slaves    broker keeps some of its own beside those of the store
    pyromq.last_run
    config/*.json.journal                             `table_journal`
    pyromq.timer/pending.db                           SQLite, with its `user_version`

Whoever opens a directory looks at all of them first: a store is refused before a byte of it has changed. All other
files are RocketMQ's, and their formats are fixed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pyromq.store.files import OsFiles, read_file
from pyromq.store.index.index_checkpoint import INDEX_CHECKPOINT_NAME, IndexCheckpointFile
from pyromq.store.index.pending_table import check_pending_format
from pyromq.store.small_files.checkpoint import POSITION_NAME, CheckpointFiles
from pyromq.store.small_files.sealed_file import check_sealed
from pyromq.store.small_files.table_journal import JOURNAL, check_journal

_OURS: Final = "pyromq."
_NOT_SEALED: Final = (POSITION_NAME, INDEX_CHECKPOINT_NAME)
_HEADER_LENGTH: Final = 4096


def check_formats(root: Path, files: OsFiles) -> None:
    """Raise UnknownFormat for the first file of a store that a later release has written; raises OSError."""
    CheckpointFiles(root, files).read_position()
    IndexCheckpointFile(root, files).read()
    check_pending_format(root, files)
    for name in sorted({*_names(files, root)} - {*files.subdirectories(str(root))}):
        if name.startswith(_OURS) and name not in _NOT_SEALED and not name.endswith(".tmp"):
            check_sealed(files, str(root / name))
    for name in sorted(_names(files, root / "config")):
        if name.endswith(JOURNAL):
            path = str(root / "config" / name)
            check_journal(read_file(files, path, _HEADER_LENGTH), path)


def _names(files: OsFiles, directory: Path) -> list[str]:
    return files.listdir(str(directory)) if files.exists(str(directory)) else []
