"""RelayLease: the row that says which process sends, and until when.

    pyromq_outbox_lease:  name, the key | owner | until_ms

Any number of processes may run the same outbox; one of them sends. The next one takes over when the lease has run out.
A process begins no send in the last SPARE seconds of its lease: so much time have its last send, which takes 3 s at
most, and the difference of their clocks.
"""

from __future__ import annotations

import secrets
from typing import Final

from sqlalchemy import BigInteger, Column, Connection, MetaData, String, Table, insert, select, update
from sqlalchemy.exc import IntegrityError

from pyromq.clock import Clock

LENGTH: Final = 12.0
SPARE: Final = 6.0


class RelayLease:
    """The right to send, as one process sees it."""

    def __init__(self, metadata: MetaData, name: str, clock: Clock) -> None:
        self._table = Table(
            f"{name}_lease",
            metadata,
            Column("name", String(64), primary_key=True),
            Column("owner", String(64), nullable=False),
            Column("until_ms", BigInteger, nullable=False),
        )
        self._row = self._table.c
        self._name = name
        self._clock = clock
        self._owner = secrets.token_hex(16)
        self._until = clock.monotonic()

    @property
    def is_held(self) -> bool:
        """Return True if this process may send now."""
        return self._clock.monotonic() < self._until

    def take(self, connection: Connection) -> bool:
        """Take the lease, or hold it for longer once half of it is over; return False if another process has it."""
        since, now_ms = self._clock.monotonic(), self._clock.now_ms()
        if self._until - since > (LENGTH - SPARE) / 2:
            return True
        found = connection.execute(select(self._row.owner, self._row.until_ms).where(self._row.name == self._name))
        holder = found.one_or_none()
        until_ms = now_ms + int(LENGTH * 1000)
        if holder is None:
            taken = self._insert(connection, until_ms)
        elif holder.owner == self._owner or holder.until_ms < now_ms:
            taken = self._update(connection, holder.owner, holder.until_ms, until_ms)
        else:
            taken = False
        self._until = since + LENGTH - SPARE if taken else since
        return taken

    def _insert(self, connection: Connection, until_ms: int) -> bool:
        try:
            connection.execute(insert(self._table).values(name=self._name, owner=self._owner, until_ms=until_ms))
        except IntegrityError:  # another process was quicker
            return False
        return True

    def _update(self, connection: Connection, owner: str, until_ms: int, new_until_ms: int) -> bool:
        row = self._row
        unchanged = update(self._table).where(row.name == self._name, row.owner == owner, row.until_ms == until_ms)
        return connection.execute(unchanged.values(owner=self._owner, until_ms=new_until_ms)).rowcount == 1

    def give_back(self, connection: Connection) -> None:
        """Let another process send at once."""
        self._until = self._clock.monotonic()
        mine = update(self._table).where(self._row.name == self._name, self._row.owner == self._owner)
        connection.execute(mine.values(until_ms=0))
