"""AccountChanges: adds, changes and removes accounts in the files of a server, as requests ask.

Each change reads the files first, writes one of them whole, and is in force when it returns. Another server, or a
person with an editor, may change the same files: of two changes at the same moment the later one counts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec.structs import replace

from pyromq.access.account import Account, parse_permission
from pyromq.access.account_file import (
    SHORTEST_KEY,
    AccountFile,
    FileVersion,
    check_secret,
    parse_rights,
    write_account_file,
)
from pyromq.access.accounts import Accounts
from pyromq.access.address_patterns import any_matcher, matcher
from pyromq.errors import ConfigError
from pyromq.protocol.headers.accounts import UpdateAndCreateAclConfigRequestHeader as Wanted

Change = Callable[[AccountFile], AccountFile]


class AccountChanges:
    """Changes the accounts of a server, one change at a time."""

    def __init__(self, accounts: Accounts, now_ms: Callable[[], int]) -> None:
        self._accounts = accounts
        self._now_ms = now_ms
        self._changing = asyncio.Lock()

    async def update(self, wanted: Wanted) -> None:
        """Add an account, or change the given fields of one; raise ValueError, ConfigError or OSError."""
        async with self._changing:
            self._accounts.reload()
            account = _changed(self._accounts.get(wanted.access_key), wanted)
            path = self._accounts.file_of(account.access_key)
            await self._write(path, lambda file: replace(file, accounts={**file.accounts, account.access_key: account}))

    async def remove(self, access_key: str) -> None:
        """Remove an account; raise LookupError if there is none, else ConfigError or OSError."""
        async with self._changing:
            self._accounts.reload()
            path = self._accounts.file_of(access_key)
            found = self._accounts.current.files.get(path, AccountFile()).accounts
            if access_key not in found:
                raise LookupError(f"there is no account {access_key!r}")
            left = {key: account for key, account in found.items() if key != access_key}
            await self._write(path, lambda file: replace(file, accounts=left))

    async def set_white_addresses(self, patterns: Sequence[str]) -> None:
        """Replace the white list of the default file; raise ValueError, ConfigError or OSError."""
        any_matcher(list(patterns))
        async with self._changing:
            self._accounts.reload()
            path = self._accounts.default_file
            await self._write(path, lambda file: replace(file, white_addresses=tuple(patterns)))

    async def _write(self, path: Path, change: Change) -> None:
        content = change(self._accounts.current.files.get(path, AccountFile()))
        version = FileVersion(content.version.counter + 1, self._now_ms())
        await asyncio.to_thread(write_account_file, path, replace(content, version=version))
        self._accounts.reload()


def _changed(before: Account | None, wanted: Wanted) -> Account:
    if len(wanted.access_key) < SHORTEST_KEY:
        raise ValueError(f"the access key must have at least {SHORTEST_KEY} characters")
    if before is None and not wanted.secret_key:
        raise ValueError(f"the new account {wanted.access_key!r} needs a secret key")
    account = before or Account(access_key=wanted.access_key, secret_key=wanted.secret_key or "")
    changes: dict[str, object] = {"admin": wanted.admin}
    if wanted.secret_key:
        changes["secret_key"] = check_secret(wanted.secret_key)
    if wanted.white_remote_address is not None:
        matcher(wanted.white_remote_address)
        changes["white_address"] = wanted.white_remote_address.strip()
    for name, text in (("default_topic", wanted.default_topic_perm), ("default_group", wanted.default_group_perm)):
        if text:
            changes[name] = parse_permission(text)
    for name, listed in (("topics", wanted.topic_perms), ("groups", wanted.group_perms)):
        if listed is not None:
            changes[name] = parse_rights([part for part in listed.split(",") if part.strip()], name)
    return replace(account, **changes)


def why(error: Exception) -> str:
    """Return why a change failed, without a path of this machine for the system's errors."""
    if isinstance(error, OSError):
        return f"the file of accounts cannot be written: {error.strerror}"
    return str(error) if isinstance(error, (ValueError, LookupError, ConfigError)) else type(error).__name__
