"""TableFollowers: how far each slave has followed the tables of this broker, so that a change can wait for them."""

from __future__ import annotations

import asyncio
import logging
from typing import Final, NamedTuple

from pyromq.broker.tables.all_tables import Tables
from pyromq.clock import Clock, wait_for
from pyromq.protocol.bodies.replication import TableMarks
from pyromq.remoting.connection import Connection

logger = logging.getLogger(__name__)

CHANGE_PATIENCE: Final = 2.0
"""How long the answer to an administrator's change waits for slaves: less than administrators wait for it."""
_FRESH: Final = 3.0
"""A slave asks every second, even if nothing changes; one that was cut off has to be heard again to be up to date."""
_ABSENT_AFTER: Final = 15.0
"""A slave that has not asked for so long is not waited for."""


class _TableFollower(NamedTuple):
    marks: TableMarks
    heard: float
    connection: Connection


class TableFollowers:
    """The slaves that follow the tables, by their broker id."""

    def __init__(self, tables: Tables, clock: Clock) -> None:
        self.woken = asyncio.Event()
        """Set when slaves that wait for changes are to be answered."""
        self.is_closed = False
        """Whether slaves are answered at once: a broker that stops must not wait for what it holds."""
        self._tables = tables
        self._clock = clock
        self._followers: dict[int, _TableFollower] = {}
        self._heard = asyncio.Event()
        for keys in (tables.topics, tables.groups, tables.filters, tables.locks):
            keys.changed_keys.changed.subscribe(self.woken.set)

    @property
    def marks(self) -> TableMarks:
        """The marks of all tables now."""
        tables = self._tables
        return TableMarks(
            tables.topics.changed_keys.mark,
            tables.groups.changed_keys.mark,
            tables.offsets.changed_keys.mark,
            tables.filters.changed_keys.mark,
            tables.locks.changed_keys.mark,
            tables.delays.mark,
        )

    def close(self) -> None:
        """Answer the slaves that wait, and hold none any more."""
        self.is_closed = True
        self.woken.set()

    def note(self, broker_id: int, marks: TableMarks, connection: Connection) -> None:
        """Note what a slave that asks has taken over."""
        self._followers[broker_id] = _TableFollower(marks, self._clock.monotonic(), connection)
        self._heard.set()

    @property
    def offsets_of_all(self) -> int:
        """Up to which mark every slave that ever asked has the committed offsets."""
        return min((follower.marks.offsets for follower in self._followers.values()), default=0)

    def follows(self, broker_id: int) -> bool:
        """Return True if a slave follows the tables: it has asked for changes within the last seconds."""
        follower = self._followers.get(broker_id)
        if follower is None or follower.connection.closed:
            return False
        return self._clock.monotonic() - follower.heard < _FRESH

    @property
    def are_there(self) -> bool:
        """Whether a slave follows now."""
        return any(map(self._is_there, self._followers.values()))

    async def spread(self, seconds: float, what: str) -> None:
        """Wait until the slaves that are there have all changes up to now; after some time only say who has not."""
        wanted = self.marks
        deadline = self._clock.monotonic() + seconds
        while self._behind(wanted) and (left := deadline - self._clock.monotonic()) > 0:
            self._heard.clear()
            self.woken.set()
            try:
                await wait_for(self._clock, self._heard.wait(), left)
            except TimeoutError:
                break
        for broker_id, follower in self._behind(wanted).items():
            peer = follower.connection.peer
            logger.warning("%s is not known to a slave after %g s slave=%d at %s", what, seconds, broker_id, peer)

    def _behind(self, wanted: TableMarks) -> dict[int, _TableFollower]:
        followers = self._followers.items()
        return {who: one for who, one in followers if self._is_there(one) and not one.marks.includes(wanted)}

    def _is_there(self, follower: _TableFollower) -> bool:
        is_silent = self._clock.monotonic() - follower.heard >= _ABSENT_AFTER
        return not (follower.connection.closed or is_silent)
