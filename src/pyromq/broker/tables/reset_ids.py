"""ResetIds: which reset of a group's offsets was the last one, by a random id.

    {"orders@billing":"5f0c9a17d2e4"}      pyromq.resets, beside the log

A reset is whatever takes an offset back or away: an operator's, a commit below the one before, a deletion. A slave
copies the ids with the offsets. What clients committed there while it was cut off counts for its master only if both
have the same id: otherwise the group was reset after the slave last heard of it, and the commit is older than that.
Ids are equal or not, and have no order, so it does not matter which broker made them. They survive restarts of both.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from concurrent.futures import Executor
from pathlib import Path
from typing import Final

import msgspec

from pyromq.broker.tables.saver import Saver
from pyromq.store.files import OsFiles
from pyromq.store.small_files.sealed_file import read_sealed, replace_sealed

RESETS_NAME: Final = "pyromq.resets"
NEVER: Final = "0"
"""The id of rows that were not reset."""
_MOST: Final = 20_000
"""Rows whose last reset is remembered; the oldest are forgotten first."""


class ResetIds:
    """The last reset of each row of the committed offsets, as `topic@group`; saved with these."""

    def __init__(
        self,
        root: Path,
        files: OsFiles | None = None,
        executor: Executor | None = None,
        *,
        read_only: bool = False,
        most: int = _MOST,
    ) -> None:
        self._file = _ResetFile(root / RESETS_NAME, files or OsFiles())
        self._read_only = read_only
        self._most = most
        self.is_copy = False
        """Whether this broker is a slave: what goes back there is no reset, its master's offset counts."""
        self._ids: dict[str, str] = {}  # the latest last
        self._is_changed = False
        self.saver = Saver(self._file, lambda: dict(self._ids), msgspec.json.encode, executor)

    def load(self) -> None:
        """Read the file, replacing what is in memory."""
        self._ids = self._file.load()

    def of(self, key: str) -> str:
        """Return the id of a row's last reset."""
        return self._ids.get(key, NEVER)

    def of_all(self, keys: Iterable[str]) -> dict[str, str]:
        """Return the ids of some rows; those that were not reset are left out."""
        return {key: self._ids[key] for key in keys if key in self._ids}

    @property
    def keys(self) -> list[str]:
        """All rows that were reset, also those that are gone."""
        return list(self._ids)

    def note(self, key: str) -> None:
        """A row is reset now, if this broker is master."""
        if not self.is_copy:
            self._put(key, secrets.token_hex(6))

    def adopt(self, ids: Mapping[str, str]) -> None:
        """Take over the ids of some rows from a master."""
        for key, found in ids.items():
            if self._ids.get(key) != found:
                self._put(key, found)

    def adopt_all(self, ids: Mapping[str, str]) -> None:
        """Take over all that a master has."""
        if self._ids != ids:
            self._ids = dict(ids)
            self._is_changed = True

    def save_if_changed(self) -> None:
        """Ask for a save if something has changed since the last one, or that failed."""
        if self._is_changed and not self._read_only:
            self._is_changed = False
            self.saver.request()
        self.saver.retry()

    def _put(self, key: str, found: str) -> None:
        self._ids.pop(key, None)
        self._ids[key] = found
        self._is_changed = True
        if len(self._ids) > self._most:
            del self._ids[next(iter(self._ids))]


class _ResetFile:
    def __init__(self, path: Path, files: OsFiles) -> None:
        self.path = path
        self._files = files

    def load(self) -> dict[str, str]:
        """Return what is in the file; nothing if there is none, or it is damaged: then it is known of no reset."""
        return read_sealed(self._files, str(self.path), dict[str, str]) or {}

    def save(self, text: bytes) -> None:
        """Replace it, durably."""
        replace_sealed(self._files, str(self.path), msgspec.Raw(text))
