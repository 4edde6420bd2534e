"""Snapshot: the cluster at one moment, as the list pages of the console show it."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from pyromq.admin.clusters import BrokerStatus, ClusterStatus
from pyromq.admin.health.overview import BrokerLoad, GroupLoad, Overview
from pyromq.admin.topics.description import TopicListing, TopicSummary
from pyromq.protocol.names import SCHEDULE_TOPIC, TIMER_TOPIC

OURS = "PyroMQ"
"""How the version of one of our brokers begins."""


class TopicRow(Struct, frozen=True, kw_only=True):
    """One topic in lists."""

    topic: str
    kind: str
    """`topic`, `retry`, `dead letters`, `delayed` or `system`."""
    brokers: tuple[str, ...]
    read_queues: int
    write_queues: int
    perm: str
    rate: float | None
    """Messages stored a second; None if the brokers do not say (Apache's)."""
    byte_rate: float | None
    puts: int | None
    average_bytes: float | None
    """The mean size of its messages since the brokers started."""
    groups: tuple[str, ...]
    """The groups that consume it."""


class Snapshot(Struct, frozen=True, kw_only=True):
    """All brokers, topics and groups at one moment."""

    at: float
    """Seconds since the epoch."""
    taken: float = 0.0
    """Monotonic time."""
    cost: float = 0.0
    """Seconds that it took."""
    brokers: tuple[BrokerStatus, ...] = ()
    loads: Mapping[str, BrokerLoad] = {}
    """How busy masters are, by name."""
    topics: Mapping[str, TopicRow] = {}
    groups: Mapping[str, GroupLoad] = {}
    findings: tuple[str, ...] = ()
    silent_brokers: Mapping[str, str] = {}
    clock_differences: Mapping[str, float] = {}
    failure: str = ""
    """Why the cluster could not be read; then all the rest is that of the last time it could."""

    @property
    def in_rate(self) -> float:
        """Messages stored a second, on all brokers."""
        return sum(load.put_rate for load in self.loads.values())

    @property
    def out_rate(self) -> float:
        """Messages delivered a second, by all brokers."""
        return sum(load.get_rate for load in self.loads.values())

    @property
    def lag(self) -> int:
        """Messages that wait for groups of applications."""
        return sum(group.lag for group in self.groups.values() if not group.is_built_in)

    @property
    def dead_letters(self) -> int:
        """The dead letters of all groups."""
        return sum(group.dead_letters for group in self.groups.values())

    @property
    def foreign_brokers(self) -> tuple[str, ...]:
        """The brokers that are not PyroMQ's, as far as they say what they are."""
        return tuple(
            dict.fromkeys(one.name for one in self.brokers if one.version and not one.version.startswith(OURS))
        )


def make_snapshot(overview: Overview, topics: TopicListing, status: ClusterStatus) -> Snapshot:
    """Join what was asked."""
    loads = {load.topic: load for load in overview.topics}
    consumers: dict[str, list[str]] = {}
    for group in overview.groups:
        for topic in group.topics:
            consumers.setdefault(topic, []).append(group.group)
    rows = {}
    for summary in topics.topics:
        load = loads.get(summary.topic)
        rows[summary.topic] = TopicRow(
            topic=summary.topic,
            kind=_kind(summary),
            brokers=summary.brokers,
            read_queues=summary.read_queues,
            write_queues=summary.write_queues,
            perm=summary.perm,
            rate=None if load is None else load.rate,
            byte_rate=None if load is None else load.byte_rate,
            puts=None if load is None else load.puts,
            average_bytes=load.put_bytes / load.puts if load is not None and load.puts else None,
            groups=tuple(consumers.get(summary.topic, ())),
        )
    return Snapshot(
        at=overview.at,
        brokers=status.brokers,
        loads={load.name: load for load in overview.brokers},
        topics=rows,
        groups={group.group: group for group in overview.groups},
        findings=status.findings,
        silent_brokers=overview.silent_brokers,
        clock_differences=overview.clock_differences,
    )


def _kind(summary: TopicSummary) -> str:
    return "delayed" if summary.topic in (SCHEDULE_TOPIC, TIMER_TOPIC) else summary.kind
