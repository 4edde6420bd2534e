"""The directory `index/` of a store: which files are there, making the next one, removing the oldest."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyromq.store.files import OsFiles, make_directories, read_file
from pyromq.store.index.index_checkpoint import IndexCheckpointFile
from pyromq.store.index.index_file import HEADER, NAME_LENGTH, Geometry, IndexFile, IndexHeader, last_hashes
from pyromq.store.recovery.quarantine import SetAside
from pyromq.store.segments import DirtyFiles

if TYPE_CHECKING:
    from pyromq.store.index.index_writer import IndexWriter

logger = logging.getLogger(__name__)

INDEX_NAME: Final = "index"
_READ: Final = 256 << 10


class IndexDirectory:
    """Files by name, oldest first; their layout is the one they were made with."""

    def __init__(self, root: Path, geometry: Geometry, files: OsFiles) -> None:
        self.geometry = geometry
        self.files = files
        self.changed = DirtyFiles()
        self.mark = IndexCheckpointFile(root, files)
        self._quarantine = SetAside(str(root.absolute()), files)
        self.path = str((root / INDEX_NAME).absolute())

    def file_path(self, number: int) -> str:
        """Return the path of a file."""
        return f"{self.path}/{number:0{NAME_LENGTH}d}"

    def list(self) -> list[IndexFile]:
        """Return the files that are there, whatever is in them; other names are left alone."""
        try:
            names = sorted(self.files.listdir(self.path))
        except FileNotFoundError:
            return []
        good = [name for name in names if len(name) == NAME_LENGTH and name.isascii() and name.isdigit()]
        for name in set(names) - set(good):
            logger.warning("left alone what is no index file file=%s/%s", self.path, name)
        return [self._read(int(name)) for name in good]

    def _read(self, number: int) -> IndexFile:
        path = self.file_path(number)
        return IndexFile(path, number, IndexHeader.unpack(read_file(self.files, path, HEADER.size)))

    def has_right_size(self, file: IndexFile) -> bool:
        """Tell whether a file has the length that its layout gives it."""
        return self.files.size(file.path) == self.geometry.file_size

    def writer(self, file: IndexFile) -> IndexWriter:
        """Open a file to put keys into it, or to mend it; the caller says how it is loaded."""
        from pyromq.store.index.index_writer import IndexWriter  # numpy: only where keys are written

        return IndexWriter(file.path, file.number, self.geometry, self.files)

    def create(self, number: int) -> IndexWriter:
        """Make a file; raises OSError and leaves nothing behind if that fails."""
        from pyromq.store.index.index_writer import IndexWriter

        self.changed.add_directories(self.path, *make_directories(self.files, self.path))
        return IndexWriter(self.file_path(number), number, self.geometry, self.files, create=True)

    def fetch_slots(self, file: IndexFile) -> None:
        """Have the system read the slots of a file into its memory; raises OSError."""
        descriptor = self.files.open(file.path)
        try:
            for position in range(0, self.geometry.entries_start, _READ):
                self.files.pread(descriptor, min(_READ, self.geometry.entries_start - position), position)
        finally:
            self.files.close(descriptor)

    def last_hashes(self, file: IndexFile) -> Sequence[int]:
        """Return the hashes of the keys of a file's last message; raises OSError."""
        descriptor = self.files.open(file.path)
        try:
            return last_hashes(self.files, descriptor, self.geometry, file.header)
        finally:
            self.files.close(descriptor)

    def remove(self, file: IndexFile) -> None:
        """Remove a file whose keys are no longer needed, or are about to be indexed again."""
        self.files.unlink(file.path)
        self.changed.add_directories(self.path)

    def set_aside(self, file: IndexFile) -> None:
        """Move a file that cannot be used out of the way, for someone to look at."""
        self._quarantine.move(file.path)
        self.changed.add_directories(self.path)
        logger.warning("set aside an index file that cannot be used, its keys are indexed again file=%s", file.path)
