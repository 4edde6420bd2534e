"""How many threads and members a group needs, from what its members measured.

    threads = C · (T1 + T2) / T1     C cores, T1 CPU time and T2 waiting time of one message
    nodes   = peak / rate of one node

A thread that waits needs no core, so a core can serve (T1 + T2) / T1 threads; more would only wait for it. A node, that
is one member, then handles C / T1 messages a second.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import ceil

from msgspec import Struct

from pyromq.admin.groups.snapshot import GroupSnapshot
from pyromq.client.consume.listener_report import ListenerReport, listener_report
from pyromq.errors import ClientError
from pyromq.protocol.bodies import ConsumerRunningInfo, ConsumeType
from pyromq.protocol.messages.message import MessageQueue
from pyromq.protocol.names import RETRY_PREFIX

BUSY = 0.8
"""The share of its time from which a listener, or a core, is the bottleneck."""

_LEAST_CPU_MS = 0.001
_MOST_THREADS = 1000
_ENDLESS = float("inf")
_FEW = 32  # messages that may be on their way: one pull


class MemberLoad(Struct, frozen=True, kw_only=True):
    """How one member is used; None is not known."""

    client_id: str
    language: str
    threads: int | None = None
    """How many messages it handles at a time."""
    orderly: bool = False
    queues: int = 0
    """The queues that it owns, without those of retries."""
    rate: float = 0.0
    """Messages a second that it handled in the last minute."""
    held: int = 0
    """Messages that it has pulled and not finished."""
    cores: int | None = None
    measured: int = 0
    """Messages whose times were measured."""
    cpu_ms: float | None = None
    wait_ms: float | None = None
    handling_ms: float | None = None
    """The time of one message: CPU and waiting."""
    busy: float | None = None
    """The share of its places for messages that were in use in the last minute, or are now."""
    peak_rate: float | None = None
    rate_limit: float | None = None
    """The most messages a second that it may handle, by its own option."""
    missing: str | None = None
    """What it does not report, and why."""

    @property
    def places(self) -> int | None:
        """How many messages it can handle at a time: an orderly one has one of each queue."""
        if self.threads is None:
            return None
        return min(self.threads, self.queues) if self.orderly else self.threads

    @property
    def cpu_share(self) -> float | None:
        """The share of its cores that its listener uses."""
        if self.cpu_ms is None or not self.cores:
            return None
        return self.rate * self.cpu_ms / 1000 / self.cores

    @property
    def capacity(self) -> float | None:
        """Messages a second that it can handle as it is."""
        if not self.handling_ms or self.places is None:
            return None
        by_cores = self.cores * 1000 / self.cpu_ms if self.cpu_ms and self.cores else _ENDLESS
        return min(self.places * 1000 / self.handling_ms, by_cores, self.rate_limit or _ENDLESS)


class GroupAdvice(Struct, frozen=True, kw_only=True):
    """What a group should change to keep up with its peak; None could not be computed, and `findings` say why."""

    group: str
    members: tuple[MemberLoad, ...]
    lag: int
    arrival_rate: float
    """Messages a second that came into its topics while it was watched."""
    peak_rate: float
    """The rate that it should be able to handle: given, or the highest that is known."""
    bottleneck: str
    """handling, pulling or none."""
    reason: str
    """Why that is the bottleneck."""
    cores: int | None = None
    cpu_ms: float | None = None
    wait_ms: float | None = None
    threads: int | None = None
    """Threads for each member."""
    node_rate: float | None = None
    """Messages a second that one member handles with these threads."""
    nodes: int | None = None
    """Members for the peak."""
    queues: int = 0
    """More members than queues would have nothing to do."""
    findings: tuple[str, ...] = ()
    silent_brokers: Mapping[str, str] = {}


def member_load(client_id: str, language: str, info: ConsumerRunningInfo) -> MemberLoad:
    """Return how a member is used, by its own report."""
    report, threads = listener_report(info), info.properties.get("PROP_THREADPOOL_CORE_SIZE", "")
    places = int(threads) if threads.isdecimal() and int(threads) else None
    polls = info.properties.get("PROP_CONSUME_TYPE") == ConsumeType.CONSUME_ACTIVELY
    statuses = info.status_table.values()
    rate = sum(status.consume_ok_tps + status.consume_failed_tps for status in statuses)
    in_calls = sum(status.consume_rt * (status.consume_ok_tps + status.consume_failed_tps) for status in statuses)
    queues = [queue for queue, state in info.mq_table.items() if not state.dropped]
    load = MemberLoad(
        client_id=client_id,
        language=language,
        threads=None if polls else places,
        orderly=info.properties.get("PROP_CONSUMEORDERLY") == "true",
        queues=sum(not queue.topic.startswith(RETRY_PREFIX) for queue in queues),
        rate=rate,
        held=sum(info.mq_table[queue].cached_msg_count for queue in queues),
    )
    if polls:
        return _with(load, missing="it polls: how long its own code handles a message is not known")
    if report is None:
        why = f"{language} consumers report no CPU time"
        return _with(
            load, missing=why, handling_ms=in_calls / rate if rate else None, busy=_busy(load, in_calls / 1000)
        )
    if not report.measured:
        return _with(
            load,
            missing="it has finished no message within the last hour",
            cores=report.cores,
            busy=_busy(load, report.running),
            peak_rate=report.peak_rate,
        )
    return _measured(load, report)


def _measured(load: MemberLoad, report: ListenerReport) -> MemberLoad:
    cpu_ms = max(report.cpu_ms, _LEAST_CPU_MS)
    return _with(
        load,
        cores=report.cores,
        measured=report.measured,
        cpu_ms=cpu_ms,
        wait_ms=report.wait_ms,
        handling_ms=cpu_ms + report.wait_ms,
        busy=_busy(load, max(report.job_seconds, report.running)),  # calls count when they end, and may be long
        peak_rate=report.peak_rate,
        rate_limit=report.rate_limit,
    )


def _busy(load: MemberLoad, calls: float) -> float | None:
    return None if not load.places else min(calls / load.places, 1.0)


def _with(load: MemberLoad, **changes: object) -> MemberLoad:
    fields = {name: getattr(load, name) for name in load.__struct_fields__}
    return MemberLoad(**fields | changes)


# --- the whole group --------------------------------------------------------------------------------------------------


def advise(before: GroupSnapshot, snapshot: GroupSnapshot, seconds: float, peak: float | None) -> GroupAdvice:
    """Return what the group should change, from two looks at it; raises ClientError if it has no members."""
    if not snapshot.members:
        raise ClientError(f"the group {snapshot.group!r} has no members: nothing was measured")
    members = tuple(
        member_load(client_id, snapshot.members[client_id].connection.language.name, info)
        for client_id, info in snapshot.infos.items()
    )
    lag = _lag(snapshot)
    arrivals = _arrival_rate(before, snapshot, seconds)
    wanted = peak if peak is not None else max(arrivals, sum(member.peak_rate or 0.0 for member in members))
    bottleneck, reason = _bottleneck(members, lag, arrivals)
    needs = _needs(members, wanted)
    queues = len({queue for queue in _queues(snapshot) if not queue.topic.startswith(RETRY_PREFIX)})
    return GroupAdvice(
        group=snapshot.group,
        members=members,
        lag=lag,
        arrival_rate=arrivals,
        peak_rate=wanted,
        bottleneck=bottleneck,
        reason=reason,
        cores=needs.cores,
        cpu_ms=needs.cpu_ms,
        wait_ms=needs.wait_ms,
        threads=needs.threads,
        node_rate=needs.node_rate,
        nodes=needs.nodes,
        queues=queues,
        findings=tuple(_findings(snapshot, members, needs, queues)),
        silent_brokers=snapshot.silent,
    )


def _queues(snapshot: GroupSnapshot) -> set[MessageQueue]:
    """Return its queues, as brokers and members know them: brokers know none before it has committed."""
    return {*snapshot.offsets}.union(*(info.mq_table for info in snapshot.infos.values()))


def _lag(snapshot: GroupSnapshot) -> int:
    """Return how many messages wait, by the members' own account: what they commit is seconds old."""
    lag = 0
    for queue, row in snapshot.offsets.items():
        own = [state.commit_offset for state in snapshot.holders(queue).values()]
        lag += max(row.broker_offset - max(row.consumer_offset, *own, 0), 0)
    return lag


def _arrival_rate(before: GroupSnapshot, after: GroupSnapshot, seconds: float) -> float:
    """Return the messages that came into its topics, without retries: those came before."""
    came = sum(
        max(row.broker_offset - before.offsets[queue].broker_offset, 0)
        for queue, row in after.offsets.items()
        if queue in before.offsets and not queue.topic.startswith(RETRY_PREFIX)
    )
    return came / seconds if seconds > 0 else 0.0


def _bottleneck(members: Iterable[MemberLoad], lag: int, arrivals: float) -> tuple[str, str]:
    members = list(members)
    held = sum(member.held for member in members)
    used = [member.busy for member in members if member.busy is not None]
    busy = sum(used) / len(used) if used else None
    cores = max((member.cpu_share or 0.0 for member in members), default=0.0)
    if cores >= BUSY:
        return "handling", f"listeners compute {cores:.0%} of the time: more threads do not help, more members do"
    if busy is not None and busy >= BUSY:
        return "handling", f"listeners are busy {busy:.0%} of the time"
    if not lag:
        return "none", "no message waits"
    limits = [member.rate_limit for member in members if member.rate_limit]
    if limits and any(member.rate >= BUSY * (member.rate_limit or _ENDLESS) for member in members):
        return "handling", f"the option `rate` of its members lets each handle {min(limits):g} messages a second"
    if held > sum(member.places or 0 for member in members) and held >= lag / 2:
        return "handling", f"{held:,} messages were pulled and wait for a listener"
    if busy is None:
        return "none", "no member reports how busy it is"
    if lag - held > max(_FEW, arrivals / 2):
        return "pulling", f"listeners are busy {busy:.0%} of the time while {lag - held:,} messages wait to be pulled"
    return "none", f"listeners are busy {busy:.0%} of the time, and hardly a message waits to be pulled"


class _Needs(Struct, frozen=True, kw_only=True):
    """Threads and nodes."""

    cores: int | None = None
    cpu_ms: float | None = None
    wait_ms: float | None = None
    threads: int | None = None
    node_rate: float | None = None
    nodes: int | None = None


def _needs(members: Iterable[MemberLoad], peak: float) -> _Needs:
    """Return what the formulas say, for the mean of the members that measured; without one, for the present threads."""
    members = list(members)
    known = [member for member in members if member.cpu_ms is not None and member.wait_ms is not None]
    if not known:
        rates = [member.capacity for member in members if member.capacity]
        node_rate = sum(rates) / len(rates) if rates else None
        return _Needs(node_rate=node_rate, nodes=_nodes(peak, node_rate))
    weight = sum(member.measured for member in known)
    cpu_ms = sum((member.cpu_ms or 0.0) * member.measured for member in known) / weight
    wait_ms = sum((member.wait_ms or 0.0) * member.measured for member in known) / weight
    cores = min(member.cores or 1 for member in known)
    threads = min(max(ceil(cores * (cpu_ms + wait_ms) / cpu_ms), 1), _MOST_THREADS)
    node_rate = min(threads * 1000 / (cpu_ms + wait_ms), cores * 1000 / cpu_ms)
    return _Needs(
        cores=cores,
        cpu_ms=cpu_ms,
        wait_ms=wait_ms,
        threads=threads,
        node_rate=node_rate,
        nodes=_nodes(peak, node_rate),
    )


def _nodes(peak: float, node_rate: float | None) -> int | None:
    return max(ceil(peak / node_rate), 1) if node_rate else None


def _findings(snapshot: GroupSnapshot, members: tuple[MemberLoad, ...], needs: _Needs, queues: int) -> Iterator[str]:
    for client_id, report in snapshot.reports.items():
        if isinstance(report, str):
            yield f"member {client_id} does not report its state: {report}"
    for member in members:
        if member.missing:
            yield f"member {member.client_id}: {member.missing}"
    if needs.nodes is not None and needs.nodes > queues:
        yield f"{queues} queues: {needs.nodes} members need as many, see `pyromq topic resize`"
    if needs.threads is not None and any(member.orderly for member in members):
        yield "an orderly member handles one message of each of its queues at a time: more threads need more queues"
    if needs.threads == _MOST_THREADS:
        yield f"the listener hardly computes: its limit is what it waits for, not {_MOST_THREADS} threads"
