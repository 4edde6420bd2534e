"""The journal of a table: the rows that changed since the table was written.

    topics.json           …, "pyromqJournal":"5f3a9c21d4e0b7aa:42", "pyromqCrc32":"0d5e1a2b"}
    topics.json.journal   2c1f09ab {"journal":"5f3a9c21d4e0b7aa","format":1}
                          77d0e3c5 {"number":43,"rows":{"orders":{"perm":6,…}},"version":{"timestamp":…,"counter":8}}
                          19ab44f0 {"number":44,"removed":["old"],"version":{"timestamp":…,"counter":9}}

Each line is a record: the CRC-32 of the journal's id and of the text, a blank, the text. Records are numbered in the
order of the changes. The table names its journal and the last record that it contains (its mark), so:

- A record counts only if its number is greater than the table's. A journal that outlives the table it was folded into,
  because a crash came in between, changes nothing.
- A journal counts only for a table that names it. Other brokers leave out the member when they write a table, and a
  table that was copied from elsewhere names another journal.
- A row is written whole, or tells only what changed in it (committed offsets). Applied twice, it has the same effect.
- A line that is not whole is passed over. At the end of the file that is what a crash leaves of an unfinished write,
  and nobody was told that it was saved.

Whoever reads both files while a broker writes them reads the journal first: the broker writes a table before it drops
the records that the table contains.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Sequence
from typing import Final, Generic, NamedTuple, TypeVar
from zlib import crc32

import msgspec
from msgspec import Struct, field

from pyromq.errors import UnknownFormat
from pyromq.protocol.bodies import DataVersion
from pyromq.store.files import OsFiles, replace_file, write_all

JOURNAL: Final = ".journal"
"""What a journal's name has on top of its table's."""

R = TypeVar("R")

_FORMAT: Final = 1

_MARK: Final = re.compile(rb',\s*"pyromqJournal":"([0-9a-f]{16}):([0-9]{1,18})"\s*\}$')
_LINE: Final = re.compile(rb"([0-9a-f]{8}) (\{.*\})", re.DOTALL)


class _Header(Struct):
    """What the first line says."""

    journal: str = ""
    format: int = 1


class JournalRecord(Struct, Generic[R], omit_defaults=True, kw_only=True):
    """What changed at one time: rows that are gone, then rows that are new or different."""

    number: int
    removed: list[str] = field(default_factory=list)
    rows: dict[str, R] = field(default_factory=dict)
    version: DataVersion | None = None
    """The version of the table after the change; None for tables without one."""


class JournalMark(NamedTuple):
    """What a table says about its journal: its id, and the last record that the table contains."""

    journal: str
    number: int


def new_journal_id() -> str:
    """Return an id that no other journal has."""
    return secrets.token_hex(8)


# --- the member of the table


def marked(text: bytes, mark: JournalMark) -> bytes:
    """Return the text of a table with its mark."""
    body = text.rstrip().removesuffix(b"}").rstrip()
    return body + b',\n\t"pyromqJournal":"%s:%d"\n}' % (mark.journal.encode(), mark.number)


def unmarked(text: bytes) -> tuple[bytes, JournalMark | None]:
    """Return the text of a table without its mark, and the mark; None if it has none."""
    found = _MARK.search(text.rstrip())
    if found is None:
        return text, None
    return text[: found.start()] + b"}", JournalMark(found[1].decode(), int(found[2]))


# --- reading


class Journal(NamedTuple):
    """A journal as it was read."""

    records: list[bytes]
    """The texts of its records in order."""
    damaged: int
    """How many lines before the last good one cannot be read."""
    is_foreign: bool
    """Whether it is the journal of another table."""


def read_journal(data: bytes, journal: str) -> Journal:
    """Read the journal with an id; lines that cannot be read are left out."""
    records: list[bytes] = []
    bad = damaged = 0
    first, *lines = data.split(b"\n")
    for line in lines:
        text = _text(line, journal)
        if text is None:
            bad += 1
        else:
            damaged, bad = damaged + bad, 0
            records.append(text)
    return Journal(records, damaged, not records and _header_in(first).journal not in ("", journal))


def check_journal(data: bytes, path: str) -> None:
    """Raise UnknownFormat if a later release has written a journal, which begins with these bytes."""
    header = _header_in(data.split(b"\n", 1)[0])
    if header.format != _FORMAT:
        raise UnknownFormat(path, header.format, _FORMAT)


def _header_in(line: bytes) -> _Header:
    """Return what the first line of a journal says; an empty id if it cannot be read."""
    found = _LINE.fullmatch(line)
    try:
        header = msgspec.json.decode(found[2], type=_Header) if found else _Header()
    except ValueError:  # msgspec's own is one
        return _Header()
    return header if _text(line, header.journal) else _Header()


def _text(line: bytes, journal: str) -> bytes | None:
    found = _LINE.fullmatch(line)
    return found[2] if found is not None and int(found[1], 16) == crc32(found[2], crc32(journal.encode())) else None


# --- writing


class JournalWriter:
    """Appends to a journal that it creates. If an OSError leaves it unsound, what is on disk is unknown."""

    def __init__(self, path: str, journal: str, files: OsFiles) -> None:
        self._path = path
        self._files = files
        self._journal = journal
        self._seed = crc32(journal.encode())
        self._descriptor: int | None = None
        self._lines: list[tuple[int, bytes]] = []
        self.size = 0
        """How many bytes it has; 0 if there is no file."""
        self.is_sound = True

    @property
    def is_empty(self) -> bool:
        """Whether no record is left that was saved here."""
        return not self._lines

    def append(self, records: Sequence[tuple[int, bytes]]) -> None:
        """Add records, each with its number; durable on return."""
        lines = [(number, self._line(text)) for number, text in records]
        data = b"".join(line for _, line in lines)
        if self._descriptor is None:
            self._create(self._header() + data)
        else:
            self._write(self._descriptor, data)
        self._lines += lines

    def _create(self, data: bytes) -> None:
        descriptor = self._files.open(self._path, create=True)
        try:
            self._files.ftruncate(descriptor, 0)
            self._write(descriptor, data)
            self._files.sync_directory(os.path.dirname(self._path))
        except OSError:
            self.size = 0  # nothing in it was saved yet: the next attempt begins at the start
            self._files.close(descriptor)
            raise
        self._descriptor = descriptor

    def _write(self, descriptor: int, data: bytes) -> None:
        self.is_sound = False
        try:
            write_all(self._files, descriptor, data, self.size)
        except OSError:
            self._files.ftruncate(descriptor, self.size)
            self.is_sound = True  # there was no room, and it is as before
            raise
        self._files.fdatasync(descriptor)
        self.is_sound = True
        self.size += len(data)

    def cut(self, number: int) -> None:
        """Drop the records up to a number: the table on disk contains them."""
        rest = [line for line in self._lines if line[0] > number]
        if len(rest) == len(self._lines):
            return
        if rest:
            data = self._header() + b"".join(line for _, line in rest)
            replace_file(self._files, self._path, data)
            self.close()
            self._descriptor, self.size = self._files.open(self._path), len(data)
        else:
            self._files.unlink(self._path)
            self.close()
        self._lines = rest

    def close(self) -> None:
        """Close the file; it stays."""
        if self._descriptor is not None:
            self._files.close(self._descriptor)
            self._descriptor = None
            self.size = 0

    def _header(self) -> bytes:
        return self._line(msgspec.json.encode(_Header(self._journal, _FORMAT)))

    def _line(self, text: bytes) -> bytes:
        return b"%08x %s\n" % (crc32(text, self._seed), text)
