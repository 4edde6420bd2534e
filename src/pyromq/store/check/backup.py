"""`backup`: copies a directory while its broker goes on, so that the copy is as a crash could have left it.

What says how far others can be trusted is copied before those: the small files and tables, then queues and index, the
log last. So a copy never has a promise whose bytes are missing, and the recovery of any start brings it in order. Its
mark `abort` makes sure that there is one. What is made again from the log anyway stays behind, and so does what was set
aside in `quarantine/`.

The copy grows under another name, `TO.part`, and gets its own when it is durable.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple

from pyromq.errors import StoreError
from pyromq.store.check.index_check import INDEX_NAME
from pyromq.store.check.table_check import CONFIG_NAME
from pyromq.store.files import FILE_MODE, OsFiles, ReadOnlyFiles, store_error, write_all
from pyromq.store.index.pending_table import DIRECTORY_NAME as TIMER_NAME
from pyromq.store.read.file_view import LOG_NAME, QUEUES_NAME, find_root, find_segments
from pyromq.store.recovery.directory import ABORT_NAME
from pyromq.store.recovery.formats import check_formats
from pyromq.store.small_files.checkpoint import CHECKPOINT_NAME, POSITION_NAME, CheckpointFiles
from pyromq.store.small_files.table_journal import JOURNAL

_PART: Final = ".part"
_LEFT_OUT: Final = ("lock", ABORT_NAME, TIMER_NAME, CHECKPOINT_NAME, POSITION_NAME)
_PIECE: Final = 1 << 20
_ATTEMPTS: Final = 100


class BackupSize(NamedTuple):
    """How much was copied, or would be."""

    files: int = 0
    bytes: int = 0
    """Without the holes that files of a fixed length have."""


class StoreBackup:
    """The copy of one directory; `size` grows with it."""

    def __init__(
        self,
        directory: str | Path,
        target: str | Path,
        *,
        commit_log: Sequence[str | Path] = (),
        files: OsFiles | None = None,
        on_progress: Callable[[BackupSize], None] = lambda size: None,
    ) -> None:
        """Look for the store; raises StoreError if there is none, or if something is at the target already."""
        self.size = BackupSize()
        self.target = Path(os.path.abspath(target))
        self._files = files or ReadOnlyFiles()
        self.root = find_root(str(directory), self._files)
        self._log_directories = [str(path) for path in commit_log] or [f"{self.root}/{LOG_NAME}"]
        self._part = self.target.with_name(self.target.name + _PART)
        self._on_progress = on_progress
        check_formats(Path(self.root), self._files)
        self._refuse()

    def _refuse(self) -> None:
        if self.target.exists() and any(self.target.iterdir() if self.target.is_dir() else [self.target]):
            raise StoreError(f"there is something in {self.target} already: name a directory that is new")
        if self._part.exists():
            raise StoreError(f"{self._part} is left from a backup that was not finished: remove it first")
        if self.target.is_relative_to(self.root):
            raise StoreError(f"{self.target} is inside the store: name a directory elsewhere")

    def measure(self) -> BackupSize:
        """Return how much would be copied now."""
        sizes = [self._measured(source) for source, _ in self._sources()]
        return BackupSize(len(sizes), sum(sizes))

    def run(self) -> BackupSize:
        """Copy everything; the backup is durable on return. Raises StoreError, and leaves nothing then."""
        try:
            try:
                self._copy_all()
            except BaseException:
                shutil.rmtree(self._part, ignore_errors=True)
                raise
        except OSError as error:
            raise store_error("back up to", str(self.target), error) from error
        return self.size

    def _copy_all(self) -> None:
        OsFiles().makedirs(str(self._part))
        (self._part / ABORT_NAME).touch(FILE_MODE)
        for source, name in self._sources():
            self._copy(source, name)
        files = OsFiles()
        files.sync_file_system(str(self._part))
        files.rename(str(self._part), str(self.target))
        files.sync_directory(str(self.target.parent))

    # --- what there is, in the order in which it is copied

    def _sources(self) -> Iterator[tuple[str, str]]:
        """Yield the path of every file, and its name in the copy; looks at a directory when its turn comes."""
        yield from self._small_files()
        for name in sorted(self._files_below(CONFIG_NAME), key=lambda name: (not name.endswith(JOURNAL), name)):
            yield f"{self.root}/{name}", name  # a journal before its table: see table_journal
        for directory in (QUEUES_NAME, INDEX_NAME):
            for name in sorted(self._files_below(directory)):
                yield f"{self.root}/{name}", name
        for segment in find_segments(self._log_directories, self._files):
            yield segment.path, f"{LOG_NAME}/{os.path.basename(segment.path)}"

    def _small_files(self) -> Iterator[tuple[str, str]]:
        yield f"{self.root}/{POSITION_NAME}", POSITION_NAME
        yield f"{self.root}/{CHECKPOINT_NAME}", CHECKPOINT_NAME
        for name in sorted(self._files.listdir(self.root)):
            if name not in _LEFT_OUT and os.path.isfile(f"{self.root}/{name}") and not name.endswith(".tmp"):
                yield f"{self.root}/{name}", name

    def _files_below(self, directory: str) -> Iterator[str]:
        for parent, _, names in os.walk(f"{self.root}/{directory}"):
            for name in names:
                if not name.endswith(".tmp"):
                    yield os.path.relpath(f"{parent}/{name}", self.root)

    # --- one file

    def _measured(self, source: str) -> int:
        try:
            with closing(_Opened(source, self._files)) as opened:
                return sum(stop - start for start, stop in self._files.data_ranges(opened.descriptor, 0))
        except FileNotFoundError:
            return 0

    def _copy(self, source: str, name: str) -> None:
        if name == CHECKPOINT_NAME:
            self._copy_with_position(source)
        elif self._copy_bytes(source, name):
            self._count(name)

    def _copy_with_position(self, source: str) -> None:
        """Copy the checkpoint so that the position in the copy counts with it, as it does here.

        The broker replaces them one after the other. With a position that does not count, the copy would look as if
        another program had written the log.
        """
        for _ in range(_ATTEMPTS):
            if not self._copy_bytes(source, CHECKPOINT_NAME):
                return
            copy = CheckpointFiles(self._part, OsFiles())
            if copy.read()[1] is not None or CheckpointFiles(Path(self.root), self._files).read()[1] is None:
                break
            self._copy_bytes(f"{self.root}/{POSITION_NAME}", POSITION_NAME)
        else:
            raise StoreError(f"{source} changes all the time: try again")
        self._count(CHECKPOINT_NAME)

    def _copy_bytes(self, source: str, name: str) -> bool:
        """Copy a file with its holes and its times; return False if it is gone by now."""
        target = self._part / name
        OsFiles().makedirs(str(target.parent))
        try:
            opened = _Opened(source, self._files)
        except FileNotFoundError:
            return False
        files = OsFiles()
        with closing(opened), closing(_Opened(str(target), files, create=True)) as copy:
            length = os.fstat(opened.descriptor).st_size
            files.ftruncate(copy.descriptor, 0)
            files.ftruncate(copy.descriptor, length)
            for start, stop in self._files.data_ranges(opened.descriptor, 0):
                for position in range(start, min(stop, length), _PIECE):
                    piece = self._files.pread(opened.descriptor, min(_PIECE, stop - position), position)
                    write_all(files, copy.descriptor, piece, position)
            status = os.fstat(opened.descriptor)
            os.fchmod(copy.descriptor, status.st_mode & 0o777)
            os.utime(copy.descriptor, ns=(status.st_atime_ns, status.st_mtime_ns))  # files expire by it
        return True

    def _count(self, name: str) -> None:
        written = (self._part / name).stat().st_blocks * 512
        self.size = BackupSize(self.size.files + 1, self.size.bytes + written)
        self._on_progress(self.size)


class _Opened:
    """A descriptor that is closed."""

    def __init__(self, path: str, files: OsFiles, *, create: bool = False) -> None:
        self.descriptor = files.open(path, create=create)
        self._files = files

    def close(self) -> None:
        self._files.close(self.descriptor)
