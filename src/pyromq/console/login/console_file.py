"""console.yml: the users of a console, and what an operator decides about it.

    users:
      ada: {role: operator, password: "scrypt:…"}
    masking:
      - {topic: "orders*", fields: [card.number, email]}
    trusted_header: {name: X-Forwarded-User, role: viewer, role_header: X-Forwarded-UserRole, from: [10.0.0.7]}

The file holds secrets: it is written with mode 0600 and refused if others may read it.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml
from msgspec import Struct

from pyromq.console.bodies.masking import MaskingRule
from pyromq.console.login.passwords import hash_password, new_password
from pyromq.console.login.roles import UserRole
from pyromq.errors import ConfigError

FILE_NAME: Final = "console.yml"
FIRST_USER: Final = "admin"


class UserEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """A user in the file."""

    role: str
    password: str


class MaskingEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """Fields that nobody sees, in the topics that a pattern matches."""

    topic: str
    fields: tuple[str, ...]

    @property
    def rules(self) -> list[MaskingRule]:
        """The rules that this entry means; raises ConfigError."""
        return [MaskingRule.parse(self.topic, field) for field in self.fields]


class TrustedHeader(Struct, frozen=True, forbid_unknown_fields=True, rename={"addresses": "from"}):
    """A header in which a proxy says who the user is."""

    name: str
    addresses: tuple[str, ...]
    """The proxies that are believed."""
    role: str = "viewer"
    """The role of users without a role header."""
    role_header: str = ""


class ConsoleFile(Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file."""

    users: dict[str, UserEntry] = {}
    masking: tuple[MaskingEntry, ...] = ()
    trusted_header: TrustedHeader | None = None

    @property
    def masking_rules(self) -> list[MaskingRule]:
        """All masking rules; raises ConfigError."""
        return [rule for entry in self.masking for rule in entry.rules]


def read_console_file(path: Path) -> ConsoleFile:
    """Read the file; an absent one is empty. Raise ConfigError."""
    try:
        with path.open("rb") as file:
            mode, data = os.fstat(file.fileno()).st_mode, file.read()
    except FileNotFoundError:
        return ConsoleFile()
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {(error.strerror or 'failed').lower()}") from error
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise ConfigError(f"others may read {path}, which holds secrets: chmod 600 {path}")
    try:
        found = msgspec.convert(yaml.safe_load(data) or {}, ConsoleFile)
        _check_roles(found)
        found.masking_rules  # noqa: B018 (raises if one is wrong)
    except (yaml.YAMLError, msgspec.ValidationError, ValueError) as error:
        raise ConfigError(f"{path}: {error}") from None
    return found


def _check_roles(file: ConsoleFile) -> None:
    for entry in file.users.values():
        UserRole.of(entry.role)
    if file.trusted_header is not None:
        UserRole.of(file.trusted_header.role)


def write_console_file(path: Path, file: ConsoleFile) -> None:
    """Replace the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content: Any = msgspec.to_builtins(file)
    content = {name: value for name, value in content.items() if value}
    new = path.with_suffix(".tmp")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as target:
        yaml.safe_dump(content, target, sort_keys=False, allow_unicode=True)
        target.flush()
        os.fsync(target.fileno())
    new.replace(path)


def with_first_user(file: ConsoleFile) -> tuple[ConsoleFile, str]:
    """Return the file with an administrator, and the password; an empty one if there are users already."""
    if file.users:
        return file, ""
    password = new_password()
    entry = UserEntry(role=UserRole.ADMIN.word, password=hash_password(password))
    return msgspec.structs.replace(file, users={FIRST_USER: entry}), password
