"""LastRun: how this store was left, and whether its machine can have lost something of it since.

    {"boot": "4c0e…", "sync_flush": false, "lost": false, "end": 73400}      pyromq.last_run, beside the log

    boot        the boot of the machine in which the run began: a killed process leaves its bytes with the kernel, and
                only a machine that goes down takes what was not flushed
    sync_flush  whether that run acknowledged only what was flushed
    lost        whether something may be missing that was never fetched from another copy
    end         where the log ended at a clean stop; -1 while a run goes on, or where it was killed

The file is read before the store is opened and written after that, by the one who has the directory's lock.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from pyromq.store.files import OsFiles
from pyromq.store.recovery.directory import ABORT_NAME
from pyromq.store.small_files.checkpoint import CheckpointFiles
from pyromq.store.small_files.sealed_file import read_sealed, replace_sealed

logger = logging.getLogger(__name__)

LAST_RUN_NAME: Final = "pyromq.last_run"
BOOT_ID_PATH: Final = Path("/proc/sys/kernel/random/boot_id")

_UNKNOWN: Final = ""
_STILL_OPEN: Final = -1


class _Content(Struct, frozen=True):
    boot: str = _UNKNOWN
    sync_flush: bool = False
    lost: bool = False
    end: int = _STILL_OPEN


class LastRun:
    """What is known of the run before, from `load` on; `begin`, `settle` and `finish` write about this one."""

    def __init__(self, root: Path, files: OsFiles | None = None, boot_id_path: Path = BOOT_ID_PATH) -> None:
        self._files = files or OsFiles()
        self._root = root
        self._path = str(root / LAST_RUN_NAME)
        self._boot_id_path = boot_id_path
        self._boot = _UNKNOWN
        self._before: _Content | None = None
        self._now = _Content()
        self._has_abort = False
        self._is_short = False
        self._foreign_from: int | None = None

    def load(self) -> None:
        """Look at the directory before the store is opened; raises OSError."""
        self._boot = self._boot_id()
        self._before = read_sealed(self._files, self._path, _Content)
        self._has_abort = self._files.exists(str(self._root / ABORT_NAME))
        self._foreign_from = self._find_foreign_start()

    def is_intact(self, sync_flush: bool) -> bool:
        """Return True if nothing can have been lost: a clean stop, the same boot of the machine, or SYNC_FLUSH.

        SYNC_FLUSH counts if the run before had it, and this one has it too. A new directory is intact.
        """
        before = self._before
        if before is None:
            return not self._has_abort
        return not (before.lost or self._is_short) and (
            self.was_clean
            or (self._boot != _UNKNOWN and self._boot == before.boot)
            or (before.sync_flush and sync_flush)
        )

    def begin(self, sync_flush: bool, log_end: int) -> None:
        """Record this run, durably, before it takes a message; doubts stay until `settle`.

        A log that ends before the place at which it was left has lost something.

        A disk that is too full for it is survived: what is recorded is then that of an older run.
        """
        self._is_short = self._before is not None and log_end < self._before.end
        self._save(_Content(self._boot, sync_flush, not self.is_intact(sync_flush)))

    def settle(self) -> None:
        """Note, durably, that nothing is missing any more: it was fetched from another copy, or given up for good."""
        if self._now.lost:
            self._save(replace(self._now, lost=False))

    def finish(self, log_end: int) -> None:
        """Record where the log ends at a clean stop, when all of it is flushed."""
        self._save(replace(self._now, end=log_end))

    def foreign_start(self, log_end: int) -> int | None:
        """Return from where on another program may have written the log, which ends at `log_end` now; None if none did.

        Another program is one that keeps no `pyromq.last_run`, such as Apache's broker.
        """
        before = self._before
        if before is not None and _STILL_OPEN < before.end < log_end:
            return before.end
        return None if self._foreign_from is None or self._foreign_from >= log_end else self._foreign_from

    @property
    def was_clean(self) -> bool:
        """Whether our own run ended well: `store repair` and Apache's broker remove the mark `abort` too."""
        return not self._has_abort and (self._before is None or self._before.end != _STILL_OPEN)

    def _find_foreign_start(self) -> int | None:
        """Return what our last run had flushed, if a broker that does not know our position has written since."""
        checkpoints = CheckpointFiles(self._root, self._files)
        found = checkpoints.read_position()
        if self._before is None or found is None or checkpoints.read()[1] is not None:
            return None
        return found[0].flushed

    def _boot_id(self) -> str:
        try:
            return self._boot_id_path.read_text("ascii").strip()
        except (OSError, ValueError) as error:
            logger.warning("the boot of this machine is not known, so it counts as a new one: %s", error)
            return _UNKNOWN

    def _save(self, content: _Content) -> None:
        self._now = content
        try:
            replace_sealed(self._files, self._path, content)
        except OSError as error:
            logger.error("cannot record this run file=%s: %s", self._path, error)
