"""Access control among servers of one process: they know each other by an account that nobody else can know."""

from __future__ import annotations

import secrets

from msgspec import Struct, field

from pyromq.protocol.acl import Credentials


def _account() -> Credentials:
    return Credentials(f"pyromq-inside-{secrets.token_hex(8)}", secrets.token_urlsafe(32))


class InnerAccount(Struct, frozen=True):
    """What the servers of one process know; it is in no file and on no disk."""

    credentials: Credentials = field(default_factory=_account)
    """An administrator at all of them."""
    ha_secret: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    """What their slaves show."""
