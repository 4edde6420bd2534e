"""`repair`: puts a store right with what can be read of it.

What is derived is made anew from the log: queues and index. What has a backup is restored from it. What belongs to
nobody, and the old state of all that is replaced, goes to `quarantine/`. Damage in the log stays where it is, fenced:
messages before and behind it are read, nothing is cut. All that is prepared here; then a start of the store, told that
the log is whole up to the last sound record and that no queue is, does the rest.

A journal of a table is no damage. It is folded in all the same: other brokers do not know it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from stat import S_ISREG
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from pyromq.errors import StoreError
from pyromq.store.check.file_check import usual_size
from pyromq.store.check.findings import Finding, Severity
from pyromq.store.check.index_check import INDEX_NAME
from pyromq.store.check.table_check import BACKUP, CONFIG_NAME, TableCheck
from pyromq.store.check.verify import StoreCheck
from pyromq.store.config import StoreConfig
from pyromq.store.consume_queue import PRE_BLANK
from pyromq.store.files import OsFiles, read_file, replace_file, store_error, write_all
from pyromq.store.index.index_checkpoint import INDEX_CHECKPOINT_NAME
from pyromq.store.index.index_file import Geometry
from pyromq.store.message_store import MessageStore
from pyromq.store.read.file_view import find_segments
from pyromq.store.recovery.directory import ABORT_NAME
from pyromq.store.recovery.quarantine import SetAside
from pyromq.store.small_files.checkpoint import CHECKPOINT_NAME, Checkpoint, CheckpointFiles, Position
from pyromq.store.small_files.confirmed_end import CONFIRMED_NAME
from pyromq.store.small_files.fences import Fences
from pyromq.store.small_files.lock import DirectoryLock
from pyromq.store.small_files.queue_ends import QUEUES_NAME
from pyromq.store.small_files.table_file import TableFile, read_with_journal
from pyromq.store.small_files.table_formats import TABLE_FORMATS, TableFormat
from pyromq.store.small_files.table_journal import JOURNAL

_MOST_BYTES: Final = 1 << 30


class RepairStep(NamedTuple):
    """One thing to do, and its name for people."""

    text: str
    act: Callable[[], None]


class Repair:
    """What a directory needs; `steps` says it before run() does it."""

    def __init__(
        self,
        check: StoreCheck,
        findings: Sequence[Finding],
        config: StoreConfig,
        now_ms: Callable[[], int],
        files: OsFiles | None = None,
    ) -> None:
        """Plan with what a check that ran to its end has found.

        Raises StoreError where a repair would do harm: a broker is at work, or entries hold what only its
        configuration can tell.
        """
        self._check = check
        self._root = check.root
        self._files = files or OsFiles()
        self._config = config
        self._now_ms = now_ms
        self._aside = SetAside(self._root, self._files)
        self._problems = [finding for finding in findings if finding.severity is Severity.PROBLEM]
        self._refuse()
        self.steps = [*(self._plan() if self._problems else ()), *self._journal_steps()]

    def _refuse(self) -> None:
        if self._check.is_live:
            raise StoreError(f"a broker has {self._root} open: stop it before a repair")
        if len(self._check.log_directories) > 1:
            raise StoreError("a log in several directories can be checked and served, but not repaired")
        if self._check.has_other_delays and self._config.delay_levels_ms == StoreConfig(root=Path()).delay_levels_ms:
            raise StoreError("delayed messages wait for other times than usual: give the broker.conf with its levels")

    def run(self, on_step: Callable[[RepairStep], None] = lambda step: None) -> None:
        """Take every step, under the directory's lock; raises StoreLocked, StoreError or OSError."""
        lock = DirectoryLock(Path(self._root), self._files)
        lock.acquire()
        try:
            for step in self.steps:
                on_step(step)
                step.act()
        except OSError as error:
            raise store_error("repair", self._root, error) from error
        finally:
            lock.release()
        if self._problems:
            self._start()
            self._blank_what_is_left()

    # --- what to do

    def _plan(self) -> Iterator[RepairStep]:
        yield from self._log_steps()
        yield from self._queue_steps()
        yield from self._table_steps()
        yield from self._small_file_steps()
        if any(finding.kind == "index" for finding in self._problems):
            yield RepairStep("set aside the index", self._set_aside_index)
        if self._check.contradicted:
            yield RepairStep(
                f"fence {len(self._check.contradicted)} records that say they belong elsewhere", self._fence
            )
        text = f"build queues and index anew from {self._check.records} messages"
        if self._check.damage:
            lost = sum(map(len, self._check.damage))
            text += f"; {lost} damaged bytes of the log stay, fenced"
        yield RepairStep(text, self._prepare_start)

    def _log_steps(self) -> Iterator[RepairStep]:
        segments = find_segments(self._check.log_directories, self._files)
        usual = usual_size(segments)
        for segment in segments:
            if segment.size > usual:
                yield RepairStep(f"cut {segment.path} to {usual} bytes", self._cut(segment.path, usual))
        yield from self._stray_steps()

    def _stray_steps(self) -> Iterator[RepairStep]:
        for finding in self._problems:
            if finding.kind == "file" and finding.is_stray:
                yield RepairStep(f"set aside {finding.file}", self._moving(finding.file))

    def _queue_steps(self) -> Iterator[RepairStep]:
        for file in dict.fromkeys(finding.file for finding in self._problems if finding.kind == "entry"):
            if self._is_file(self._path(file)):
                yield RepairStep(f"keep a copy of {file}", self._copying(file))

    def _table_steps(self) -> Iterator[RepairStep]:
        tables = TableCheck(self._root, self._files)
        for finding in self._problems:
            if finding.kind != "table" or finding.file.endswith(JOURNAL):
                continue
            name = os.path.basename(finding.file)
            backup = name + BACKUP
            has_backup = not name.endswith(BACKUP) and self._files.exists(self._path(finding.file + BACKUP))
            if has_backup and not tables.unreadable(backup):
                yield RepairStep(f"restore {finding.file} from its backup", self._restoring(finding.file))
            else:
                yield RepairStep(f"set aside {finding.file}", self._moving(finding.file))

    def _journal_steps(self) -> Iterator[RepairStep]:
        for format in TABLE_FORMATS:
            journal = f"{CONFIG_NAME}/{format.name}{JOURNAL}"
            table = read_with_journal(Path(self._path(CONFIG_NAME)), format, self._files)
            if table is not None and self._files.exists(self._path(journal)):
                yield RepairStep(f"fold {journal} into its table", self._folding(journal, format))

    def _small_file_steps(self) -> Iterator[RepairStep]:
        for file in dict.fromkeys(finding.file for finding in self._problems if finding.kind == "checkpoint"):
            yield RepairStep(f"set aside {file}", self._moving(file))

    # --- how it is done

    def _is_file(self, path: str) -> bool:
        return self._files.exists(path) and S_ISREG(self._files.mode(path))

    def _path(self, file: str) -> str:
        return os.path.join(self._root, file)

    def _moving(self, file: str) -> Callable[[], None]:
        return lambda: self._aside.move(self._path(file))

    def _copying(self, file: str) -> Callable[[], None]:
        return lambda: self._aside.copy(self._path(file))

    def _restoring(self, file: str) -> Callable[[], None]:
        def restore() -> None:
            self._aside.move(self._path(file))
            replace_file(self._files, self._path(file), read_file(self._files, self._path(file + BACKUP), _MOST_BYTES))

        return restore

    def _folding(self, journal: str, format: TableFormat[Any, Any]) -> Callable[[], None]:
        def fold() -> None:
            self._aside.copy(self._path(journal))
            TableFile(Path(self._path(CONFIG_NAME)) / format.name, format, self._files).fold()

        return fold

    def _cut(self, path: str, length: int) -> Callable[[], None]:
        def cut() -> None:
            self._aside.copy(path)
            descriptor = self._files.open(path)
            try:
                self._files.ftruncate(descriptor, length)
                self._files.fdatasync(descriptor)
            finally:
                self._files.close(descriptor)

        return cut

    def _set_aside_index(self) -> None:
        self._aside.move(self._path(INDEX_NAME))
        self._aside.move(self._path(INDEX_CHECKPOINT_NAME))

    def _fence(self) -> None:
        """Keep records from the queues that they name by mistake: they would push others out of their places."""
        fences = Fences(Path(self._root), self._files)
        fences.load(self._check.log_start)
        for where in self._check.contradicted:
            fences.add(where.start, where.stop, self._check.log_directories[0])
        fences.save()

    def _prepare_start(self) -> None:
        """Say that the log is whole up to its last sound record, and that nothing has been dispatched."""
        checkpoints = CheckpointFiles(Path(self._root), self._files)
        checkpoint, position = checkpoints.read()
        if position is None:  # ours are older than what another broker wrote
            self._aside.move(self._path(QUEUES_NAME))
        if not self._files.exists(self._path(CHECKPOINT_NAME)):
            checkpoint = Checkpoint(self._check.last_timestamp_ms, self._check.last_timestamp_ms, 0)
        self._files.close(self._files.open(self._path(ABORT_NAME), create=True))
        checkpoints.write(checkpoint, Position(self._check.log_end, self._check.log_start))

    def _start(self) -> None:
        config = replace(self._config, root=Path(self._root), commit_log=Path(self._check.log_directories[0]))
        geometry: Geometry | None = self._check.index_geometry
        if geometry is not None:
            config = replace(config, max_hash_slots=geometry.slots, max_index_entries=geometry.entries)
        has_index, is_confirmed = self._check.has_index, self._files.exists(self._path(CONFIRMED_NAME))
        config = replace(config, message_index=has_index, shows_confirmed_only=is_confirmed)
        with MessageStore(config, self._now_ms, self._files):
            pass

    def _blank_what_is_left(self) -> None:
        """Blank the entries that still name no record: their messages had expired, or are lost."""
        for finding in StoreCheck(self._root, commit_log=self._check.log_directories).run():
            if finding.kind == "entry" and finding.severity is Severity.PROBLEM and finding.offset is not None:
                self._blank(self._path(finding.file), finding.offset)

    def _blank(self, path: str, offset: int) -> None:
        descriptor = self._files.open(path)
        try:
            write_all(self._files, descriptor, PRE_BLANK, offset)
            self._files.fdatasync(descriptor)
        finally:
            self._files.close(descriptor)
