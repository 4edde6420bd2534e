"""Who may see pages that tell about topics and clients: everybody on loopback, elsewhere whoever has the token.

What counts is where the server listens, not where a request comes from: behind a proxy or a sidecar every request comes
from loopback.
"""

from __future__ import annotations

import hmac
import ipaddress
import os
import stat
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from starlette.requests import Request

from pyromq.errors import ConfigError

LEAST_LENGTH: Final = 16
MOST_BYTES: Final = 4096
_BEARER: Final = "bearer "


class Access:
    """Decides about requests to the pages of one port."""

    def __init__(self, host: str, token: str | None = None) -> None:
        """`host` is where the port listens; without a `token` nobody may see the pages there but on loopback."""
        self._is_open = is_loopback(host)
        self._token = None if token is None else token.encode()

    def objection(self, request: Request) -> str | None:
        """Return why a request is refused; None if it is not."""
        if self._is_open:
            name = urlsplit(f"//{request.headers.get('host', '')}").hostname or ""
            return None if not name or is_loopback(name) else f"this port does not answer for the name {name!r}"
        if self._token is None:
            return "this page is closed beyond loopback: start the server with --http-token-file FILE"
        given = request.headers.get("authorization", "")
        if given[: len(_BEARER)].lower() != _BEARER:
            return "this page needs the header Authorization: Bearer TOKEN (see --http-token-file)"
        if not hmac.compare_digest(given[len(_BEARER) :].strip().encode(), self._token):
            return "the token is wrong"
        return None


def is_loopback(host: str) -> bool:
    """Return True if only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def read_token(path: Path) -> str:
    """Return the token in a file; raise ConfigError if others may read the file, or there is none in it."""
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"cannot read the token file {path}: {(error.strerror or 'failed').lower()}") from error
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise ConfigError(f"others may read the token file {path}: chmod 600 {path}")
    try:
        token = data.decode("ascii").strip()
    except UnicodeDecodeError:
        raise ConfigError(f"the token file {path} must hold ASCII text") from None
    if len(data) > MOST_BYTES or len(token) < LEAST_LENGTH or len(token.split()) != 1:
        raise ConfigError(f"the token file {path} must hold one word of {LEAST_LENGTH} characters or more")
    return token
