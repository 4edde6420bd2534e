"""Epochs: whose messages a log holds. Each time a broker becomes master, an epoch begins where its log ends.

    {"store": "9f2c…", "epochs": [[1, "5be0…", 0], [2, "c41d…", 73400]]}      pyromq.epochs, beside the log

An epoch has a number, an id that chance has made, so that two masters started by hand never look alike, and the offset
of its first byte. Up to the first epoch in which they differ, the logs of two brokers are one history: the later of the
two beginnings, or the end of the shorter log, is where the common part ends. The store's own id tells a directory from
a new one in its place.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from pyromq.protocol.bodies.replication import Epoch
from pyromq.store.files import OsFiles, make_directories
from pyromq.store.small_files.sealed_file import read_sealed, replace_sealed

logger = logging.getLogger(__name__)

EPOCHS_NAME: Final = "pyromq.epochs"


class _Content(Struct):
    store: str
    epochs: list[Epoch] = []
    led: str = ""
    """The id of the last epoch that began here."""
    role: str = ""
    """The role of the master whose history this is."""


class EpochFile:
    """The history of one store; each change is durable on return, and raises OSError where it cannot be."""

    def __init__(self, root: Path, files: OsFiles | None = None) -> None:
        self._files = files or OsFiles()
        self._root = str(root)
        self._path = str(root / EPOCHS_NAME)
        self._content = _Content(secrets.token_hex(8))

    @property
    def store_id(self) -> str:
        """Names this directory, for as long as it lives."""
        return self._content.store

    @property
    def epochs(self) -> list[Epoch]:
        """The history, oldest first."""
        return list(self._content.epochs)

    @property
    def current(self) -> Epoch | None:
        """The last epoch; None if the log is older than this file."""
        return self._content.epochs[-1] if self._content.epochs else None

    @property
    def origin(self) -> str:
        """The id of the first epoch, by which copies of one log know each other; empty without one."""
        return self._content.epochs[0].id if self._content.epochs else ""

    @property
    def is_led_here(self) -> bool:
        """Whether the last epoch began here: then nobody else may have what was written in it."""
        return self.current is not None and self.current.id == self._content.led

    @property
    def number(self) -> int:
        """The number of the last epoch; 0 without one."""
        return self._content.epochs[-1].number if self._content.epochs else 0

    @property
    def master_role(self) -> str:
        """The role of the master that this store followed last: what its successor is. Empty if that is not known."""
        return self._content.role

    def load(self) -> None:
        """Read the file; a store without one, or with a damaged one, is a new member of anything."""
        found = read_sealed(self._files, self._path, _Content)
        if found is not None:
            self._content = found

    def begin(self, start: int, at_least: int = 0, *, must_save: bool = False) -> Epoch:
        """Begin an epoch at the end of the log, with a number above all that were.

        Where it cannot be saved, as on a full disk, a store that led the last epoch, or knows of none, goes on without
        it: whoever followed it compares epochs again after the next start, and cuts what the file does not explain.
        Under failover that is not enough (`must_save`): raises OSError.
        """
        kept = _before(self._content.epochs, start)
        epoch = Epoch(max(self.number + 1, at_least), secrets.token_hex(8), start)
        try:
            self._save([*kept, epoch], led=epoch.id)
        except OSError as error:
            if must_save or (self.current is not None and self.current.id != self._content.led):
                raise
            logger.error("the new epoch could not be saved file=%s: %s", self._path, error)
        return epoch

    def adopt(self, epochs: Sequence[Epoch], role: str = "") -> None:
        """Take over the history of a master, whose log this one now continues, and its role."""
        role = role or self._content.role
        if list(epochs) != self._content.epochs or role != self._content.role:
            self._save(epochs, role=role)

    def break_off(self, start: int) -> None:
        """End the history where a stranger went on with the log: this is a new member of anything from now on.

        What is behind that is an epoch of its own, which no other log shares.
        """
        logger.warning("another program has written the log from=%d: it is no copy of any other log any more", start)
        epoch = Epoch(self.number + 1, secrets.token_hex(8), start)
        epochs = [*_before(self._content.epochs, start), epoch]
        self._content = _Content(secrets.token_hex(8), epochs, epoch.id, self._content.role)
        try:
            self._save(epochs, led=epoch.id)
        except OSError as error:  # the next start finds it again
            logger.error("the end of the history could not be saved file=%s: %s", self._path, error)

    def _save(self, epochs: Sequence[Epoch], led: str = "", role: str | None = None) -> None:
        role = self._content.role if role is None else role
        content = _Content(self._content.store, list(epochs), led, role)
        for directory in make_directories(self._files, self._root):
            self._files.sync_directory(directory)
        replace_sealed(self._files, self._path, content)
        self._content = content


def common_end(mine: Sequence[Epoch], my_end: int, theirs: Sequence[Epoch], their_end: int) -> int | None:
    """Return up to where two logs are one history; None if their epochs do not tell: they share none."""
    shared = 0
    for one, other in zip(mine, theirs, strict=False):
        if one != other:
            break
        shared += 1
    if not shared:
        return None
    next_starts = [history[shared].start for history in (mine, theirs) if len(history) > shared]
    return min([my_end, their_end, *next_starts])


def _before(epochs: Sequence[Epoch], start: int) -> list[Epoch]:
    """Return the epochs that hold something: one that begins at the log's end, or behind it, was never written in."""
    return [epoch for epoch in epochs if epoch.start < start]
