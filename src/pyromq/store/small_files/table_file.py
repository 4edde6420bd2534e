"""TableFile: a large table on disk, as a JSON file and the journal of what changed since that was written.

    append    a change becomes durable by a few bytes in the journal
    save      now and then the whole table is written, also to its backup …
    cut       … and what it contains is dropped from the journal

Both files are then as new as the table was when it was saved, so that either of them and the journal are complete.
Appending goes on while a table is being saved; appending and cutting exclude each other. After a failed write nobody
knows what the journal holds. Nothing is appended to it any more, and the next save begins a new one.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Generic, TypeVar

from pyromq.errors import ConfigError
from pyromq.store.files import OsFiles, ReadOnlyFiles, make_directories, read_file, replace_file
from pyromq.store.small_files.json_file import JsonFile, sealed
from pyromq.store.small_files.table_formats import TableFormat
from pyromq.store.small_files.table_journal import (
    JOURNAL,
    Journal,
    JournalMark,
    JournalWriter,
    check_journal,
    marked,
    new_journal_id,
    read_journal,
    unmarked,
)

T = TypeVar("T")
R = TypeVar("R")
logger = logging.getLogger(__name__)

_SET_ASIDE: Final = ".old"


class TableFile(Generic[T, R]):
    """One table with its journal; load() first. Calls that write block on the disk."""

    def __init__(self, path: Path, format: TableFormat[T, R], files: OsFiles | None = None) -> None:
        self.path = path
        self.format = format
        self.number = 0
        """The number of the last record, in the table or in the journal; set by load()."""
        self.size = 0
        """How many bytes the table has."""
        self.folded = self.damaged = 0
        """How many records of the journal load() folded in, and how many lines it could not read."""
        self.is_foreign = False
        """Whether load() found a journal that belongs to another table."""
        self._files = files or OsFiles()
        self._json = JsonFile(path, self._files)
        self._journal_path = str(path) + JOURNAL
        self._journal = ""
        self._writer: JournalWriter | None = None
        self._usable_after: int | None = None
        """The journal can be used when the table contains this record; None if it can be used now."""

    @property
    def is_older(self) -> bool:
        """Whether load() took the backup: what another broker changed last may be missing."""
        return self._json.is_older

    @property
    def needs_whole(self) -> bool:
        """Whether nothing can be appended before the whole table is saved."""
        return not self._journal or self.has_old_journal

    @property
    def has_old_journal(self) -> bool:
        """Whether there is a journal that cannot be appended to: it is from an earlier run, or a write failed."""
        return self._usable_after is not None

    @property
    def needs_rewrite(self) -> bool:
        """Whether there is a table, and writing it anew would let changes be appended."""
        return self.size > 0 and self.needs_whole

    @property
    def journal_size(self) -> int:
        """How many bytes the journal has."""
        return self._writer.size if self._writer is not None else 0

    # --- reading

    def load(self) -> T | None:
        """Return the table with its journal folded in, None if there is none.

        Raises ConfigError if it is unreadable, UnknownFormat if a later release has written the journal.
        """
        data = self._read_journal()  # before the table: see table_journal
        check_journal(data, self._journal_path)
        table, mark = self._json.load(self._decode) or (None, None)
        if mark is not None:
            self._journal, self.number = mark
        if data:
            self._take_in(table, read_journal(data, self._journal))
        return table

    def _read_journal(self) -> bytes:
        try:
            return read_file(self._files, self._journal_path, self._files.size(self._journal_path))
        except FileNotFoundError:
            return b""

    def _decode(self, text: bytes) -> tuple[T, JournalMark | None]:
        self.size = len(text)
        return self.format.decode(text), unmarked(text)[1]

    def _take_in(self, table: T | None, journal: Journal) -> None:
        self.is_foreign = table is None or not self._journal or journal.is_foreign
        if table is None or self.is_foreign:
            logger.warning("a journal is left out because it belongs to another table file=%s", self._journal_path)
        else:
            self._fold(table, journal)
        self._usable_after = self.number

    def _fold(self, table: T, journal: Journal) -> None:
        self.damaged = journal.damaged
        for text in journal.records:
            try:
                record = self.format.decode_record(text)
            except ValueError:
                self.damaged += 1
                continue
            if record.number > self.number:
                self.format.apply(table, record)
                self.number = record.number
                self.folded += 1
        if self.damaged:
            logger.error("lines of a journal are damaged file=%s count=%d", self._journal_path, self.damaged)
        if self.folded:
            logger.info("folded a journal into its table file=%s records=%d", self.path, self.folded)

    # --- writing

    def save(self, text: bytes, number: int) -> None:
        """Replace table and backup; durable on return. `text` contains all records up to `number`."""
        for directory in make_directories(self._files, str(self.path.parent)):
            self._files.sync_directory(directory)
        journal = self._journal or new_journal_id()
        text = sealed(marked(text, JournalMark(journal, number)))
        replace_file(self._files, str(self.path) + ".bak", text)
        replace_file(self._files, str(self.path), text)
        self._journal, self.size = journal, len(text)

    def append(self, records: Sequence[tuple[int, bytes]]) -> None:
        """Add records with their numbers to the journal; durable on return."""
        self.number = records[-1][0]
        if self._writer is None:
            self._writer = JournalWriter(self._journal_path, self._journal, self._files)
        try:
            self._writer.append(records)
        except OSError:
            if not self._writer.is_sound:
                self._give_up()
            raise

    def cut(self, number: int) -> None:
        """Drop from the journal what the table on disk contains, that is all records up to `number`."""
        try:
            if self._usable_after is not None and number >= self._usable_after:
                self._drop_journal()
            elif self._writer is not None:
                self._writer.cut(number)
        except OSError:
            self._give_up()
            raise

    def fold(self) -> None:
        """Load the table and write it with its journal folded in; for a directory in which no broker is at work."""
        table = self.load()
        if table is not None:
            self.save(self.format.print_table(table), self.number)
            self.cut(self.number)
            self._files.sync_directory(str(self.path.parent))

    def close(self) -> None:
        """Close the journal; it is gone for good if it is empty."""
        if self._writer is None:
            return
        self._writer.close()
        if self._writer.is_empty:
            if self._files.exists(self._journal_path):  # its creation failed
                self._files.unlink(self._journal_path)
            self._files.sync_directory(str(self.path.parent))
        self._writer = None

    def _drop_journal(self) -> None:
        """Drop a journal that cannot be appended to; keep one that belongs to another table under another name."""
        if self._files.exists(self._journal_path):
            if self.is_foreign:
                self._files.rename(self._journal_path, self._journal_path + _SET_ASIDE)
            else:
                self._files.unlink(self._journal_path)
        self._usable_after = None
        self.is_foreign = False

    def _give_up(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        self._usable_after = self.number


class ReadOnlyTable(TableFile[T, R]):
    """A table that is read and never written: changes to it last as long as the process."""

    def __init__(self, path: Path, format: TableFormat[T, R], files: OsFiles | None = None) -> None:
        super().__init__(path, format, files or ReadOnlyFiles())

    def load(self) -> T | None:
        """Return the table; None, with a warning, where it cannot be read."""
        try:
            return super().load()
        except ConfigError as error:
            logger.warning("table left out: %s", error)
            return None

    @property
    def needs_whole(self) -> bool:
        """Whether something must be written, which is never so."""
        return False

    @property
    def has_old_journal(self) -> bool:
        """Whether a journal must be removed, which is never so."""
        return False

    def save(self, text: bytes, number: int) -> None:
        """Keep nothing."""

    def append(self, records: Sequence[tuple[int, bytes]]) -> None:
        """Keep nothing."""

    def cut(self, number: int) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


def read_table(directory: Path, format: TableFormat[T, R], files: OsFiles | None = None) -> T | None:
    """Return a table of a `config` directory that belongs to somebody else; None if there is none to be read."""
    return ReadOnlyTable(directory / format.name, format, files).load()


def read_with_journal(directory: Path, format: TableFormat[T, R], files: OsFiles) -> TableFile[T, R] | None:
    """Return a table that was loaded, for what it knows of its journal; None if the table cannot be read."""
    file = ReadOnlyTable(directory / format.name, format, files)
    return None if file.load() is None else file
