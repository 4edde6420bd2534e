"""What the in-sync set means for sends and for what is visible: the link between the slaves' reports and the set.

a report arrives     the set notes it; what every member has now is visible, and its sends are acknowledged
the set changes      the same: fewer or more have to have a message
the lease is over    unless every member has confirmed just now, the answers that wait say "unknown" (14)
"""

from __future__ import annotations

from collections.abc import Callable

from pyromq.broker.messages.durability import Copies
from pyromq.broker.replication.failover.in_sync_set import InSyncSet
from pyromq.broker.replication.failover.lease import Lease
from pyromq.broker.replication.ha_server import HaServer
from pyromq.broker.replication.slave_link import SlaveLink
from pyromq.broker.signals import Signal
from pyromq.clock import Clock
from pyromq.store.message_store import MessageStore
from pyromq.store.write.visibility import EVERYTHING


class InSyncReplicas:
    """The slaves of one epoch, as its leader sees them; from `open` to `close`."""

    def __init__(
        self,
        members: InSyncSet,
        lease: Lease,
        lease_id: int,
        server: HaServer,
        store: MessageStore,
        clock: Clock,
        has_tables: Callable[[int], bool],
        *,
        waits: bool = True,
    ) -> None:
        """`waits` is whether sends, and consumers, wait for the slaves, `has_tables` whether one follows the tables."""
        self.changed: Signal[[]] = Signal()
        """More may be acknowledged, or nothing any more."""
        self.set = members
        self.lease_id = lease_id
        """The lease that the leader's key is on; a newer one says nothing of who leads."""
        self._lease = lease
        self._server = server
        self._store = store
        self._clock = clock
        self._has_tables = has_tables
        self.waits = waits
        self._is_over = False
        self._unsubscribe: tuple[Callable[[], None], ...] = ()

    def open(self) -> None:
        """Listen to the slaves; before the first message is taken."""
        self._unsubscribe = (
            self._server.reported_by.subscribe(self._reported),
            self._server.left_by.subscribe(self._left),
        )
        self.look()

    def close(self) -> None:
        """Hear of nothing any more, and show nothing more: the next leader says what is confirmed."""
        for unsubscribe in self._unsubscribe:
            unsubscribe()
        self._unsubscribe = ()
        self._store.confirm(self._store.confirm_offset)

    # --- asked

    def copies(self, end: int) -> Copies:
        """Return whether every member of the set has the log up to an end."""
        return self.set.copies(end)

    @property
    def is_fenced(self) -> bool:
        """Whether another may have been elected: the lease is over, and not every member has confirmed just now."""
        if self._is_over:
            return True
        return not self._lease.holds(self.lease_id) and not self.set.stands_without_lease(self._clock.monotonic())

    @property
    def has_shown_all(self) -> bool:
        """Whether all that is in the log is confirmed, and visible."""
        return self._store.confirm_offset >= self._store.max_physical_offset

    def end(self) -> None:
        """This broker leads no more: nothing that waits can be promised."""
        self._is_over = True
        self.changed()

    # --- told

    def look(self) -> None:
        """Show what every member has, after a report or a change of the set."""
        self._store.confirm(self.set.common_end if self.waits else EVERYTHING)
        self.changed()

    def _reported(self, link: SlaveLink) -> None:
        if link.hello is not None:
            has_tables = self._has_tables(link.hello.broker_id)
            now = self._clock.monotonic()
            self.set.confirmed(link.hello.store, link.acknowledged, now, has_tables=has_tables)
            self.look()

    def _left(self, link: SlaveLink) -> None:
        if link.hello is not None:
            self.set.gone(link.hello.store)
