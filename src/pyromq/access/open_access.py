"""What handlers ask about rights that only they can judge: the topic of a message that was read, the groups in a body.

Access control answers with AccessControl; a server without it has OPEN, which allows everything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Protocol

from pyromq.access.account import Permission
from pyromq.lane.callers import Caller
from pyromq.protocol.command import RemotingCommand
from pyromq.remoting.connection import Connection


class CallerRights(Protocol):
    """Refuses what the account of a request may not do. The request has been let in: its signature is right."""

    @property
    def is_open(self) -> bool:
        """Whether everybody may do everything."""

    def caller(self, connection: Connection) -> Caller | None:
        """Return whose requests the lane may let in over a connection; None if it can tell of none."""

    def may_ask(self, connection: Connection, code: int, fields: Mapping[str, str]) -> bool:
        """Return True if the account that came in last over a connection may send such a request."""

    def need(self, request: RemotingCommand, connection: Connection, right: Permission, topic: str) -> None:
        """Raise AccessRefused unless the account has a right on a topic."""

    def need_group(self, request: RemotingCommand, connection: Connection, group: str) -> None:
        """Raise AccessRefused unless the account may consume as a group."""

    def readable(
        self, request: RemotingCommand, connection: Connection, topic: str, records: Iterable[bytes]
    ) -> list[bytes]:
        """Return those of the records that are of a topic: an index may find others with the same hash."""

    def need_admin(self, request: RemotingCommand, connection: Connection, reason: str) -> None:
        """Raise AccessRefused, for a reason, unless the account may do everything."""

    def is_same_caller(self, one: Connection, other: Connection) -> bool:
        """Return True if the same account came in over both connections."""

    def may_publish(self, connection: Connection, topic: str) -> bool:
        """Return True if the peer may see a message that it is asked about, as who may send to the topic."""


class OpenAccess:
    """Allows everything."""

    is_open = True

    def caller(self, connection: Connection) -> Caller | None:
        """Return None: nobody has an account."""
        return None

    def may_ask(self, connection: Connection, code: int, fields: Mapping[str, str]) -> bool:
        """Return True."""
        return True

    def need(self, request: RemotingCommand, connection: Connection, right: Permission, topic: str) -> None:
        """Allow it."""

    def need_group(self, request: RemotingCommand, connection: Connection, group: str) -> None:
        """Allow it."""

    def readable(
        self, request: RemotingCommand, connection: Connection, topic: str, records: Iterable[bytes]
    ) -> list[bytes]:
        """Return all of them."""
        return list(records)

    def need_admin(self, request: RemotingCommand, connection: Connection, reason: str) -> None:
        """Allow it."""

    def is_same_caller(self, one: Connection, other: Connection) -> bool:
        """Return True: nobody has an account."""
        return True

    def may_publish(self, connection: Connection, topic: str) -> bool:
        """Return True."""
        return True


OPEN: Final = OpenAccess()
