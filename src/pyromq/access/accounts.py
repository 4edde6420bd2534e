"""Accounts: the accounts of all files of a server, read again when a file changes.

    <home>/conf/plain_acl.yml      the default file, which requests change
    <home>/conf/acl/**/*.yml       more of them; the first file that defines an access key wins

Files are looked at every two seconds. They are read all or none: if one cannot be read, nothing changes, and one line
in the log says why.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeAlias

from msgspec import Struct

from pyromq.access.account import Account
from pyromq.access.account_file import AccountFile, read_account_file
from pyromq.access.address_patterns import Matcher, any_matcher
from pyromq.clock import Clock
from pyromq.errors import ConfigError
from pyromq.protocol.acl import Credentials
from pyromq.remoting.ticker import Ticker

logger = logging.getLogger(__name__)

DEFAULT_FILE: Final = "plain_acl.yml"
MORE_FILES: Final = "acl"
LOOK_PERIOD: Final = 2.0
WEAK_SECRET: Final = 16  # characters; shorter ones can be guessed from one signature

Fingerprint: TypeAlias = tuple[tuple[str, int, int, int, int], ...]


class AccountSet(Struct, frozen=True, kw_only=True):
    """What all files say together."""

    files: dict[Path, AccountFile]
    by_key: dict[str, Account]
    is_white: Matcher
    """Whether an address is in the global white list."""


class Accounts:
    """The accounts in force; `start` follows the files until `stop`."""

    def __init__(self, directory: Path, clock: Clock, own: Credentials | None = None) -> None:
        """`directory` is `<home>/conf`; `own` is an administrator that no file has: the process itself."""
        self.directory = directory
        self.default_file = directory / DEFAULT_FILE
        self.on_change: list[Callable[[AccountSet, AccountSet], None]] = []
        """Called with what was in force and what is now."""
        self._own = None if own is None else _administrator(own)
        self.current = _joined({}, self._own)
        self._ticker = Ticker(clock, LOOK_PERIOD, self._look)
        self._seen: Fingerprint = ()
        self._reading: asyncio.Task[None] | None = None

    def load(self) -> None:
        """Read all files; raise ConfigError if one is wrong, or none is there and nobody could come in."""
        self._seen = _fingerprint(self.directory)
        found = self._read()
        if not found.files and self._own is None:
            raise ConfigError(
                f"aclEnable=true needs accounts, and there is no file {self.default_file}: docs/security.md has one"
            )
        if not found.files:
            logger.warning("nobody can use this server yet: there is no file of accounts %s", self.default_file)
        self._take(found)

    def start(self) -> None:
        """Follow the files."""
        self._ticker.start()

    async def stop(self) -> None:
        """Follow them no more."""
        self._ticker.stop()
        if self._reading is not None:
            await asyncio.gather(self._reading, return_exceptions=True)

    def get(self, access_key: str) -> Account | None:
        """Return the account of a key; None if there is none."""
        return self.current.by_key.get(access_key)

    @property
    def listed(self) -> list[Account]:
        """The accounts of the files, in their order."""
        return [account for account in self.current.by_key.values() if account is not self._own]

    def file_of(self, access_key: str) -> Path:
        """Return the file that defines a key; the default file if none does."""
        files = self.current.files
        return next((path for path, content in files.items() if access_key in content.accounts), self.default_file)

    def reload(self) -> None:
        """Read all files now, after one was changed on purpose; raise ConfigError, and then nothing changes."""
        seen = _fingerprint(self.directory)
        self._take(self._read())
        self._seen = seen

    def _look(self) -> bool:
        if self._reading is None:
            self._reading = asyncio.get_running_loop().create_task(self._refresh())
        return True

    async def _refresh(self) -> None:
        try:
            seen = await asyncio.to_thread(_fingerprint, self.directory)
            if seen == self._seen:
                return
            self._seen = seen  # a broken file is reported once
            found = await asyncio.to_thread(self._read)
            if not found.files and self.current.files:
                raise ConfigError(f"all files of {self.directory} are gone")
            self._take(found)
            logger.info("accounts read again files=%d accounts=%d", len(found.files), len(found.by_key))
        except (ConfigError, OSError) as error:
            logger.error("the accounts stay as they are: %s", error)
        finally:
            self._reading = None

    def _read(self) -> AccountSet:
        return _joined({path: read_account_file(path) for path in _paths(self.directory)}, self._own)

    def _take(self, found: AccountSet) -> None:
        before, self.current = self.current, found
        _warn_about(found)
        for listener in self.on_change:
            listener(before, found)


def _administrator(own: Credentials) -> Account:
    return Account(access_key=own.access_key, secret_key=own.secret_key, admin=True)


def _joined(files: dict[Path, AccountFile], own: Account | None) -> AccountSet:
    by_key: dict[str, Account] = {}
    for path, content in files.items():
        for key, account in content.accounts.items():
            if by_key.setdefault(key, account) is not account:
                logger.warning("account %r of %s is not used: another file before it has this key", key, path)
    if own is not None:
        by_key[own.access_key] = own
    white = [pattern for content in files.values() for pattern in content.white_addresses]
    return AccountSet(files=files, by_key=by_key, is_white=any_matcher(white))


def _warn_about(found: AccountSet) -> None:
    weak = sorted(key for key, account in found.by_key.items() if len(account.secret_key) < WEAK_SECRET)
    if weak:
        names = ", ".join(weak[:20])
        logger.warning("the secrets of these accounts are shorter than %d characters: %s", WEAK_SECRET, names)


def _paths(directory: Path) -> list[Path]:
    default = directory / DEFAULT_FILE
    more = sorted(path for path in (directory / MORE_FILES).rglob("*") if path.suffix in (".yml", ".yaml"))
    return [path for path in (default, *more) if path.is_file()]


def _fingerprint(directory: Path) -> Fingerprint:
    found = []
    for path in _paths(directory):
        try:
            status = path.stat()
        except FileNotFoundError:
            continue
        found.append((str(path), status.st_mtime_ns, status.st_size, status.st_ino, status.st_mode))
    return tuple(found)
