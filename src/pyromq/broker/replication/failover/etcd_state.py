"""What a set of brokers keeps in etcd, under one prefix for each broker name.

    /pyromq/<cluster>/<broker name>/leader        who is master, with its epoch; on a lease
                                   /epoch         the number of the last epoch; only grows
                                   /set           the in-sync set: store ids, and an epoch that all have known
                                   /member/<id>   how the log of a broker stands; on its lease
                                   /next          whom a leader that resigns wants to be elected

    elect     if there is no leader, and epoch and set are as they were read:  write leader and epoch
    reclaim   if there is no leader, and the epoch is still its own:           write leader, on another lease
    change    if the leader is still the one of this epoch, and the set as it was read:   write the set
    resign    if the leader is still the one of this epoch:                    delete leader
    leave     the same, if the set is as it was read too:                      delete leader, write the set without it

Two brokers can never be elected for one epoch, and a deposed leader can change nothing. Whoever does not hear whether a
change of the set was made tries the very same again: once it has an answer, nothing of it can be under way any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeVar

import msgspec
from msgspec import Struct

from pyromq.errors import PyroMQError
from pyromq.protocol.bodies.replication import Epoch

T = TypeVar("T")


class EtcdAway(PyroMQError):
    """No endpoint of etcd gave an answer that can be used: whether a transaction was done is not known."""


class Granted(NamedTuple):
    """A lease, and for how many seconds etcd keeps it."""

    id: int
    seconds: int


class Leader(Struct, frozen=True, kw_only=True):
    """Who is master."""

    epoch: int
    store: str
    broker_id: int
    address: str
    ha_address: str


class WrittenSet(Struct, frozen=True, kw_only=True):
    """The in-sync set, and an epoch that every member has known."""

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
    preferred: str = ""
    """The store of whom the last leader wanted as its successor."""
    leader_lease: int = 0
    """The lease that the leader's key is on."""
    leader_revision: int = 0
    set_epoch: int = 0
    """An epoch that every member of the set has known."""


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

    @property
    def preferred(self) -> str:
        return f"{self.prefix}next"

    def member(self, store: str) -> str:
        return f"{self.prefix}member/{store}"


class KeyValue(NamedTuple):
    """A key as etcd returns it."""

    key: str
    value: bytes
    mod_revision: int
    lease: int = 0


class Put(NamedTuple):
    """A key to write; on a lease, unless that is 0."""

    key: str
    value: bytes
    lease: int = 0


class Transaction(NamedTuple):
    """What is done, all or nothing, if everything is as compared. A key that does not exist has the revision 0."""

    revisions: Mapping[str, int] = {}
    values: Mapping[str, bytes] = {}
    puts: tuple[Put, ...] = ()
    deletes: tuple[str, ...] = ()


def elect(
    keys: Keys, view: ClusterView, leader: Leader, lease: int, *, known_epoch: int = 0, is_forced: bool = False
) -> Transaction:
    """Make a broker the leader of a new epoch, if nothing has changed since the view was read, which had no leader.

    One that an operator forces may depose a leader, and is alone in the set: whatever others have, it does not count
    any more. `known_epoch` is the last one that its disk has: it may die before it stores the new one.
    """
    puts = [Put(keys.leader, encode(leader), lease), Put(keys.epoch, str(leader.epoch).encode())]
    if view.members is None or is_forced:
        puts.append(Put(keys.in_sync, encode(WrittenSet(epoch=known_epoch, members=[leader.store]))))
    revisions = {
        keys.leader: view.leader_revision if is_forced else 0,
        keys.epoch: view.epoch_revision,
        keys.in_sync: view.set_revision,
    }
    return Transaction(revisions, puts=tuple(puts), deletes=(keys.preferred,))


def reclaim(keys: Keys, leader: Leader, lease: int) -> Transaction:
    """Write the leader's key again, whose lease has ended, if nobody was elected since."""
    values = {keys.epoch: str(leader.epoch).encode()}
    return Transaction({keys.leader: 0}, values, (Put(keys.leader, encode(leader), lease),))


def move_lease(keys: Keys, leader: Leader, lease: int) -> Transaction:
    """Put the leader's key on another lease."""
    return Transaction(values={keys.leader: encode(leader)}, puts=(Put(keys.leader, encode(leader), lease),))


def change_set(keys: Keys, leader: Leader, members: Iterable[str], set_revision: int, known_epoch: int) -> Transaction:
    """Write the in-sync set, as its leader; `known_epoch` is one that all members have known."""
    written = WrittenSet(epoch=known_epoch, members=sorted(members))
    return Transaction(
        {keys.in_sync: set_revision}, {keys.leader: encode(leader)}, (Put(keys.in_sync, encode(written)),)
    )


def resign(keys: Keys, leader: Leader, successor: str = "") -> Transaction:
    """Lead no more; name a successor, if there is one."""
    puts = (Put(keys.preferred, successor.encode()),) if successor else ()
    return Transaction(values={keys.leader: encode(leader)}, puts=puts, deletes=(keys.leader,))


def leave(keys: Keys, view: ClusterView, leader: Leader, successor: str) -> Transaction:
    """Lead no more, and be no member any more, if others are: the next leader waits for nobody who has gone."""
    resigned = resign(keys, leader, successor)
    members = sorted(set(view.members or ()) - {leader.store})
    rest = WrittenSet(epoch=view.set_epoch, members=members)
    return resigned._replace(
        revisions={keys.in_sync: view.set_revision}, puts=(*resigned.puts, Put(keys.in_sync, encode(rest)))
    )


def announce(keys: Keys, state: MemberState, lease: int) -> Transaction:
    """Tell how the log of a member stands."""
    return Transaction(puts=(Put(keys.member(state.store), encode(state), lease),))


def read_view(keys: Keys, found: list[KeyValue]) -> ClusterView:
    """Put together what a read of the whole prefix returned."""
    by_key = {one.key: one for one in found}
    leader, epoch, in_sync = (by_key.get(key) for key in (keys.leader, keys.epoch, keys.in_sync))
    written = _decode(in_sync, WrittenSet)
    preferred = by_key.get(keys.preferred)
    states = [_decode(one, MemberState) for one in found if one.key.startswith(keys.member(""))]
    return ClusterView(
        _decode(leader, Leader),
        int(epoch.value) if epoch is not None else 0,
        epoch.mod_revision if epoch is not None else 0,
        written.members if written is not None else None,
        in_sync.mod_revision if in_sync is not None else 0,
        {state.store: state for state in states if state is not None},
        preferred.value.decode() if preferred is not None else "",
        leader.lease if leader is not None else 0,
        leader.mod_revision if leader is not None else 0,
        written.epoch if written is not None else 0,
    )


def encode(value: Struct) -> bytes:
    """Write a value for etcd."""
    return msgspec.json.encode(value)


def _decode(found: KeyValue | None, kind: type[T]) -> T | None:
    if found is None:
        return None
    return msgspec.json.decode(found.value, type=kind)
