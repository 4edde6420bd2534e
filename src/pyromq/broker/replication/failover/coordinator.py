"""Coordinator: asks etcd who is master, several times a second, and makes this broker what it should be.

    there is a leader, another broker        follow it
    there is none, and this one may lead     stand for election; elected, begin the epoch and take messages
    this one leads                           keep the in-sync set right; step down once somebody else may lead

Etcd away changes nothing by itself: slaves go on following, and a leader whose members all confirm goes on leading
(in_sync_replicas says when it must not). What is decided here is checked again where it counts: in the transactions of
etcd_state, and by slaves, which confirm for one epoch only.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple, Protocol

from pyromq.broker.replication.epochs import EpochFile
from pyromq.broker.replication.failover.election import objection
from pyromq.broker.replication.failover.etcd_state import (
    ClusterView,
    EtcdAway,
    Keys,
    KeyValue,
    Leader,
    MemberState,
    Transaction,
    announce,
    change_set,
    elect,
    leave,
    move_lease,
    read_view,
    reclaim,
    resign,
)
from pyromq.broker.replication.failover.in_sync_replicas import InSyncReplicas
from pyromq.broker.replication.failover.in_sync_set import InSyncSet
from pyromq.broker.replication.failover.known_leader import KnownLeader
from pyromq.broker.replication.failover.lease import Lease
from pyromq.broker.replication.follower import Follower
from pyromq.broker.replication.ha_server import HaServer
from pyromq.broker.replication.last_run import LastRun
from pyromq.broker.signals import Signal
from pyromq.clock import Clock, wait_for
from pyromq.errors import PyroMQError
from pyromq.protocol.bodies.replication import LastFailover
from pyromq.store.message_store import MessageStore

logger = logging.getLogger(__name__)

_POLL: Final = 0.25
_SOON: Final = 0.05
"""How often etcd is asked while a leader is awaited, or goes to work."""
_AWAITED: Final = 5.0
"""For how long a leader is awaited so eagerly."""
_ANNOUNCE_END_AFTER: Final = 5.0
"""How old the end of the log may be that etcd has of a member, while there is a leader."""
_WAIT_FOR_PREFERRED: Final = 1.0
"""How long others let the one stand that a leader wanted as its successor."""
_WAIT_FOR_MASTER: Final = 5.0
"""How long one that was a slave waits for its old master to appear, before there ever was a leader."""
_RESIGN_TIMEOUT: Final = 3.0
_PROMPT: Final = 0.2
"""Seconds within which members have to confirm before a handover: it waits for each of them, and so does its heir."""


class Etcd(Protocol):
    """What keeps the keys."""

    async def read(self, prefix: str) -> list[KeyValue]: ...

    async def commit(self, transaction: Transaction) -> bool: ...

    async def close(self) -> None: ...


class Roles(Protocol):
    """What a coordinator does to its broker."""

    async def lead(self, epoch: int, replicas: InSyncReplicas) -> None:
        """Become master of an epoch that is stored on disk, for slaves: it takes no messages yet; raise PyroMQError."""

    async def take_messages(self) -> None:
        """Take messages, and go on with what waits in the log: all of it is visible now; raise PyroMQError."""

    async def follow(self) -> None:
        """Become slave: let the answers leave that wait, and follow who leads."""


class Identity(NamedTuple):
    """Who a broker is to others."""

    broker_id: int
    address: str
    ha_address: str


class Coordinator:
    """Decides the role of one broker, from `start` to `stop`."""

    def __init__(
        self,
        keys: Keys,
        etcd: Etcd,
        lease: Lease,
        clock: Clock,
        *,
        identity: Identity,
        roles: Roles,
        epochs: EpochFile,
        store: MessageStore,
        follower: Follower,
        server: HaServer,
        known: KnownLeader,
        last_run: LastRun,
        has_tables: Callable[[int], bool] = lambda broker_id: True,
        waits_for_slaves: bool = True,
    ) -> None:
        """`has_tables` says whether a slave follows the tables too, by its id."""
        self.replicas: InSyncReplicas | None = None
        """The slaves, while this broker leads."""
        self.known = known
        """Who leads, as far as this broker knows; itself, while it does."""
        self.problem = ""
        """Why this broker neither leads nor follows; empty if it does."""
        self.elected: Signal[[LastFailover]] = Signal()
        """This broker has become master."""
        self.in_sync_ids: list[str] = []
        """The ids of the slaves in the set, as far as they are known."""
        self._keys = keys
        self._etcd = etcd
        self._lease = lease
        self._clock = clock
        self._identity = identity
        self._roles = roles
        self._epochs = epochs
        self._store = store
        self._follower = follower
        self._server = server
        self._last_run = last_run
        self._is_intact = last_run.is_intact(store.waits_for_flush)
        self._has_tables = has_tables
        self._waits_for_slaves = waits_for_slaves
        self._announced: tuple[MemberState, int] | None = None
        self._announced_at = 0.0
        self._leaderless_since: float | None = None
        self._set_revision = 0
        self._wanted: frozenset[str] | None = None
        self.is_away = False
        """Whether etcd did not answer when it was last asked."""
        self._is_forced = False
        self._is_stopping = False
        self._led_until: float | None = None
        self._takes_messages = False
        self._began, self._waited = 0.0, 0.0
        self._turn = asyncio.Lock()
        self._woken = asyncio.Event()
        follower.lost.subscribe(self._woken.set)
        self._task: asyncio.Task[None] | None = None

    # --- life

    def start(self) -> None:
        """Begin to ask etcd, and to act on what it says."""
        self._lease.start()
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Hand over to a member of the set, if this broker leads, and take part no more."""
        self._is_stopping = True
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        await self.hand_over()
        await asyncio.to_thread(self._lease.stop)
        await self._etcd.close()

    async def hand_over(self, successor: str = "") -> None:
        """Lead no more: answer what waits, then let a member of the set be elected, at best the one that is named."""
        async with self._turn:
            await self._hand_over(successor)

    async def _hand_over(self, successor: str) -> None:
        replicas, leader = self.replicas, self.known.leader
        if replicas is None or leader is None:
            return
        heirs = replicas.set.heirs(self._clock.monotonic())  # before their connections end
        chosen = successor or next(iter(heirs), "")
        if chosen:
            await self._let_the_slow_go(leader, replicas, chosen)
        await self._roles.follow()  # drains: every answer that waits has what it needs, or its time is up
        self._end(replicas)
        self._woken.set()
        try:
            await wait_for(self._clock, self._resign(leader, replicas.set, chosen), _RESIGN_TIMEOUT)
        except (EtcdAway, TimeoutError) as error:
            logger.warning("could not resign, the lease has to run out: %s", error)

    async def _let_the_slow_go(self, leader: Leader, replicas: InSyncReplicas, successor: str) -> None:
        """Have members leave the set that lag, or are gone, while this broker still takes messages.

        They join the next leader's when they can.
        """
        end = self._store.max_physical_offset
        deadline = self._clock.monotonic() + _PROMPT
        while replicas.set.lacking(end) and self._clock.monotonic() < deadline:
            await self._clock.sleep(_PROMPT / 20)
        gone = replicas.set.others.difference(replicas.set.heirs(self._clock.monotonic()))
        slow = (replicas.set.lacking(end) | gone) - {successor}
        if not slow or self._wanted is not None:
            return
        try:
            view = read_view(self._keys, await self._etcd.read(self._keys.prefix))
            self._wanted, self._set_revision = replicas.set.propose_without(slow), view.set_revision
            if self._wanted is not None:
                await self._change_set(view, leader, replicas)
            replicas.look()
        except EtcdAway as error:
            logger.warning("the handover waits for all members of the set: %s", error)

    async def _resign(self, leader: Leader, members: InSyncSet, successor: str) -> None:
        """Lead no more. Leave the set too, if this broker stops, or if the successor is not alone in it then.

        So the successor waits for nobody who has gone, and for no slave that has to be made of a master first.
        """
        if successor and (self._is_stopping or len(members.written) > 2):
            view = read_view(self._keys, await self._etcd.read(self._keys.prefix))
            if successor in (view.members or ()) and await self._etcd.commit(
                leave(self._keys, view, leader, successor)
            ):
                return
        await self._etcd.commit(resign(self._keys, leader, successor))

    def force(self, wanted: bool = True) -> None:
        """Have this broker elected, whoever leads and whatever it lacks: an operator takes the loss.

        Not `wanted` any more: the operator was told that it failed, and may have chosen another.
        """
        self._is_forced = wanted

    async def _run(self) -> None:
        while not self._is_stopping:  # a request may end by itself just when it is cancelled
            await self.look()
            self._woken.clear()
            with suppress(TimeoutError):
                await wait_for(self._clock, self._woken.wait(), self.pause)

    @property
    def pause(self) -> float:
        """Seconds until the next look: few while a leader is awaited, or this one does not take messages yet."""
        if self.replicas is not None:
            return _POLL if self._takes_messages else _SOON
        since = self._leaderless_since
        waited = self._follower.alone_seconds if since is None else self._clock.monotonic() - since
        return _SOON if waited is not None and waited < _AWAITED else _POLL

    async def look(self) -> None:
        """Ask etcd once, and act on what it says."""
        self._lease.note_life()
        async with self._turn:
            try:
                await self._act()
            except EtcdAway as error:
                self._note_away(str(error))
            except PyroMQError as error:
                logger.error("this broker could not become what it should be: %s", error)
            except Exception:
                logger.exception("looking at the leader failed")
            await self._step_down_if_fenced()
            await self._take_messages_once_all_is_visible()

    async def _act(self) -> None:
        view = read_view(self._keys, await self._etcd.read(self._keys.prefix))
        self._note_away("")
        self._note_ids(view)
        await self._announce(view)
        if self.replicas is not None:
            await self._lead(view, self.replicas)
        else:
            await self._follow_or_stand(view)

    def _note_away(self, problem: str) -> None:
        if problem and not self.is_away:
            logger.warning("who is master is not known: %s", problem)
        elif self.is_away and not problem:
            logger.info("etcd answers again")
        self.is_away = bool(problem)

    def _note_ids(self, view: ClusterView) -> None:
        others = [store for store in view.members or () if store != self._epochs.store_id]
        self.in_sync_ids = [str(view.states[store].broker_id) if store in view.states else store for store in others]

    # --- what others see of this broker

    def _state(self) -> MemberState:
        return MemberState(
            store=self._epochs.store_id,
            broker_id=self._identity.broker_id,
            address=self._identity.address,
            is_intact=self._is_intact,
            epochs=self._epochs.epochs,
            end=self._store.max_physical_offset,
        )

    def _note_intact(self) -> None:
        """Nothing is missing any more that was ever confirmed, once a master has given it again, or nobody has it."""
        if not self._is_intact and (self.replicas is not None or self._follower.has_caught_up):
            self._is_intact = True
            self._last_run.settle()

    async def _announce(self, view: ClusterView) -> None:
        lease = self._lease.id
        if not lease:
            return
        self._note_intact()
        state, now = self._state(), self._clock.monotonic()
        if self._announced is not None:
            known, on_lease = self._announced
            is_old = view.leader is None or now - self._announced_at > _ANNOUNCE_END_AFTER
            if on_lease == lease and known.store in view.states:
                same = state == known
                if same or (not is_old and _but_for_end(state) == _but_for_end(known)):
                    return
        await self._etcd.commit(announce(self._keys, state, lease))
        self._announced, self._announced_at = (state, lease), now

    # --- leading

    async def _lead(self, view: ClusterView, replicas: InSyncReplicas) -> None:
        leader = self.known.leader
        assert leader is not None
        if view.epoch != leader.epoch or (view.leader is not None and view.leader != leader):
            logger.warning("another broker was elected epoch=%d: this one follows", view.epoch)
            await self._step_down()
        elif self._store.failure is not None and len(replicas.set.written) > 1:
            logger.error("this broker cannot store messages any more, another one shall: %s", self._store.failure)
            await self._hand_over("")
        elif view.leader is None or view.leader_lease != self._lease.id:
            await self._lead_on(leader, replicas, is_forgotten=view.leader is None)
        else:
            replicas.lease_id = view.leader_lease
            await self._change_set(view, leader, replicas)

    async def _lead_on(self, leader: Leader, replicas: InSyncReplicas, *, is_forgotten: bool) -> None:
        """Put the leader's key, which etcd may have forgotten with its lease, on the lease of now."""
        lease = self._lease.id
        if not lease:
            return
        change = reclaim if is_forgotten else move_lease
        if await self._etcd.commit(change(self._keys, leader, lease)):
            replicas.lease_id = lease
            logger.warning("this broker goes on leading, on another lease epoch=%d", leader.epoch)

    async def _change_set(self, view: ClusterView, leader: Leader, replicas: InSyncReplicas) -> None:
        if self._wanted is None:
            self._wanted = replicas.set.propose(self._store.max_physical_offset, self._clock.monotonic())
            self._set_revision = view.set_revision
            replicas.look()  # one who joins counts from now on: nothing that it lacks may be seen
        if self._wanted is None:
            return
        wanted = self._wanted
        known = leader.epoch if replicas.set.know_this_epoch(wanted) else view.set_epoch
        if not await self._etcd.commit(change_set(self._keys, leader, wanted, self._set_revision, known)):
            again = read_view(self._keys, await self._etcd.read(self._keys.prefix))
            if again.leader != leader or again.members is None:
                return  # deposed, or the lease was moved: the next look settles it
            wanted = frozenset(again.members)  # an attempt of before that was not answered
        self._wanted = None
        replicas.set.settled(wanted)
        replicas.look()
        logger.info("the in-sync set is %s epoch=%d", ",".join(sorted(wanted)), leader.epoch)

    async def _take_messages_once_all_is_visible(self) -> None:
        """Go to work when the set has all that this broker was elected with.

        Delays, timers and transactions begin with what they find in the log: they must not miss its hidden end.
        """
        replicas, leader = self.replicas, self.known.leader
        if replicas is None or leader is None or self._takes_messages or not replicas.has_shown_all:
            return
        try:
            await self._roles.take_messages()
        except Exception:
            logger.exception("this broker cannot go to work")
            await self._step_down()  # the key is given back at the next look
            return
        self._takes_messages = True
        took = self._waited + self._clock.monotonic() - self._began
        logger.info("elected epoch=%d after %.2f s without a master", leader.epoch, took)
        at_ms = self._clock.now_ms()
        self.elected(LastFailover(at_ms=at_ms, took_ms=round(took * 1000), epoch=leader.epoch, how="elected"))

    async def _step_down_if_fenced(self) -> None:
        if self.replicas is not None and self.replicas.is_fenced:
            logger.warning("the lease is over, and not every member confirms: this broker takes no messages")
            await self._step_down()

    async def _step_down(self) -> None:
        replicas = self.replicas
        if replicas is not None:
            replicas.end()
            await self._roles.follow()
            self._end(replicas)

    def _end(self, replicas: InSyncReplicas) -> None:
        replicas.close()
        self.replicas = self.known.leader = self._wanted = None
        self._led_until = self._clock.monotonic()
        self._takes_messages = False

    # --- following, and standing for election

    async def _follow_or_stand(self, view: ClusterView) -> None:
        me = self._epochs.store_id
        leader = view.leader
        if leader is not None and leader.store == me:  # of an earlier run, or of an election whose answer was lost
            await self._etcd.commit(resign(self._keys, leader))
            return
        if leader is not None and not self._is_forced:
            self._leaderless_since = None
            if leader != self.known.leader:
                logger.info("master is broker %d at %s epoch=%d", leader.broker_id, leader.address, leader.epoch)
                self.known.leader = leader
                self.problem = ""
                await self._follower.follow_another()
            return
        await self._stand(view, me)

    async def _stand(self, view: ClusterView, me: str) -> None:
        now = self._clock.monotonic()
        if self._leaderless_since is None:
            self._leaderless_since = now
        others_turn = view.preferred and view.preferred != me and view.preferred in view.states
        if others_turn and now - self._leaderless_since < _WAIT_FOR_PREFERRED:
            return
        was_slave = self._epochs.current is not None and not self._epochs.is_led_here
        if view.members is None and was_slave and now - self._leaderless_since < _WAIT_FOR_MASTER:
            return
        reason = "" if self._is_forced else objection(self._state(), view)
        if self._store.failure is not None:
            reason = f"its store takes no messages: {self._store.failure}"
        self._note_objection(reason)
        if reason or not self._lease.is_valid:
            return
        known = self._epochs.number
        leader = Leader(
            epoch=max(view.epoch, known) + 1,
            store=me,
            broker_id=self._identity.broker_id,
            address=self._identity.address,
            ha_address=self._identity.ha_address,
        )
        lease = self._lease.id
        is_forced = self._is_forced
        election = elect(self._keys, view, leader, lease, known_epoch=known, is_forced=is_forced)
        if lease and await self._etcd.commit(election):
            self._is_forced = False
            await self._begin(leader, [me] if is_forced else view.members or [me], lease)

    def _note_objection(self, reason: str) -> None:
        if reason and reason != self.problem:
            logger.warning("there is no master, and this broker cannot be elected: %s", reason)
        self.problem = reason

    async def _begin(self, leader: Leader, members: list[str], lease: int) -> None:
        self._began, self._waited = self._clock.monotonic(), self._seconds_without_master()
        in_sync = InSyncSet(leader.store, members, self._clock.monotonic())
        replicas = InSyncReplicas(
            *(in_sync, self._lease, lease, self._server, self._store, self._clock, self._has_tables),
            waits=self._waits_for_slaves,
        )
        self.known.leader = leader
        try:
            await self._roles.lead(leader.epoch, replicas)
        except BaseException:
            self.known.leader = None
            raise  # the key is given back at the next look
        self.replicas = replicas
        self._wanted, self._leaderless_since = None, None

    def _seconds_without_master(self) -> float:
        """Return for how long this broker has neither heard of a master nor been it; 0 if it knows of none."""
        silent = self._follower.silent_seconds
        ended = self._clock.monotonic() - self._led_until if self._led_until is not None else None
        return min((seconds for seconds in (silent, ended) if seconds is not None), default=0.0)


def _but_for_end(state: MemberState) -> tuple[object, ...]:
    return state.store, state.broker_id, state.address, state.is_intact, state.epochs
