"""Small tables kept as files: replaced whole, durable when `save` returns, with the state before in `.bak`.

RocketMQ deletes a file before it renames the new one into place and never syncs; here a reader, or a server after a
power cut, always finds one whole file under the name. Loading falls back to `.bak` as RocketMQ's brokers do.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from pyromq.errors import ConfigError, ProtocolError
from pyromq.store.files import OsFiles, replace_file

T = TypeVar("T")
logger = logging.getLogger(__name__)


class JsonFile:
    """One file that is replaced whole."""

    def __init__(self, path: Path, files: OsFiles | None = None) -> None:
        self.path = path
        self._backup = path.with_name(path.name + ".bak")
        self._files = files or OsFiles()

    def load(self, parse: Callable[[bytes], T]) -> T | None:
        """Return the parsed file, else its backup, else None where neither is; raise ConfigError if they are bad."""
        try:
            if text := _read(self.path):
                return parse(text)
        except (ProtocolError, ValueError) as error:
            logger.warning("table unreadable, taking its backup file=%s reason=%s", self.path, error)
            return self._load_backup(parse, error)
        return self._load_backup(parse, None)

    def _load_backup(self, parse: Callable[[bytes], T], damage: Exception | None) -> T | None:
        try:
            if text := _read(self._backup):
                return parse(text)
        except (ProtocolError, ValueError) as error:
            raise ConfigError(f"cannot read {self.path} nor {self._backup}: {damage or error}") from error
        if damage is not None:  # to begin with an empty table would lose this one for good
            raise ConfigError(f"cannot read {self.path}, and there is no backup: {damage}") from damage
        return None

    def save(self, text: bytes) -> None:
        """Replace the file; it blocks on the disk and is durable on return, so a server calls it in a thread."""
        self._files.makedirs(str(self.path.parent))
        self._keep_backup()
        replace_file(self._files, str(self.path), text)

    def _keep_backup(self) -> None:
        """Give the present file a second name, by a link: it is never missing under its first one."""
        link = str(self._backup) + ".tmp"
        if self._files.exists(link):
            self._files.unlink(link)
        if self._files.exists(str(self.path)):
            self._files.link(str(self.path), link)
            self._files.rename(link, str(self._backup))


class ReadOnlyFile(JsonFile):
    """A table that is read and never written: changes to it last as long as the process."""

    def save(self, text: bytes) -> None:
        """Keep nothing."""


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes().strip()
    except FileNotFoundError:
        return b""
