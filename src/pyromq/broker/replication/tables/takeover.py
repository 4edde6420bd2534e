"""What a slave does with its tables when it becomes master."""

from __future__ import annotations

from pyromq.broker.parts import Parts
from pyromq.broker.tables.all_tables import restore_tables
from pyromq.store.message_store import MessageStore


def take_over_tables(parts: Parts, store: MessageStore) -> None:
    """Make a copy of the master's tables those of a master.

    The master may have died before the row of a new topic arrived here, and before messages arrived that a group had
    already consumed. Locks of before are in force for 60 s from now. Filters of groups that do not come go after a day.
    """
    restore_tables(parts.tables, store, is_copy=True)
    parts.tables.locks.end_copy(parts.clock.monotonic())
    parts.tables.filters.let_go_of_absent(parts.clients.consumers)
