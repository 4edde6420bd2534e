"""What is wrong with a broker: disk, flush, damage, permission, name servers, slaves and failover."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

from pyromq.broker.replication.failover.coordinator import Coordinator
from pyromq.broker.replication.replication_requests import ReplicationView
from pyromq.figures import BoundFigures, Figure, Kind
from pyromq.problems import Problem, ProblemWatch
from pyromq.protocol.codes import PERM_WRITE
from pyromq.store.recovery.quarantine import QUARANTINE_NAME
from pyromq.store.retention.retention import DiskLevel

CAUSES: Final = (
    "store_stopped",
    "disk_full",
    "disk_nearly_full",
    "writes_paused",
    "damaged_data",
    "quarantined_data",
    "tables_not_saved",
    "name_servers_away",
    "registration_refused",
    "same_name_and_id",
    "follows_nobody",
    "no_slave_in_sync",
    "etcd_away",
    "no_leader",
    "fenced",
    "clock_jumped",
)
"""All that can be wrong, in the order in which it is reported; /metrics has a line for each."""
_QUARANTINE_PERIOD: Final = 60.0


class BrokerHealth:
    """Finds the problems of one broker."""

    def __init__(self, view: ReplicationView, coordinator: Coordinator | None) -> None:
        """`coordinator` if masters are elected."""
        self._parts = view.parts
        self._store = view.store
        self._registration = view.registration
        self._follower = view.follower
        self._view = view
        self._coordinator = coordinator
        self._quarantined = 0
        self._looked_at: float | None = None
        self.watch = ProblemWatch(f"broker={self._parts.name}", self._parts.clock, self._find)

    def problems(self) -> list[Problem]:
        """Return what is wrong now."""
        return self.watch.look()

    def problem(self) -> str:
        """Return what is wrong in one line; empty if nothing is."""
        return " | ".join(problem.text for problem in self.watch.look())

    def refusal(self) -> Problem | None:
        """Return why no message is taken, or, of a slave, nothing is served; None if all is well."""
        return next((problem for problem in self.watch.look() if problem.stops_messages), None)

    def figures(self) -> BoundFigures[dict[str, int]]:
        """Return the figures of problems: 1 for each that there is, 0 for all others."""
        return BoundFigures(_FIGURES, self._counts)

    def _counts(self) -> dict[str, int]:
        found = {problem.cause for problem in self.watch.look()}
        return {cause: int(cause in found) for cause in CAUSES}

    def _find(self) -> Iterator[Problem]:
        yield from self._of_disk()
        yield from self._of_data()
        yield from self._of_name_servers()
        if self._coordinator is not None:
            yield from _of_failover(self._coordinator)
        if self._parts.standing.is_slave():
            yield from self._of_slave()
        else:
            yield from self._of_master()

    def _of_disk(self) -> Iterator[Problem]:
        store, cleaner = self._store, self._store.cleaner
        if failure := store.failure or store.flusher.failure:
            yield Problem(
                "store_stopped",
                f"the store takes no messages: {store.refusal()}" if store.failure else str(failure),
                "see to the disk, then restart this broker: it recovers what was acknowledged",
                stops_messages=True,
                needs_restart=True,
            )
            return
        if cleaner.refuses_messages or cleaner.no_space.error is not None:
            cleaner.check_disk()  # room is noticed as soon as somebody looks, not with the next pass
        advice = "free disk space, add some, or lower fileReservedTime"
        if cleaner.refuses_messages or cleaner.no_space.error is not None:
            refusal = cleaner.refusal() if cleaner.refuses_messages else cleaner.no_space.error
            text = f"the store takes no messages: {refusal}"
            yield Problem("disk_full", text, f"{advice}: messages are then taken again", stops_messages=True)
        elif cleaner.retention.level is DiskLevel.ALL_FILES_GO:
            yield Problem(
                "disk_nearly_full",
                f"the disk is {cleaner.retention.disk_percent}% full: the oldest files go, also with unread messages",
                advice,
            )

    def _of_data(self) -> Iterator[Problem]:
        config, store = self._parts.config, self._store
        if config.writes_paused:
            text = "writes are paused: producers are sent to other brokers"
            yield Problem("writes_paused", text, "pyromq cluster resume-writes ends that", stops_messages=True)
        elif not config.permission & PERM_WRITE:
            text = f"brokerPermission is {config.permission}: no messages are taken"
            yield Problem("writes_paused", text, "set it to 6 to take messages", stops_messages=True)
        if len(store.fences):
            yield Problem(
                "damaged_data",
                f"{len(store.fences)} damaged parts of the log are left out of reads",
                "pyromq store verify names them; a master or slave with the same log heals them",
            )
        if count := self._quarantine():
            yield Problem(
                "quarantined_data",
                f"{count} files are in {config.store.root / QUARANTINE_NAME}: what recovery or a new master cut off",
                "look at them, then remove them",
            )
        tables = self._parts.tables
        states = (
            ("topics", tables.topics.saver.is_failing),
            ("groups", tables.groups.saver.is_failing),
            ("offsets", tables.offsets.saver.is_failing),
        )
        if failing := [name for name, is_failing in states if is_failing]:
            yield Problem(
                "tables_not_saved",
                f"these tables cannot be saved: {', '.join(failing)}",
                f"see to the disk of {config.store.root}; saving is tried again",
            )

    def _quarantine(self) -> int:
        now = self._parts.clock.monotonic()
        if self._looked_at is None or now - self._looked_at >= _QUARANTINE_PERIOD:
            self._looked_at = now
            try:
                self._quarantined = len(os.listdir(self._parts.config.store.root / QUARANTINE_NAME))
            except OSError:
                self._quarantined = 0
        return self._quarantined

    def _of_name_servers(self) -> Iterator[Problem]:
        registration, servers = self._registration, self._parts.config.namesrv
        advice = "if both are to run, give one another brokerName or brokerId; else stop one"
        if rivals := sorted(set(registration.rivals.values())):
            text = f"another broker registers under the name and id of this one, at {', '.join(rivals)}"
            yield Problem("same_name_and_id", text, advice)
        for server, reason in list(registration.refusals.items())[:1]:
            yield Problem("registration_refused", f"name server {server} refuses this broker: {reason}", advice)
        refused = registration.registered | registration.refusals.keys()
        away = [server for server in servers if server not in refused]
        if away and len(away) == len(servers):
            text = f"not registered at any name server of {self._parts.config.namesrv_addr}"
            yield Problem("name_servers_away", text, "start them, or check namesrvAddr and the network")
        elif away:
            text = f"not registered at {', '.join(away)}"
            yield Problem("name_servers_away", text, "start it, or remove it from namesrvAddr")

    def _of_slave(self) -> Iterator[Problem]:
        if not self._follower.is_connected and self._follower.problem:
            text = f"this slave follows nobody: {self._follower.problem}"
            yield Problem("follows_nobody", text, "start its master, or promote a slave: pyromq cluster promote")

    def _of_master(self) -> Iterator[Problem]:
        if self._view.role == "SYNC_MASTER" and not self._view.in_sync():
            text = "SYNC_MASTER without a slave in sync: sends are answered SLAVE_NOT_AVAILABLE"
            yield Problem("no_slave_in_sync", text, "start a slave, or wait until it has the log")


def _of_failover(coordinator: Coordinator) -> Iterator[Problem]:
    if coordinator.is_away:
        yield Problem("etcd_away", "etcd does not answer: nobody can be elected", "start etcd, or check failover=")
    if coordinator.problem:
        text = f"this broker neither leads nor follows: {coordinator.problem}"
        yield Problem("no_leader", text, "pyromq cluster status shows all members", stops_messages=True)
    if coordinator.replicas is not None and coordinator.replicas.is_fenced:
        text = "another broker may be master by now: this one takes no messages"
        yield Problem("fenced", text, "it goes on by itself when its slaves or etcd answer", stops_messages=True)


_FIGURES: Final[tuple[Figure[dict[str, int]], ...]] = (
    Figure(
        "problem",
        "1 while something is wrong with this broker, by its cause.",
        Kind.GAUGE,
        lambda counts: counts,
        label="cause",
    ),
)
