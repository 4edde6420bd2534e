"""plain_acl.yml, and every file below acl/: accounts, as RocketMQ 4.9 writes them.

    globalWhiteRemoteAddresses: [ "10.10.103.*" ]
    accounts:
      - accessKey: shop-app                # longer than 6 characters
        secretKey: …                       # longer than 6 characters; 16 or more are better
        whiteRemoteAddress:                # optional, one pattern
        admin: false
        defaultTopicPerm: DENY             # DENY, PUB, SUB or PUB|SUB; DENY if it is missing
        defaultGroupPerm: SUB
        topicPerms: [ "orders=PUB|SUB", "audit-*=SUB" ]
        groupPerms: [ "billing=SUB" ]
    dataVersion:                           # written when a request changes the file
      - counter: 1
        timestamp: 1600000000000

Apache reads a permission that it does not know as DENY, and an account of that file may lose its rights by a typing
error. Here the whole file is refused, and what was in force before stays.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml
from msgspec import Struct

from pyromq.access.account import PREFIX_MARK, Account, Permission, parse_permission, show_permission
from pyromq.access.address_patterns import any_matcher, matcher
from pyromq.errors import ConfigError
from pyromq.store.files import OsFiles, make_directories, replace_file

MODE: Final = 0o600
MAX_BYTES: Final = 16 << 20
SHORTEST_KEY: Final = 7
SAMPLE_SECRET: Final = "12345678"  # noqa: S105 (everybody knows it)
"""The secret of both accounts in the file that Apache ships."""

# libyaml's loader that makes nothing but texts, lists and dicts: an access key 0123 stays what it is.
_Loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
_Dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_NOTHING: Final = ("", "~", "null")
_TRUE: Final = ("true", "yes", "on")
_FALSE: Final = ("false", "no", "off", *_NOTHING)


class FileVersion(Struct, frozen=True):
    """How often, and when, requests have changed a file."""

    counter: int = 0
    timestamp_ms: int = 0


class AccountFile(Struct, frozen=True, kw_only=True):
    """The content of one file."""

    accounts: Mapping[str, Account] = {}
    white_addresses: tuple[str, ...] = ()
    version: FileVersion = FileVersion()


def read_account_file(path: Path) -> AccountFile:
    """Read a file; raise ConfigError if it is unreadable, readable to others, or wrong anywhere."""
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            if status.st_mode & 0o077:
                shown = stat.S_IMODE(status.st_mode)
                raise ConfigError(f"{path} has mode {shown:04o}, and it holds secrets: run `chmod 600 {path}`")
            text = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    if len(text) > MAX_BYTES:
        raise ConfigError(f"{path} has more than {MAX_BYTES} bytes")
    try:
        return parse_accounts(text)
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from None


def parse_accounts(text: bytes) -> AccountFile:
    """Read the text of a file; raise ValueError that says what is wrong and never quotes a secret."""
    try:
        found = yaml.load(text, _Loader)  # noqa: S506 (it makes texts only)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise ValueError(f"it is not YAML{_where(error)}") from None
    if not isinstance(found, dict) or not found:
        raise ValueError("it is empty, or no mapping with the key `accounts`")
    accounts: dict[str, Account] = {}
    for number, entry in enumerate(_list(found.get("accounts"), "accounts"), 1):
        account = _account(entry, number)
        if account.access_key in accounts:
            raise ValueError(f"account {account.access_key!r} is there twice")
        accounts[account.access_key] = account
    white = tuple(_texts(found.get("globalWhiteRemoteAddresses"), "globalWhiteRemoteAddresses"))
    any_matcher(list(white))
    return AccountFile(accounts=accounts, white_addresses=white, version=_version(found.get("dataVersion")))


def _where(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    return "" if mark is None else f": see line {mark.line + 1}"


def _account(entry: object, number: int) -> Account:
    if not isinstance(entry, dict):
        raise ValueError(f"account number {number} is no mapping")
    access_key = _text(entry.get("accessKey"), "accessKey")
    if len(access_key) < SHORTEST_KEY:
        raise ValueError(f"account number {number}: accessKey must have at least {SHORTEST_KEY} characters")
    try:
        return _checked_account(access_key, entry)
    except ValueError as error:
        raise ValueError(f"account {access_key!r}: {error}") from None


def _checked_account(access_key: str, entry: Mapping[object, object]) -> Account:
    account = Account(
        access_key=access_key,
        secret_key=check_secret(_text(entry.get("secretKey"), "secretKey")),
        white_address=_text(entry.get("whiteRemoteAddress"), "whiteRemoteAddress"),
        admin=_boolean(entry.get("admin"), "admin"),
        default_topic=_permission(entry.get("defaultTopicPerm"), "defaultTopicPerm"),
        default_group=_permission(entry.get("defaultGroupPerm"), "defaultGroupPerm"),
        topics=parse_rights(_texts(entry.get("topicPerms"), "topicPerms"), "topicPerms"),
        groups=parse_rights(_texts(entry.get("groupPerms"), "groupPerms"), "groupPerms"),
    )
    matcher(account.white_address)
    return account


def check_secret(secret: str) -> str:
    """Return a secret that may be used; raise ValueError, which does not show it."""
    if len(secret) < SHORTEST_KEY:
        raise ValueError(f"secretKey must have at least {SHORTEST_KEY} characters")
    if secret == SAMPLE_SECRET:
        raise ValueError("secretKey is the one of Apache's sample file, which everybody knows: choose another")
    return secret


def parse_rights(entries: list[str], field: str) -> dict[str, Permission]:
    """Read `name=permission` entries; raise ValueError."""
    rights: dict[str, Permission] = {}
    for entry in entries:
        name, equals, text = (part.strip() for part in entry.partition("="))
        if not (name and equals):
            raise ValueError(f"{field}: {entry!r} is not name=permission")
        if PREFIX_MARK in name[:-1]:
            raise ValueError(f"{field}: {name!r} has a * that is not at its end")
        try:
            rights[name] = parse_permission(text)
        except ValueError as error:
            raise ValueError(f"{field}: {error}") from None
    return rights


def _permission(value: object, field: str) -> Permission:
    text = _text(value, field)
    try:
        return parse_permission(text) if text else Permission.DENY
    except ValueError as error:
        raise ValueError(f"{field}: {error}") from None


def _version(value: object) -> FileVersion:
    versions = _list(value, "dataVersion")
    first = versions[0] if versions else {}
    if not isinstance(first, dict):
        raise ValueError("dataVersion is no list of mappings")
    return FileVersion(int(first.get("counter", 0)), int(first.get("timestamp", 0)))


def _list(value: object, field: str) -> list[Any]:
    if value is None or value in _NOTHING:
        return []
    if not isinstance(value, list):
        raise ValueError(f"{field} is no list")
    return value


def _texts(value: object, field: str) -> list[str]:
    return [_text(one, field) for one in _list(value, field)]


def _text(value: object, field: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ValueError(f"{field} is no text")
    return "" if value in _NOTHING else value.strip()


def _boolean(value: object, field: str) -> bool:
    text = _text(value, field).lower()
    if text not in (*_TRUE, *_FALSE):
        raise ValueError(f"{field} must be true or false")
    return text in _TRUE


def write_account_file(path: Path, content: AccountFile, files: OsFiles | None = None) -> None:
    """Replace a file at once, readable to its owner only; durable on return. Raise OSError."""
    files = files or OsFiles()
    for directory in make_directories(files, str(path.parent)):
        files.sync_directory(directory)
    temporary = path.with_name(path.name + ".tmp")  # as replace_file names it
    descriptor = os.open(temporary, os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW, MODE)
    try:
        os.fchmod(descriptor, MODE)  # a left-over one may have another
    finally:
        os.close(descriptor)
    replace_file(files, str(path), format_accounts(content))


def format_accounts(content: AccountFile) -> bytes:
    """Return the text of a file; both brokers read it."""
    version = {"counter": content.version.counter, "timestamp": content.version.timestamp_ms}
    found: dict[str, object] = {
        "globalWhiteRemoteAddresses": list(content.white_addresses),
        "accounts": [as_entry(account) for account in content.accounts.values()],
        "dataVersion": [version],
    }
    text: bytes = yaml.dump(found, Dumper=_Dumper, sort_keys=False, allow_unicode=True, encoding="utf-8")
    return text


def as_entry(account: Account) -> dict[str, object]:
    """Return an account by the field names of plain_acl.yml, its secret included."""
    return {
        "accessKey": account.access_key,
        "secretKey": account.secret_key,
        "whiteRemoteAddress": account.white_address,
        "admin": account.admin,
        "defaultTopicPerm": show_permission(account.default_topic),
        "defaultGroupPerm": show_permission(account.default_group),
        "topicPerms": show_rights(account.topics),
        "groupPerms": show_rights(account.groups),
    }


def show_rights(rights: Mapping[str, Permission]) -> list[str]:
    """Return rights as `name=permission` entries."""
    return [f"{name}={show_permission(permission)}" for name, permission in rights.items()]
