"""A model of election, in-sync set and fencing: the real state machines, a simulated etcd, network and crashes.

Each broker is a log of values with epochs; etcd is a dictionary with transactions that may succeed without the broker
hearing of it. Steps happen in any order: sends, copies that are delayed, elections, pauses in which a master believes
what was true long ago, crashes, and power cuts that take what was not flushed. What must hold at all times:

- a value that was acknowledged (0) is in the log of every broker that becomes master later, at the same place, unless
  all members of the set lost their power: then whoever has most of it is elected;
- a slave's log is the beginning of its master's;
- no deposed master acknowledges anything that it was asked after its successor took its first message;
- one place of the log that was visible somewhere never holds another value later.
"""

from __future__ import annotations

import os
import random
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from pyromq.broker.messages.durability import Copies
from pyromq.broker.replication.epochs import common_end
from pyromq.broker.replication.failover.election import objection
from pyromq.broker.replication.failover.etcd_state import ClusterView, Leader, MemberState
from pyromq.broker.replication.failover.in_sync_set import OUT_AFTER, InSyncSet
from pyromq.protocol.bodies.replication import Epoch

BROKERS = 3
WHO = st.integers(0, BROKERS - 1)


class Etcd:
    """The keys of one broker name."""

    def __init__(self) -> None:
        self.leader: Leader | None = None
        self.epoch = 0
        self.members: list[str] | None = None
        self.set_revision = 0

    def view(self, states: dict[str, MemberState]) -> ClusterView:
        return ClusterView(self.leader, self.epoch, self.epoch, self.members, self.set_revision, states)

    def elect(self, view: ClusterView, leader: Leader) -> bool:
        if self.leader is not None or (self.epoch, self.set_revision) != (view.epoch, view.set_revision):
            return False
        self.leader, self.epoch = leader, leader.epoch
        if self.members is None:
            self.members, self.set_revision = [leader.store], self.set_revision + 1
        return True

    def change(self, epoch: int, members: frozenset[str]) -> bool:
        if self.leader is None or self.leader.epoch != epoch:
            return False
        self.members, self.set_revision = sorted(members), self.set_revision + 1
        return True


class Node:
    """One broker: what is on its disk, and what it is while it runs."""

    def __init__(self, number: int) -> None:
        self.store = f"s{number}"
        self.number = number
        self.log: list[str] = []
        self.durable = 0
        self.epochs: list[Epoch] = []
        self.stored_epochs: list[Epoch] = []
        """Those before the last election, for a fault that is planted."""
        self.is_intact = True
        self.runs = True
        self.leads: int | None = None
        self.set: InSyncSet | None = None
        self.follows: tuple[int, int] | None = None
        self.goal = 0
        """Where its master's log ended when it began to follow."""
        self.waiting: list[tuple[int, str]] = []

    def state(self) -> MemberState:
        return MemberState(
            store=self.store,
            broker_id=self.number + 1,
            address=self.store,
            is_intact=self.is_intact,
            epochs=self.epochs,
            end=len(self.log),
        )


class Failover(RuleBasedStateMachine):
    """All brokers of one name, with everything that can happen to them."""

    def __init__(self) -> None:
        super().__init__()
        self.etcd = Etcd()
        self.nodes = [Node(number) for number in range(BROKERS)]
        self.now = 0.0
        self.count = 0
        self.acknowledged: dict[int, str] = {}
        self.visible: dict[int, str] = {}
        self.served = 0
        """The newest epoch in which a message was taken."""

    # --- masters

    @rule(who=WHO)
    def campaign(self, who: int) -> None:
        node = self.nodes[who]
        if not node.runs:
            return
        states = {one.store: one.state() for one in self.nodes if one.runs}
        view = self.etcd.view(states)
        if objection(node.state(), view):
            return
        leader = Leader(
            epoch=view.epoch + 1, store=node.store, broker_id=who + 1, address=node.store, ha_address=node.store
        )
        if not self.etcd.elect(view, leader):
            return
        node.follows = None  # it confirms nothing of an older epoch ever again
        node.epochs = [epoch for epoch in node.epochs if epoch.start < len(node.log)]
        node.epochs.append(Epoch(leader.epoch, f"{leader.epoch}-{who}", len(node.log)))
        node.leads, node.set, node.waiting = leader.epoch, InSyncSet(node.store, self.etcd.members or [], self.now), []
        if not node.is_intact:
            self._give_up_what_all_lost(node)
        node.is_intact = True
        for place, value in self.acknowledged.items():
            assert node.log[place : place + 1] == [value], f"{node.store} is master without {value}"

    def _give_up_what_all_lost(self, elected: Node) -> None:
        """All members of the set lost their power: what the one with the longest history lacks is gone."""
        members = [node for node in self.nodes if node.store in (self.etcd.members or [])]
        assert not any(node.is_intact for node in members), f"{elected.store} is master, and another lost nothing"
        for promised in (self.acknowledged, self.visible):
            gone = [place for place, value in promised.items() if elected.log[place : place + 1] != [value]]
            for place in gone:
                value = promised.pop(place)
                owners = [node.store for node in members if node.log[place : place + 1] == [value]]
                assert not owners or promised is self.visible, f"{elected.store} has not {value}, which {owners} have"

    @rule(who=WHO)
    def send(self, who: int) -> None:
        node = self.nodes[who]
        if node.leads is None or not node.runs:
            return
        self.count += 1
        value = f"v{self.count}"
        node.log.append(value)
        self.served = max(self.served, node.leads)
        node.waiting.append((len(node.log), value))

    @rule(who=WHO)
    def answer(self, who: int) -> None:
        """A master answers what it may, believing what it was told last, whenever that was."""
        node = self.nodes[who]
        if node.set is None or not node.runs:
            return
        while node.waiting and node.set.copies(node.waiting[0][0]) is Copies.COMPLETE:
            end, value = node.waiting.pop(0)
            assert self.acknowledged.setdefault(end - 1, value) == value
        limit = min(node.set.common_end, len(node.log)) if node.set.others else len(node.log)
        if node.set.others or (self.etcd.leader and self.etcd.leader.epoch == node.leads):
            for place in range(limit):
                assert self.visible.setdefault(place, node.log[place]) == node.log[place]

    @rule(who=WHO, is_heard=st.booleans(), hands_over=st.booleans())
    def change_set(self, who: int, is_heard: bool, hands_over: bool = False) -> None:
        """A leader writes a change of the set; it may not hear whether that was done, and asks again later."""
        node = self.nodes[who]
        if node.set is None or node.leads is None or not node.runs:
            return
        slow = node.set.lacking(len(node.log)) if hands_over else frozenset()
        wanted = node.set.propose_without(slow) if hands_over else node.set.propose(len(node.log), self.now)
        if wanted is not None:
            self.etcd.change(node.leads, wanted)
        if is_heard and self.etcd.leader is not None and self.etcd.leader.epoch == node.leads:
            node.set.settled(self.etcd.members or [])

    # --- slaves

    @rule(who=WHO)
    def follow(self, who: int) -> None:
        """A slave asks who leads, cuts its log to the common history, and connects."""
        node, leader = self.nodes[who], self.etcd.leader
        if not node.runs or leader is None or leader.store == node.store:
            return
        master = self.nodes[leader.broker_id - 1]
        if not master.runs or master.leads != leader.epoch:
            return
        node.leads = node.set = None
        end = common_end(node.epochs, len(node.log), master.epochs, len(master.log))
        node.log = node.log[: end if end is not None else 0] if node.log else []
        node.durable = min(node.durable, len(node.log))
        node.epochs = list(master.epochs)
        node.follows, node.goal = (leader.broker_id - 1, leader.epoch), len(master.log)

    @rule(who=WHO, count=st.integers(0, 3))
    def copy(self, who: int, count: int) -> None:
        """Some bytes arrive at a slave, and its report at the master of that epoch, if both are what they were."""
        node = self.nodes[who]
        if node.follows is None or not node.runs:
            return
        master, epoch = self.nodes[node.follows[0]], node.follows[1]
        if not master.runs or master.leads != epoch or master.set is None:
            return
        assert node.log == master.log[: len(node.log)], f"the log of {node.store} is mixed"
        node.log += master.log[len(node.log) :][:count]
        node.is_intact = node.is_intact or len(node.log) >= node.goal
        master.set.confirmed(node.store, len(node.log), self.now)

    @rule(who=WHO)
    def flush(self, who: int) -> None:
        node = self.nodes[who]
        node.durable = len(node.log)

    @rule()
    def calm(self) -> None:
        """For a while all is well: there is a leader, slaves copy, the set becomes complete, a message is stored."""
        for who in range(BROKERS):
            self.campaign(who)
        leader = self.etcd.leader
        if leader is None:
            return
        master = leader.broker_id - 1
        for _ in range(3):
            for who in range(BROKERS):
                if self.nodes[who].follows != (master, leader.epoch):
                    self.follow(who)
                self.copy(who, 1 << 20)
            self.change_set(master, True)
        self.send(master)
        for who in range(BROKERS):
            self.copy(who, 1 << 20)
        self.answer(master)

    # --- what goes wrong

    @rule()
    def lease_ends(self) -> None:
        """Etcd forgets the leader, whatever that one believes."""
        self.etcd.leader = None

    @rule(seconds=st.sampled_from([0.3, OUT_AFTER + 0.1]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule(who=WHO)
    def crash(self, who: int) -> None:
        """A process dies: its log stays."""
        node = self.nodes[who]
        node.runs, node.leads, node.set, node.follows, node.waiting = False, None, None, None, []

    @rule(who=WHO)
    def stop(self, who: int) -> None:
        """A process ends as it should: a leader resigns, and leaves the set if another is in it."""
        node, leader = self.nodes[who], self.etcd.leader
        if node.runs and leader is not None and (leader.store, leader.epoch) == (node.store, node.leads):
            rest = frozenset(self.etcd.members or ()) - {node.store}
            if rest:
                self.etcd.change(leader.epoch, rest)
            self.etcd.leader = None
        self.crash(who)

    @rule(who=WHO)
    def cut_power(self, who: int) -> None:
        """A machine stops: what was not flushed is gone, and its broker knows that something may be."""
        self.crash(who)
        node = self.nodes[who]
        node.log, node.is_intact = node.log[: node.durable], False

    @rule()
    def cut_all_power(self) -> None:
        for who in range(BROKERS):
            self.cut_power(who)

    @rule(who=WHO)
    def restart(self, who: int) -> None:
        self.nodes[who].runs = True

    @rule(who=WHO)
    def replace_disk(self, who: int) -> None:
        """A new disk is a new member."""
        node = self.nodes[who]
        if node.runs:
            return
        self.count += 1
        node.store, node.log, node.epochs, node.is_intact = f"s{who}-{self.count}", [], [], True
        node.durable = 0

    @invariant()
    def one_leader_takes_messages_that_count(self) -> None:
        """Of two masters that run, only the newest can ever be confirmed by every member of its set."""
        members = self.etcd.members
        if members is not None:
            for place, value in self.acknowledged.items():
                for node in self.nodes:
                    if node.store in members and node.is_intact:
                        assert node.log[place : place + 1] == [value], f"{value} is missing in {node.store}"


_EXAMPLES = int(os.environ.get("PYROMQ_MODEL_EXAMPLES", "60"))
_SETTINGS = settings(
    max_examples=_EXAMPLES, stateful_step_count=60, deadline=None, suppress_health_check=list(HealthCheck)
)
TestFailover: Any = Failover.TestCase
TestFailover.settings = _SETTINGS


# --- planted faults: each is found


class _WaitsForOne(InSyncSet):
    """One of two is enough, as for Apache's SYNC_MASTER."""

    @property
    def common_end(self) -> int:
        return max((self._ends.get(member, 0) for member in self.others), default=1 << 62)


class _ChangesLate(InSyncSet):
    """One who joins is not waited for before the change is written."""

    @property
    def others(self) -> frozenset[str]:
        return self.written - {self.me}


class _JoinsAtOnce(InSyncSet):
    """One who joins may lack what was acknowledged before."""

    def _join(self, log_end: int, now: float) -> None:
        super()._join(log_end, now)
        self._joining = dict.fromkeys(self._joining, 0)


class _LeavesBeforeItIsWritten(InSyncSet):
    """One who leaves is forgotten as soon as that is proposed."""

    def propose(self, log_end: int, now: float) -> frozenset[str] | None:
        wanted = super().propose(log_end, now)
        if wanted is not None:
            self.written = wanted
        return wanted


class _ConfirmsBeforeItHas(Failover):
    """A slave confirms what it was sent before it has it."""

    @rule(who=WHO)
    def boast(self, who: int) -> None:
        node = self.nodes[who]
        if node.follows is not None and node.runs:
            master = self.nodes[node.follows[0]]
            if master.set is not None and master.leads == node.follows[1]:
                master.set.confirmed(node.store, len(master.log), self.now)


class _ConfirmsForTwo(Failover):
    """A broker that was elected goes on confirming to the master of before."""

    @rule(who=WHO)
    def campaign(self, who: int) -> None:
        follows = self.nodes[who].follows
        super().campaign(who)
        if self.nodes[who].leads is not None:
            self.nodes[who].follows = follows

    @rule(who=WHO)
    def confirm_anyway(self, who: int) -> None:
        node = self.nodes[who]
        if node.follows is not None and node.runs:
            master = self.nodes[node.follows[0]]
            if master.set is not None:
                master.set.confirmed(node.store, len(master.log), self.now)


class _ElectsStrangers(Failover):
    """Whoever asks first is elected, in the set or not."""

    @rule(who=WHO)
    def campaign(self, who: int) -> None:
        members, self.etcd.members = self.etcd.members, None
        super().campaign(who)
        self.etcd.members = members or self.etcd.members


class _ForgetsPowerCuts(Failover):
    """A machine that lost its power takes itself for one that lost nothing."""

    @rule(who=WHO)
    def cut_power(self, who: int) -> None:
        super().cut_power(who)
        self.nodes[who].is_intact = True


class _LosesEpochs(Failover):
    """The epoch of an election is not stored: a crash takes it."""

    @rule(who=WHO)
    def campaign(self, who: int) -> None:
        node = self.nodes[who]
        before, led = node.epochs, node.leads
        super().campaign(who)
        if node.leads is not None and node.leads != led:
            node.stored_epochs = before

    @rule(who=WHO)
    def crash(self, who: int) -> None:
        node = self.nodes[who]
        if node.leads is not None:
            node.epochs = node.stored_epochs
        super().crash(who)


def _with_set(kind: type[InSyncSet]) -> type[Failover]:
    class Faulty(Failover):
        @rule(who=WHO)
        def campaign(self, who: int) -> None:
            before = self.nodes[who].set
            super().campaign(who)
            made = self.nodes[who].set
            if made is not None and made is not before:
                self.nodes[who].set = kind(made.me, made.written, self.now)

    return Faulty


# How often each step is taken in a random walk: enough calm for something to be lost, enough trouble to lose it.
_STEPS: dict[str, float] = {
    "calm": 1.5, "campaign": 6, "send": 12, "answer": 12, "change_set": 12, "follow": 10, "copy": 24, "flush": 6,
    "lease_ends": 1, "time_passes": 6, "crash": 1.5, "stop": 0.7, "restart": 8, "replace_disk": 0.3, "cut_power": 0.3,
    "cut_all_power": 0.1, "boast": 6, "confirm_anyway": 6,
}  # fmt: skip
_OF_ALL = ("calm", "lease_ends", "time_passes", "cut_all_power")


def walk(machine: type[Failover], seed: int, steps: int) -> None:
    """Take steps by chance; raise AssertionError at the first that breaks a promise."""
    chance = random.Random(seed)
    model = machine()
    names = [name for name in _STEPS if hasattr(model, name)]
    weights = [_STEPS[name] for name in names]
    for name in chance.choices(names, weights, k=steps):
        arguments: dict[str, Any] = {} if name in _OF_ALL else {"who": chance.randrange(BROKERS)}
        if name == "copy":
            arguments["count"] = chance.choice((0, 1, 1 << 20))
        elif name == "change_set":
            arguments |= {"is_heard": chance.random() < 0.4, "hands_over": chance.random() < 0.2}
        elif name == "time_passes":
            arguments["seconds"] = chance.choice((0.3, OUT_AFTER + 0.1))
        getattr(model, name)(**arguments)
        model.one_leader_takes_messages_that_count()


def walk_often(machine: type[Failover], walks: int) -> None:
    for seed in range(walks):
        walk(machine, seed, 200)


def test_no_random_walk_breaks_a_promise() -> None:
    walk_often(Failover, int(os.environ.get("PYROMQ_MODEL_WALKS", "100")))


@pytest.mark.parametrize(
    "machine",
    [
        _with_set(_WaitsForOne),
        _with_set(_ChangesLate),
        _with_set(_JoinsAtOnce),
        _with_set(_LeavesBeforeItIsWritten),
        _ConfirmsBeforeItHas,
        _ConfirmsForTwo,
        _ElectsStrangers,
        _ForgetsPowerCuts,
        _LosesEpochs,
    ],
    ids=[
        "one of two",
        "changed late",
        "joins with holes",
        "leaves early",
        "confirms early",
        "no fence",
        "stranger",
        "power cut forgotten",
        "epoch not stored",
    ],
)
def test_a_planted_fault_is_found(machine: type[Failover]) -> None:
    with pytest.raises(AssertionError):
        walk_often(machine, 2_000)
