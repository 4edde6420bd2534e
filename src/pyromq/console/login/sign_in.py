"""SignIn: finds out who a visitor is: by password, by an account of the cluster, or by what a trusted proxy says."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from functools import cache
from pathlib import Path

from starlette.requests import Request

from pyromq.clock import Clock
from pyromq.console.bodies.masking import MaskingRule
from pyromq.console.login.accounts import AccountClients
from pyromq.console.login.console_file import (
    ConsoleFile,
    TrustedHeader,
    read_console_file,
    with_first_user,
    write_console_file,
)
from pyromq.console.login.passwords import hash_password, is_password
from pyromq.console.login.roles import UserRole
from pyromq.console.login.sessions import Sessions
from pyromq.console.login.throttle import Throttle
from pyromq.console.login.users import User

logger = logging.getLogger(__name__)


@cache
def _no_such_user() -> str:
    """Return what is compared with when there is no such user, so that the time does not tell."""
    return hash_password("nobody has this password")


class SignIn:
    """The users of one console."""

    def __init__(self, path: Path | None, accounts: AccountClients, clock: Clock) -> None:
        self._path = path
        self.accounts = accounts
        self.sessions = Sessions(clock)
        self.throttle = Throttle(clock)
        self.file = ConsoleFile()
        self.masking_rules: list[MaskingRule] = []

    def load(self, *, login: bool) -> str:
        """Read console.yml; return the password of the first user if one was just made. Raise ConfigError."""
        if self._path is not None:
            self.file = read_console_file(self._path)
            self.masking_rules = self.file.masking_rules
        if not login or self.file.trusted_header is not None:
            return ""
        self.file, password = with_first_user(self.file)
        if password and self._path is not None:
            write_console_file(self._path, self.file)
        return password

    def change(self, file: ConsoleFile) -> None:
        """Replace users and rules, on disk too; raise ConfigError if a rule is wrong."""
        rules = file.masking_rules
        if self._path is not None:
            write_console_file(self._path, file)
        self.file, self.masking_rules = file, rules

    async def by_password(self, name: str, password: str, address: str) -> User | None:
        """Return who this is; None if the password is wrong. The caller has asked `pause` first."""
        user = await self._find(name, password)
        keys = (f"address {address}", f"name {name}")
        if user is None:
            self.throttle.failed(*keys)
            logger.warning("console login failed name=%r address=%s", name[:100], address)
        else:
            self.throttle.succeeded(*keys)
            logger.info("console login name=%r address=%s role=%s", user.name, address, user.role.word)
        return user

    def pause(self, name: str, address: str) -> float:
        """Return for how many seconds nobody may try to sign in as `name`, or from `address`."""
        return self.throttle.pause(f"address {address}", f"name {name}")

    def by_header(self, request: Request) -> User | None:
        """Return whom a trusted proxy names; None if no proxy is trusted, or this is not it."""
        trusted = self.file.trusted_header
        if trusted is None or not _is_from(request, trusted):
            return None
        name = request.headers.get(trusted.name, "").strip()
        if not name:
            return None
        word = request.headers.get(trusted.role_header, "").strip() if trusted.role_header else ""
        try:
            role = UserRole.of(word or trusted.role)
        except ValueError:
            return None
        return User(name=name[:200], role=role, kind="header")

    async def _find(self, name: str, password: str) -> User | None:
        entry = self.file.users.get(name)
        kept = _no_such_user() if entry is None else entry.password
        matches = await asyncio.to_thread(is_password, password[:1000], kept)
        if entry is not None:
            return User(name=name, role=UserRole.of(entry.role)) if matches else None
        return await self.accounts.sign_in(name, password)


def _is_from(request: Request, trusted: TrustedHeader) -> bool:
    try:
        peer = ipaddress.ip_address(request.client.host if request.client else "")
        return any(peer in ipaddress.ip_network(place, strict=False) for place in trusted.addresses)
    except ValueError:
        return False
