"""What a set of brokers keeps in etcd, under one prefix for each broker name.

    /pyromq/<cluster>/<broker name>/leader        who is master, with its epoch; on a lease
                                   /epoch         the number of the last epoch; only grows
                                   /set           the in-sync set: store ids, and the epoch whose leader wrote it
                                   /member/<id>   how the log of a broker stands; on its lease

    elect     if there is no leader, and epoch and set are as they were read:  write leader and epoch + 1
    change    if the leader is still the one of this epoch:                    write the set
    resign    if the leader is still the one of this epoch:                    delete leader

Two brokers can never be elected for one epoch, and a deposed leader can change nothing.
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import msgspec
from msgspec import Struct

from pyromq.protocol.bodies.replication import Epoch

T = TypeVar("T")


class Leader(Struct, frozen=True, kw_only=True):
    """Who is master."""

    epoch: int
    store: str
    broker_id: int
    address: str
    ha_address: str


class WrittenSet(Struct, frozen=True, kw_only=True):
    """The in-sync set, and the epoch whose leader wrote it."""

    epoch: int
    members: list[str]


class MemberState(Struct, frozen=True, kw_only=True):
    """How the log of a member stands, as it says itself."""

    store: str
    broker_id: int
    address: str
    is_intact: bool
    """Whether nothing can be lost since it last ran: a clean stop, the same boot of the machine, or SYNC_FLUSH."""
    epochs: list[Epoch]
    end: int


class ClusterView(NamedTuple):
    """All keys of a broker name, as one read found them, with the revisions that a transaction compares."""

    leader: Leader | None
    epoch: int
    epoch_revision: int
    members: list[str] | None
    """The in-sync set; None before the first leader."""
    set_revision: int
    states: dict[str, MemberState]


class Keys(NamedTuple):
    """The names of the keys."""

    prefix: str

    @classmethod
    def of(cls, cluster: str, name: str) -> Keys:
        """Return the keys of a broker name."""
        return cls(f"/pyromq/{cluster}/{name}/")

    @property
    def leader(self) -> str:
        return f"{self.prefix}leader"

    @property
    def epoch(self) -> str:
        return f"{self.prefix}epoch"

    @property
    def in_sync(self) -> str:
        return f"{self.prefix}set"

    def member(self, store: str) -> str:
        return f"{self.prefix}member/{store}"


class KeyValue(NamedTuple):
    """A key as etcd returns it."""

    key: str
    value: bytes
    mod_revision: int


def read_view(keys: Keys, found: list[KeyValue]) -> ClusterView:
    """Put together what a read of the whole prefix returned."""
    by_key = {one.key: one for one in found}
    leader, epoch, in_sync = (by_key.get(key) for key in (keys.leader, keys.epoch, keys.in_sync))
    written = _decode(in_sync, WrittenSet)
    states = [_decode(one, MemberState) for one in found if one.key.startswith(keys.member(""))]
    return ClusterView(
        _decode(leader, Leader),
        int(epoch.value) if epoch is not None else 0,
        epoch.mod_revision if epoch is not None else 0,
        written.members if written is not None else None,
        in_sync.mod_revision if in_sync is not None else 0,
        {state.store: state for state in states if state is not None},
    )


def encode(value: Struct) -> bytes:
    """Write a value for etcd."""
    return msgspec.json.encode(value)


def _decode(found: KeyValue | None, kind: type[T]) -> T | None:
    if found is None:
        return None
    return msgspec.json.decode(found.value, type=kind)
