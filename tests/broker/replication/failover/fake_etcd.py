"""An etcd in memory: keys with revisions, transactions, leases that a clock ends. It can be away, and lose answers."""

from __future__ import annotations

from pyromq.broker.replication.failover.etcd_state import EtcdAway, Granted, KeyValue, Transaction
from pyromq.clock import Clock


class FakeEtcd:
    """Keeps keys for any number of coordinators; `FakeLeases` are its leases."""

    def __init__(self, clock: Clock) -> None:
        self.is_away = False
        self.loses_answers = False
        """Whether a transaction is done, but its answer does not arrive."""
        self.keys: dict[str, KeyValue] = {}
        self.leases: dict[int, tuple[int, float]] = {}
        """The seconds of each lease, and when it ends."""
        self.granted = 0
        self.clock = clock
        self._revision = 1

    async def read(self, prefix: str) -> list[KeyValue]:
        self.check()
        return [found for key, found in sorted(self.keys.items()) if key.startswith(prefix)]

    async def commit(self, transaction: Transaction) -> bool:
        self.check()
        done = self._is_so(transaction)
        if done:
            self._revision += 1
            for put in transaction.puts:
                self.keys[put.key] = KeyValue(put.key, put.value, self._revision, put.lease)
            for key in transaction.deletes:
                self.keys.pop(key, None)
        if self.loses_answers:
            raise EtcdAway("the answer was lost")
        return done

    async def close(self) -> None:
        """Nothing is open."""

    def _is_so(self, transaction: Transaction) -> bool:
        found = self.keys.get
        return all(
            (one.mod_revision if (one := found(key)) else 0) == revision
            for key, revision in transaction.revisions.items()
        ) and all((one := found(key)) is not None and one.value == value for key, value in transaction.values.items())

    def check(self) -> None:
        """Raise EtcdAway if it is away; end the leases that are over."""
        if self.is_away:
            raise EtcdAway("it is away")
        for lease, (_, until) in list(self.leases.items()):
            if until < self.clock.monotonic():
                self.end_lease(lease)

    def end_lease(self, lease: int) -> None:
        """Forget a lease, and the keys on it."""
        self.leases.pop(lease, None)
        self.keys = {key: found for key, found in self.keys.items() if not lease or found.lease != lease}


class FakeLeases:
    """The leases of one broker."""

    def __init__(self, etcd: FakeEtcd) -> None:
        self._etcd = etcd

    def grant(self, seconds: int) -> Granted:
        self._etcd.check()
        self._etcd.granted += 1
        return self._renewed(self._etcd.granted, seconds)

    def keep_alive(self, lease: int) -> Granted:
        self._etcd.check()
        known = self._etcd.leases.get(lease)
        return self._renewed(lease, known[0]) if known else Granted(lease, 0)

    def revoke(self, lease: int) -> None:
        self._etcd.check()
        self._etcd.end_lease(lease)

    def close(self) -> None:
        """Nothing is open."""

    def _renewed(self, lease: int, seconds: int) -> Granted:
        self._etcd.leases[lease] = (seconds, self._etcd.clock.monotonic() + seconds)
        return Granted(lease, seconds)
