"""Small tables kept as files: replaced whole, durable when `save` returns, with the state before in `.bak`.

RocketMQ deletes a file before it renames the new one into place and never syncs; here a reader, or a server after a
power cut, always finds one whole file under the name. Loading falls back to `.bak` as RocketMQ's brokers do.

A table ends with a member of ours, a checksum of all that stands before it:

    {…, "pyromqCrc32":"0d5e1a2b"}

A flipped bit would else be another topic, or another offset. Other brokers leave out members they do not know, and
write a table without it; that is then taken as it is.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar
from zlib import crc32

from pyromq.errors import ConfigError, ProtocolError
from pyromq.store.files import OsFiles, make_directories, replace_file

T = TypeVar("T")
logger = logging.getLogger(__name__)

_SEAL: Final = re.compile(rb',\s*"pyromqCrc32":"([0-9a-f]{8})"\s*\}$')


class JsonFile:
    """One file that is replaced whole."""

    def __init__(self, path: Path, files: OsFiles | None = None) -> None:
        self.path = path
        self._backup = path.with_name(path.name + ".bak")
        self._files = files or OsFiles()
        self.is_older = False
        """Whether load() took the backup: what changed last may be missing."""

    def load(self, parse: Callable[[bytes], T]) -> T | None:
        """Return the parsed file, else its backup, else None where neither is; raise ConfigError if they are bad."""
        try:
            if text := _read(self.path):
                return parse(unsealed(text))
        except (ProtocolError, ValueError) as error:
            logger.warning("table unreadable, taking its backup file=%s reason=%s", self.path, error)
            return self._load_backup(parse, error)
        return self._load_backup(parse, None)

    def _load_backup(self, parse: Callable[[bytes], T], damage: Exception | None) -> T | None:
        try:
            if text := _read(self._backup):
                table = parse(unsealed(text))
                self.is_older = True
                return table
        except (ProtocolError, ValueError) as error:
            raise ConfigError(f"cannot read {self.path} nor {self._backup}: {damage or error}") from error
        if damage is not None:  # to begin with an empty table would lose this one for good
            raise ConfigError(f"cannot read {self.path}, and there is no backup: {damage}") from damage
        return None

    def save(self, text: bytes) -> None:
        """Replace the file; it blocks on the disk and is durable on return, so a server calls it in a thread."""
        for directory in make_directories(self._files, str(self.path.parent)):
            self._files.sync_directory(directory)
        text = sealed(text)
        if not self._keep_backup():
            replace_file(self._files, str(self._backup), text)  # so that there always is one
        replace_file(self._files, str(self.path), text)

    def _keep_backup(self) -> bool:
        """Give the present file a second name, by a link: the first is never missing; tell whether there is one."""
        link = str(self._backup) + ".tmp"
        if self._files.exists(link):
            self._files.unlink(link)
        if not self._files.exists(str(self.path)):
            return False
        self._files.link(str(self.path), link)
        self._files.rename(link, str(self._backup))
        return True


def sealed(text: bytes) -> bytes:
    """Return a table with its checksum in it; what is no JSON object with members stays as it is."""
    body = text.strip().removesuffix(b"}").rstrip()
    if not (text.strip().endswith(b"}") and body.startswith(b"{") and len(body) > 1):
        return text
    return body + b',\n\t"pyromqCrc32":"%08x"\n}' % crc32(body)


def unsealed(text: bytes) -> bytes:
    """Return a table without its checksum, if it has one; raises ValueError if that does not match."""
    seal = _SEAL.search(text.rstrip())
    if seal is None:
        return text
    body = text[: seal.start()]
    if b"%08x" % crc32(body) != seal[1]:
        raise ValueError("the checksum does not match")
    return body + b"}"


class ReadOnlyFile(JsonFile):
    """A table that is read and never written: changes to it last as long as the process."""

    def load(self, parse: Callable[[bytes], T]) -> T | None:
        """Return the parsed file or its backup; None, with a warning, where neither can be read."""
        try:
            return super().load(parse)
        except ConfigError as error:
            logger.warning("table left out: %s", error)
            return None

    def save(self, text: bytes) -> None:
        """Keep nothing."""


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes().strip()
    except FileNotFoundError:
        return b""
