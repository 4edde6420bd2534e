"""KnownLeader: who leads, as far as this broker knows. The coordinator says so, and the follower goes there."""

from __future__ import annotations

from pyromq.broker.registration import KnownMaster
from pyromq.broker.replication.failover.etcd_state import Leader


class KnownLeader:
    """Who leads the brokers of one name; nobody, at first."""

    def __init__(self, me: str) -> None:
        """`me` is the id of this broker's store."""
        self.leader: Leader | None = None
        self._me = me

    @property
    def epoch(self) -> int:
        """The number of the leader's epoch; 0 if nobody leads."""
        return self.leader.epoch if self.leader is not None else 0

    @property
    def master(self) -> KnownMaster:
        """Whom to follow; empty if nobody leads, or this broker does."""
        if self.leader is None or self.leader.store == self._me:
            return KnownMaster("", "")
        return KnownMaster(self.leader.address, self.leader.ha_address)
