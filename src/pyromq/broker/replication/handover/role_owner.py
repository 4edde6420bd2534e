"""RoleOwner: a broker, as far as its role is concerned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from pyromq.remoting.requests import Handler


class RoleOwner(Protocol):
    """What a handover asks of its broker."""

    @property
    def is_master(self) -> bool:
        """Whether it takes messages."""

    @property
    def acting_role(self) -> str:
        """SYNC_MASTER or ASYNC_MASTER: what it is, or would be, as master."""

    async def promote(self, at_least: int = 0, check: Callable[[], None] | None = None) -> None:
        """Become master; `check` is called when the epoch has begun, and may raise to leave it unused."""

    async def demote(self, broker_id: int = 0) -> None:
        """Become slave, under this id if it has none of its own."""

    async def rest(self, hold: Handler) -> None:
        """Take no messages, without being a slave: what writes is passed to `hold`."""
