"""`pyromq.timer/pending.db`: where in the log the messages are that wait for a time, ordered by that time.

    pending   due_ms, physical_offset            a tree in this order: the next ones due are its first leaves
    progress  queue_offset, position, count      how far the table agrees with the log, and how many wait

The format's number is SQLite's `user_version`, and once more its `application_id`: SQLite has no checksum, and a
flipped bit is no later release.

It is an SQLite file: ten million messages are some 200 MB on disk and 4 MB in memory. Nothing in it is the only copy:
the log holds the messages, and whoever finds this file missing or damaged makes it again from the log. So it need not
be synced at every change, but it must never be ahead of the log: save() is for what the log has flushed.

Rows come and go by the thousand in one statement each, as JSON: a statement for each row would ask for the
interpreter's lock as often, and wait for it 5 ms each time that the loop is busy.
"""

from __future__ import annotations

import json
import logging
import shutil
import sqlite3
import struct
import tempfile
import threading
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from msgspec import Struct

from pyromq.errors import CorruptRecord, DiskFull, StoreError, UnknownFormat
from pyromq.store.files import OsFiles, make_directories, read_file

logger = logging.getLogger(__name__)

DIRECTORY_NAME: Final = "pyromq.timer"
FILE_NAME: Final = "pending.db"
_FORMAT: Final = 1
_UNFINISHED: Final = 0  # SQLite's number for a new file; the file beside it may have more
_CACHE_KB: Final = 4096
_FULL: Final = 13  # SQLITE_FULL

_SCHEMA: Final = """
CREATE TABLE pending (due_ms INTEGER, physical_offset INTEGER, PRIMARY KEY (due_ms, physical_offset)) WITHOUT ROWID;
CREATE TABLE progress (queue_offset INTEGER, position INTEGER, count INTEGER);
INSERT INTO progress VALUES (-1, -1, 0);
"""
_INSERT: Final = "INSERT OR IGNORE INTO pending SELECT value, CAST(key AS INTEGER) FROM json_each(?)"
_DELETE: Final = (
    "DELETE FROM pending WHERE (due_ms, physical_offset) IN (SELECT value, CAST(key AS INTEGER) FROM json_each(?))"
)
_SELECT: Final = "SELECT json_group_array(json_array(due_ms, physical_offset)) FROM (SELECT * FROM pending"
_IN_ORDER: Final = "(due_ms, physical_offset) > (?, ?) ORDER BY due_ms, physical_offset LIMIT ?)"


class Pending(NamedTuple):
    """A message that waits: until when, and where in the log it is."""

    due_ms: int
    physical_offset: int


BEFORE_ALL: Final = Pending(-1, -1)


class PendingProgress(Struct, frozen=True):
    """How far the table agrees with the log: all that was stored before, and all that was done with it, is in it."""

    queue_offset: int
    """Messages of the timer's queue before this one are in the table."""
    position: int
    """Deliveries before this place of the log are no longer in it."""


class PendingTable:
    """Messages in order of their time; every method may wait for the disk, and any thread may call it."""

    def __init__(self, root: Path, files: OsFiles | None = None) -> None:
        self.count = 0
        """How many messages are in it."""
        self._directory = root / DIRECTORY_NAME
        self._files = files or OsFiles()
        self._guard = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    def open(self) -> PendingProgress | None:
        """Open the file if there is one; return its progress, None where the table has to be made from the log."""
        if not self._files.exists(str(self._directory / FILE_NAME)):
            return None
        try:
            with self._translated():
                self._connect()
                return self._read_progress()
        except CorruptRecord as error:
            logger.warning("the timer's table is damaged and is made again from the log: %s", error)
            self.reset()
            return None

    def reset(self) -> None:
        """Remove the file: it is made again by the first save()."""
        self.close()
        for name in (FILE_NAME, f"{FILE_NAME}-wal", f"{FILE_NAME}-shm"):
            with suppress(FileNotFoundError):
                self._files.unlink(str(self._directory / name))
        self.count = 0

    def close(self) -> None:
        """Close the file, if it is open."""
        with self._guard:
            connection, self._connection = self._connection, None
            if connection is not None:
                with suppress(sqlite3.Error):  # what was not saved is found in the log
                    connection.close()

    # --- changes

    def save(self, begun: Iterable[Pending], ended: Iterable[Pending], progress: PendingProgress) -> None:
        """Take in what waits since the last time, drop what has ended, all or nothing; raises StoreError."""
        with self._translated(), self._guard:
            connection = self._connection or self._create()
            with _transaction(connection):
                added = connection.execute(_INSERT, (_as_json(begun),)).rowcount
                removed = connection.execute(_DELETE, (_as_json(ended),)).rowcount
                count = self.count + added - removed
                connection.execute(
                    "UPDATE progress SET queue_offset = ?, position = ?, count = ?",
                    (progress.queue_offset, progress.position, count),
                )
            self.count = count

    # --- looking

    def due(self, after: Pending, until_ms: int, limit: int) -> list[Pending]:
        """Return the next messages after one, in order, that are due up to a time."""
        return self._select(f"{_SELECT} WHERE due_ms <= ? AND {_IN_ORDER}", (until_ms, *after, limit))

    def stored_before(self, physical_offset: int, after: Pending, limit: int) -> list[Pending]:
        """Return the next messages after one, in order of their time, that are in the log before a place."""
        return self._select(f"{_SELECT} WHERE physical_offset < ? AND {_IN_ORDER}", (physical_offset, *after, limit))

    def __contains__(self, message: Pending) -> bool:
        return message in self._select(
            f"{_SELECT} WHERE due_ms = ? AND physical_offset = ? AND {_IN_ORDER}", (*message, *BEFORE_ALL, 1)
        )

    def first_offset(self) -> int | None:
        """Return the first place of the log that a message waits in; it looks at all of them, a second for millions."""
        with self._translated(), self._guard:
            if self._connection is None:
                return None
            found: int | None = self._connection.execute("SELECT min(physical_offset) FROM pending").fetchone()[0]
            return found

    def _select(self, statement: str, values: tuple[int, ...]) -> list[Pending]:
        with self._translated(), self._guard:
            if self._connection is None:
                return []
            (text,) = self._connection.execute(statement, values).fetchone()
        return [Pending(*row) for row in json.loads(text)]

    # --- the file

    def _create(self) -> sqlite3.Connection:
        for directory in make_directories(self._files, str(self._directory)):
            self._files.sync_directory(directory)
        return self._connect()

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._directory / FILE_NAME, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")  # whole after a power cut, perhaps a few seconds old
            connection.execute(f"PRAGMA cache_size = -{_CACHE_KB}")
            (found,) = connection.execute("PRAGMA user_version").fetchone()
            (copy,) = connection.execute("PRAGMA application_id").fetchone()
            if found == _UNFINISHED:
                numbers = f"PRAGMA user_version = {_FORMAT}; PRAGMA application_id = {_FORMAT};"
                connection.executescript(f"BEGIN; {_SCHEMA} {numbers} COMMIT;")
            else:
                _check_format(str(self._directory / FILE_NAME), found, copy)
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        return connection

    def _read_progress(self) -> PendingProgress | None:
        assert self._connection is not None
        row = self._connection.execute("SELECT queue_offset, position, count FROM progress").fetchone()
        if row is None:
            raise CorruptRecord("it does not say how far it goes")
        queue_offset, position, self.count = row
        return PendingProgress(queue_offset, position) if position >= 0 else None

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            kind = DiskFull if getattr(error, "sqlite_errorcode", None) == _FULL else StoreError
            raise kind(f"cannot use the timer's table in {self._directory}: {error}") from error
        except sqlite3.DatabaseError as error:
            raise CorruptRecord(f"the timer's table in {self._directory} is damaged: {error}") from error
        except OSError as error:
            raise StoreError(f"cannot use the timer's table in {self._directory}: {error.strerror}") from error


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):  # SQLite has done it already, or cannot
            connection.execute("ROLLBACK")
        raise


def _as_json(messages: Iterable[Pending]) -> str:
    """Write messages in the order of the tree, so that those in one leaf come one after the other."""
    return json.dumps({offset: due_ms for due_ms, offset in sorted(messages)})


_NUMBERS: Final = struct.Struct(">60xI4xI")  # where SQLite's header has user_version and application_id


def check_pending_format(root: Path, files: OsFiles) -> None:
    """Raise UnknownFormat if a later release has written the file, without opening the database."""
    path = str(root / DIRECTORY_NAME / FILE_NAME)
    header = read_file(files, path, _NUMBERS.size)
    if len(header) == _NUMBERS.size:
        with suppress(CorruptRecord):  # whoever opens it makes it again
            _check_format(path, *_NUMBERS.unpack(header))


def _check_format(path: str, found: int, copy: int) -> None:
    """Raise UnknownFormat, or CorruptRecord where the two copies of a number that is not ours differ."""
    if found in (_FORMAT, _UNFINISHED):
        return
    if found != copy:
        raise CorruptRecord(f"it has the formats {found} and {copy}, this release has {_FORMAT}")
    raise UnknownFormat(path, found, _FORMAT)


_BESIDE: Final = ("", "-wal")
_SELECT_PROGRESS: Final = "SELECT count, queue_offset FROM progress"


def count_pending(root: Path, first: int, end: int, *, is_live: bool) -> int:
    """Return how many of a timer's queue, which has these offsets, wait; what ended in the last seconds counts still.

    Without the timer's table all that the queue has count: only a broker can tell which of them were delivered.
    """
    path = root / DIRECTORY_NAME / FILE_NAME
    try:
        saved = (_read_progress_row(path) if is_live else _read_progress_copy(path)) if path.exists() else None
    except (sqlite3.Error, OSError) as error:
        logger.warning("the timer's table cannot be read file=%s: %s", path, error)
        saved = None
    if saved is None:
        return end - first
    count, queue_offset = saved
    return count + max(end - max(queue_offset, first), 0)


def _read_progress_row(path: Path) -> tuple[int, int] | None:
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        row: tuple[int, int] | None = connection.execute(_SELECT_PROGRESS).fetchone()
    return row


def _read_progress_copy(path: Path) -> tuple[int, int] | None:
    # SQLite would finish what a killed broker left in the file beside it: not in a directory that is only looked at.
    with tempfile.TemporaryDirectory(prefix="pyromq-") as directory:
        for ending in _BESIDE:
            source = path.with_name(path.name + ending)
            if source.exists():
                shutil.copyfile(source, Path(directory) / source.name)
        return _read_progress_row(Path(directory) / path.name)
