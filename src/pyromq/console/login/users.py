"""User: who visits the console."""

from __future__ import annotations

from msgspec import Struct

from pyromq.access.account import Account
from pyromq.console.login.roles import UserRole


class User(Struct, frozen=True, kw_only=True):
    """Who visits, and what they may do."""

    name: str
    role: UserRole
    account: Account | None = None
    """The account of the cluster's access control that signed in, which limits what is seen; None of others."""
    kind: str = "password"
    """How it was found out: `password`, `account`, `header`, or `open` where nobody signs in."""

    def may(self, role: UserRole) -> bool:
        """Return True if the user may do what this role may."""
        return self.role >= role

    def sees_topic(self, topic: str) -> bool:
        """Return True if the user may know of a topic."""
        return self.account is None or self.account.admin or bool(self.account.on_topic(topic))

    def sees_group(self, group: str) -> bool:
        """Return True if the user may know of a group."""
        return self.account is None or self.account.admin or bool(self.account.on_group(group))


EVERYBODY = User(name="", role=UserRole.ADMIN, kind="open")
"""The user where nobody signs in: `pyromq up` on loopback."""
NOBODY = User(name="", role=UserRole.PUBLIC, kind="open")
"""The user of a visit without a session."""
