"""Masters and slaves: how their logs stand, and who becomes master when an operator says so."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from difflib import get_close_matches

from msgspec import Struct
from msgspec.structs import replace

from pyromq.admin.maintenance.write_pause import is_paused, unrouted_brokers
from pyromq.admin.masters import gather_limited
from pyromq.client.net.calls.admin_calls import AdminCalls
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.client.net.calls.namesrv_calls import NamesrvCalls
from pyromq.errors import AccessDenied, BrokerError, ClientError, PyroMQError
from pyromq.protocol.bodies.replication import (
    BrokerProblem,
    FollowerState,
    LastFailover,
    Promotion,
    ReplicationState,
    SlaveState,
)
from pyromq.protocol.codes import MASTER_ID

_LATE = 10.0
"""Seconds behind its master from which on a slave is reported."""


_SEEN_FROM_OUTSIDE = ("follows_nobody", "no_slave_in_sync", "writes_paused")
"""Problems that a look at all brokers of a name finds as well, and says better."""


class BrokerStatus(Struct, frozen=True, kw_only=True):
    """One broker, as it describes itself. What only PyroMQ's brokers know is None of Apache's."""

    cluster: str
    name: str
    broker_id: int
    address: str
    role: str
    """SYNC_MASTER, ASYNC_MASTER or SLAVE; MASTER of one that does not say."""
    version: str = ""
    silence: str = ""
    """Why it does not answer; empty if it does. All that follows is unknown then."""
    epoch: int | None = None
    in_sync: tuple[str, ...] = ()
    """Of a master: the slaves that an acknowledgement can rely on, by id."""
    min_offset: int = 0
    max_offset: int = 0
    lag_bytes: int | None = None
    """Of a slave: the bytes of its master's log that it lacks."""
    lag_seconds: float | None = None
    """Of a slave: the age of the oldest of them, or for how long it has heard nothing of its master."""
    share: float | None = None
    """Of a slave: how much of its master's log it has, from 0 to 1."""
    follows: FollowerState | None = None
    last_failover: LastFailover | None = None
    slaves: tuple[SlaveState, ...] = ()
    """Of a master: the slaves that are connected to it."""
    problems: tuple[BrokerProblem, ...] = ()
    """What is wrong with it, in its own words."""
    writes: str = ""
    """Of a master: `open`; `paused` if it refuses sends; `leaving` if a name server routes none to it. Else empty."""

    @property
    def is_master(self) -> bool:
        """Whether it takes messages, as far as is known."""
        return self.role != "SLAVE"

    @property
    def leads(self) -> bool:
        """Whether it answers, as a master."""
        return self.is_master and not self.silence

    @property
    def title(self) -> str:
        """What to call it in a sentence."""
        return f"the master of {self.name}" if self.is_master else f"slave {self.broker_id} of {self.name}"


class ClusterStatus(Struct, frozen=True, kw_only=True):
    """All brokers that the name servers know, by cluster, name and id, and what is wrong with them."""

    brokers: tuple[BrokerStatus, ...]
    findings: tuple[str, ...]


class PromotionPlan(Struct, frozen=True, kw_only=True):
    """Which slave would become master."""

    successor: BrokerStatus
    master: BrokerStatus | None
    """The present master; None if the name servers know of none."""


class Clusters:
    """Looks at masters and slaves, and changes who is which."""

    def __init__(self, api: BrokerApi) -> None:
        self._api = api
        self._calls = AdminCalls(api.remoting)

    async def status(self, broker: str | None = None) -> ClusterStatus:
        """Return how all brokers stand, or those of one name; raises ClientError if there is no such name."""
        info = (await self._api.cluster_info()).broker_addr_table
        if broker is not None and broker not in info:
            raise ClientError(_not_found_text(broker, info))
        registered = [
            BrokerStatus(
                cluster=data.cluster or "",
                name=name,
                broker_id=int(broker_id),
                address=address,
                role="MASTER" if int(broker_id) == MASTER_ID else "SLAVE",
            )
            for name, data in info.items()
            for broker_id, address in data.broker_addrs.items()
            if broker in (None, name)
        ]
        registered.sort(key=lambda one: (one.cluster, one.name, one.broker_id))
        asked = await gather_limited(registered, self._ask)
        unrouted = set[str]().union(*(await unrouted_brokers(NamesrvCalls(self._api))).values())
        found = [_with_routes(_beside_master(one, asked), unrouted) for one in asked]
        return ClusterStatus(brokers=tuple(found), findings=tuple(_findings(found)))

    async def plan_promotion(self, broker: str, broker_id: int | None = None) -> PromotionPlan:
        """Return which slave would become master: the one with the longest log, or with this id.

        Raises ClientError if there is none that could.
        """
        brokers = (await self.status(broker)).brokers
        master = next((one for one in brokers if one.is_master and one.broker_id == MASTER_ID), None)
        slaves = [one for one in brokers if not one.is_master]
        if broker_id is not None:
            slaves = [one for one in slaves if one.broker_id == broker_id]
            if not slaves:
                raise ClientError(f"{broker} has no slave with the id {broker_id}")
        answering = [one for one in slaves if not one.silence and one.epoch is not None]
        if not answering:
            raise ClientError(_no_candidate_text(broker, slaves))
        longest = max(answering, key=lambda one: (one.epoch or 0, one.max_offset, -one.broker_id))
        return PromotionPlan(successor=longest, master=master)

    async def promote(self, broker: str, broker_id: int | None = None, *, force: bool = False) -> Promotion:
        """Make a slave master: the one with the longest log, or with this id.

        With both alive the master hands over, and no send fails. If it cannot be reached, `force` is needed, and what
        only it had is lost; BrokerError says how much that is.
        """
        plan = await self.plan_promotion(broker, broker_id)
        return await self.carry_out(plan, force=force)

    async def carry_out(self, plan: PromotionPlan, *, force: bool = False) -> Promotion:
        """Make the slave of a plan master; see `promote`."""
        return await self._calls.promote_broker(plan.successor.address, force=force)

    async def _ask(self, registered: BrokerStatus) -> BrokerStatus:
        try:
            state = await self._calls.replication_state(registered.address)
            one = await self._of_apaches(registered) if state is None else _of_ours(registered, state)
            return await self._with_writes(one) if one.is_master else one
        except AccessDenied:
            raise
        except PyroMQError as error:
            return replace(registered, silence=str(error))

    async def _with_writes(self, one: BrokerStatus) -> BrokerStatus:
        try:
            paused = is_paused(await self._calls.broker_config(one.address))
        except BrokerError:  # it lets others look, and not at its configuration
            return one
        return replace(one, writes="paused" if paused else "open")

    async def _of_apaches(self, registered: BrokerStatus) -> BrokerStatus:
        table = await self._calls.runtime_info(registered.address)
        return replace(
            registered,
            version=table.get("brokerVersionDesc", ""),
            min_offset=_number(table.get("commitLogMinOffset")),
            max_offset=_number(table.get("commitLogMaxOffset")),
        )


def _number(text: str | None) -> int:
    return int(text) if text is not None and text.lstrip("-").isdecimal() else 0


def _of_ours(registered: BrokerStatus, state: ReplicationState) -> BrokerStatus:
    return replace(
        registered,
        role=state.role or ("MASTER" if state.is_master else "SLAVE"),
        version=f"PyroMQ {state.version}",
        epoch=state.epochs[-1].number if state.epochs else 0,
        in_sync=tuple(state.in_sync),
        min_offset=state.min_offset,
        max_offset=state.max_offset,
        slaves=tuple(state.slaves),
        follows=state.follows,
        last_failover=state.last_failover,
        problems=tuple(state.problems),
    )


def _beside_master(one: BrokerStatus, brokers: Sequence[BrokerStatus]) -> BrokerStatus:
    """Return a slave with what only the comparison with its master tells."""
    master = next((other for other in brokers if other.name == one.name and other.leads), None)
    if one.is_master or one.silence or master is None:
        return one
    whole = master.max_offset - master.min_offset
    links = [link for link in master.slaves if link.broker_id == one.broker_id]
    alone = one.follows.silent_seconds if one.follows is not None and not one.follows.is_connected else 0.0
    return replace(
        one,
        lag_bytes=max(master.max_offset - one.max_offset, 0),
        lag_seconds=max((link.behind_seconds for link in links), default=alone),
        share=min((one.max_offset - max(one.min_offset, master.min_offset)) / whole, 1.0) if whole > 0 else 1.0,
    )


def _with_routes(one: BrokerStatus, unrouted: Collection[str]) -> BrokerStatus:
    return replace(one, writes="leaving") if one.writes == "open" and one.name in unrouted else one


# --- what is wrong


def _findings(brokers: Sequence[BrokerStatus]) -> Iterator[str]:
    """Say what is wrong, the worst first."""
    names = dict.fromkeys(one.name for one in brokers)
    for name in names:
        yield from _master_findings(name, [one for one in brokers if one.name == name])
    for one in brokers:
        if one.silence:
            yield f"{one.title} at {one.address} does not answer: {one.silence}"
    for one in brokers:
        if not one.is_master and not one.silence:
            yield from _slave_findings(one)
    for one in brokers:
        for problem in one.problems:
            if problem.cause not in _SEEN_FROM_OUTSIDE:
                yield f"{one.title} at {one.address}: {problem.text}; {problem.advice}"


def _master_findings(name: str, brokers: Sequence[BrokerStatus]) -> Iterator[str]:
    masters = [one for one in brokers if one.is_master]
    leading = [one for one in masters if one.leads]
    if not masters:
        yield f"{name} has no master: it takes no messages"
    elif len(leading) > 1:
        places = ", ".join(f"{one.address} (epoch {one.epoch})" for one in leading)
        yield f"{name} has {len(leading)} masters: {places}"
    for one in leading:
        if one.role == "SYNC_MASTER" and not one.in_sync:
            yield f"{name} is SYNC_MASTER and no slave is in sync: sends are answered SLAVE_NOT_AVAILABLE"
        if one.writes == "paused":
            yield f"{name} refuses messages: its writes are paused (`pyromq cluster resume-writes --broker {name}`)"
        elif one.writes == "leaving":
            yield f"{name} takes messages, but a name server routes none to it: a pause of its writes was not finished"


def _slave_findings(one: BrokerStatus) -> Iterator[str]:
    if one.follows is not None and not one.follows.is_connected:
        yield f"{one.title} follows nobody: {one.follows.problem or 'it has not reached its master yet'}"
    elif one.lag_seconds is not None and one.lag_seconds > _LATE and one.lag_bytes:
        yield f"{one.title} is {one.lag_seconds:.0f} s and {one.lag_bytes:,} bytes behind its master"


def _not_found_text(broker: str, known: Collection[str]) -> str:
    nearest = get_close_matches(broker, known, n=1)
    return f"no name server knows a broker {broker!r}" + (f"; did you mean {nearest[0]}?" if nearest else "")


def _no_candidate_text(broker: str, slaves: Sequence[BrokerStatus]) -> str:
    if not slaves:
        return f"{broker} has no slave that the name servers know"
    reasons = (f"{one.title} {one.silence or 'is not PyroMQ'}" for one in slaves)
    return f"no slave of {broker} can become master: {'; '.join(reasons)}"
