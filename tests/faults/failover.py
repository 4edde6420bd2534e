"""Failover: masters are killed, paused and cut off from power under load; their slaves take over, and nothing is lost.

    python -m tests.faults.failover --rounds 100
    python -m tests.faults.failover --rounds 5 --seed 7       # the same blows as before, if not at the same moments

Brokers of one name with `failover=etcd://…` and SYNC_MASTER, each in a process of its own. In each round the master is
killed, or paused past its lease with its clients on their connections, or loses its power (as root, on a disk of its
own), or is stopped and hands over; in a fifth of the rounds etcd is killed too, or the leader of its three members. The
old master comes back and follows. Meanwhile there are sends, batches, transactions, delays and timers, two groups, and
clients that stay with their broker whatever it is. In the end all brokers have the same bytes, and `history.py` checks
what everybody wrote down: nothing acknowledged is lost, and no deposed master acknowledges. Failover times are printed:
from the blow to the first send that the new master stored. Journals and logs of a bad run are kept.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import random
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct, field

from pyromq import PyroMQError, SendResult
from pyromq.testing import eventually
from tests.etcd_server import etcd_unavailable
from tests.faults.actors.broker_set import NAME, PRODUCT, BrokerNode, BrokerSet, SetOptions
from tests.faults.actors.draining import drain
from tests.faults.actors.listeners import Listening
from tests.faults.actors.members import consume, make_consumer
from tests.faults.actors.roles import SUCCESSION_ROLES, Role
from tests.faults.actors.senders import Senders
from tests.faults.actors.stubborn import StubbornClients
from tests.faults.history import Finding, check
from tests.faults.journal import SEND_OK, Answered, AnyEvent, Journal, read_journals
from tests.faults.power_cut import unavailable
from tests.faults.timeline import Timeline

KILL, PAUSE, CUT, HANDOVER = "kill", "pause", "power cut", "handover"
ROUNDS_OF_A_SET = 20
WELL_WITHIN = 90.0
SHOWN = 10  # findings of one kind


class Blow(Struct):
    """What was done in a round, and how long it took until another master had stored something."""

    how: str
    with_etcd: bool
    seconds: float
    """Until the first send was stored."""
    of_clients: float
    """The same of a producer that has to find the new master."""

    def __str__(self) -> str:
        etcd = " and etcd" if self.with_etcd else ""
        return f"{self.how}{etcd}: {self.seconds:.2f} s, producers {self.of_clients:.2f} s"


class SuccessionReport(Struct):
    """What rounds have shown."""

    blows: list[Blow] = field(default_factory=list)
    figures: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def good(self) -> bool:
        return not (self.findings or self.problems)

    def add(self, other: SuccessionReport) -> None:
        """Add what other rounds have shown."""
        self.blows += other.blows
        self.figures.update(other.figures)
        self.findings += other.findings
        self.problems += other.problems

    def __str__(self) -> str:
        kinds = Counter(finding.kind for finding in self.findings)
        lines = [f"{len(self.blows)} rounds: " + ", ".join(f"{count} {name}" for name, count in self.figures.items())]
        for name, blows in self._classes().items():
            for what, times in (
                ("first stored", [blow.seconds for blow in blows]),
                ("producers", [blow.of_clients for blow in blows]),
            ):
                lines.append(f"  {name} ({len(blows)}), {what}: {_spread(times)}")
        found = ", ".join(f"{number} {kind}" for kind, number in kinds.items()) or "0 lost, 0 deposed, 0 anything"
        return "\n".join([*lines, f"findings: {found}; problems: {len(self.problems)}"])

    def _classes(self) -> dict[str, list[Blow]]:
        classes = {
            "failover": [blow for blow in self.blows if blow.how != HANDOVER and not blow.with_etcd],
            "failover with etcd killed": [blow for blow in self.blows if blow.how != HANDOVER and blow.with_etcd],
            "handover": [blow for blow in self.blows if blow.how == HANDOVER and not blow.with_etcd],
        }
        return {name: blows for name, blows in classes.items() if blows}


def _spread(times: list[float]) -> str:
    return f"median {statistics.median(times):.2f} s, worst {max(times):.2f} s"


class PairSenders(Senders):
    """Senders that remember when which broker answered."""

    def __init__(self, namesrv: str, directory: Path, seed: int, pace: float) -> None:
        super().__init__(namesrv, directory, seed, pace)
        self.answers: list[Answered] = []

    def _note(self, value: str, result: SendResult, *, waits: bool = False) -> Answered:
        self.answers.append(super()._note(value, result, waits=waits))
        return self.answers[-1]


class Succession:
    """Rounds on one set of brokers."""

    def __init__(self, directory: Path, options: SetOptions, seed: int, pace: float = 0.1) -> None:
        self.brokers = BrokerSet(directory, options)
        self.report = SuccessionReport()
        self._directory = directory
        self._chance = random.Random(f"{seed} blows")
        self._seed = seed
        self._senders = PairSenders(self.brokers.namesrv, directory, seed, pace)
        self._over = asyncio.Event()

    async def run(self, rounds: int, program: Callable[[int], Sequence[str]] = lambda number: PRODUCT) -> None:
        """Strike again and again, let all groups drain, and judge; the report says the rest."""
        working: list[asyncio.Task[None]] = []
        try:
            await self.brokers.open(program)
            addresses = [node.address for node in self.brokers.nodes]
            self._stubborn = StubbornClients(self.brokers.namesrv, addresses, NAME, self._directory)
            members = [self._live(role, number) for role in SUCCESSION_ROLES for number in range(role.tasks)]
            works = [self._senders.run(), self._stubborn.run(), *members]
            working = [asyncio.create_task(work) for work in works]
            for number in range(rounds):
                await self.one_round(number)
            await self.all_well()
            self._senders.stop()
            self._stubborn.stop()
            await self._judge(await drain(self._directory, SUCCESSION_ROLES, self.brokers.contents))
        except (TimeoutError, PyroMQError, RuntimeError) as error:
            self.report.problems.append(f"{type(error).__name__}: {error}; {self._state()}")
        finally:
            self._over.set()
            self._senders.stop()
            for task in working:
                task.cancel()
            for outcome in await asyncio.gather(*working, return_exceptions=True):
                if isinstance(outcome, Exception):
                    self.report.problems.append(f"a client failed: {outcome!r}")
            await self.brokers.close()

    async def _judge(self, contents: list[AnyEvent]) -> None:
        events = await asyncio.to_thread(read_journals, self._directory)
        history: list[AnyEvent] = [*events, *contents]
        self.report.findings += await asyncio.to_thread(check, history)
        self.report.figures.update(Timeline(history).figures())
        self.report.problems += await asyncio.to_thread(self.brokers.unlike_logs)

    async def _live(self, role: Role, number: int) -> None:
        """Be a member of a group until cancelled."""
        name = f"{role.group}-{number}"
        listening = Listening(role, Journal(self._directory / f"{name}.jsonl", name), self._seed)
        while True:
            consumer = make_consumer(role, self.brokers.namesrv, listening, instance_name=name)
            try:
                async with consumer:
                    await consume(consumer, listening)
            except PyroMQError:
                await asyncio.sleep(0.2)

    # --- one round

    async def one_round(self, number: int) -> None:
        """Strike the master, and let it come back."""
        await self.all_well()
        await asyncio.sleep(self._chance.uniform(0.3, 2.0))
        how, with_etcd = self._choose(number)
        master = await self.brokers.master(WELL_WITHIN)
        etcd = asyncio.create_task(self._strike_etcd()) if with_etcd else None
        since = self.brokers.strike(master, how)
        comes_back = asyncio.create_task(self._strike(master, how))
        try:
            blow = Blow(how, with_etcd, *await self._times(master, since))
        finally:
            if etcd is not None:
                await etcd
            comes_back_at = self._chance.uniform(0.0, 2.0)
            await comes_back
            await asyncio.sleep(comes_back_at)
            await self._bring_back(master, how)
        self.report.blows.append(blow)
        print(f"  round {number + 1}: broker {master.number}, {blow}", flush=True)

    def _choose(self, number: int) -> tuple[str, bool]:
        others = [KILL, KILL, HANDOVER, *[CUT] * (2 if self.brokers.options.on_disks else 0)]
        return (PAUSE if number % 3 == 1 else self._chance.choice(others)), number % 5 == 3

    async def _strike(self, node: BrokerNode, how: str) -> None:
        match how:
            case "kill":
                await asyncio.to_thread(node.kill)
            case "pause":
                node.pause()
            case "handover":
                await asyncio.to_thread(node.end, signal.SIGTERM)
            case "power cut":
                assert node.disk is not None
                node.disk.cut_power()
                await asyncio.to_thread(node.kill)

    async def _bring_back(self, node: BrokerNode, how: str) -> None:
        if how == PAUSE:
            node.resume()
            return
        if how == CUT:
            assert node.disk is not None
            await asyncio.to_thread(node.disk.unmount)
            await asyncio.to_thread(node.disk.mount)
        await asyncio.to_thread(node.start)

    async def _strike_etcd(self) -> None:
        """Kill the leader of etcd, or its only member, and start it again."""
        index = await asyncio.to_thread(self.brokers.etcd.leader)
        await asyncio.to_thread(self.brokers.etcd.kill, index)
        await asyncio.sleep(self._chance.uniform(0.2, 1.5))
        await asyncio.to_thread(self.brokers.etcd.start, index)

    async def _times(self, struck: BrokerNode, since: float) -> tuple[float, float]:
        """Return after how many seconds another broker had stored something, for anybody and for a producer."""
        async with asyncio.timeout(WELL_WITHIN):
            while True:
                by_producers = self._first(self._senders.answers, struck, since)
                by_others = self._first(self._stubborn.answers, struck, since)
                if by_producers is not None:
                    return min(by_producers, by_others or by_producers), by_producers
                await asyncio.sleep(0.05)

    @staticmethod
    def _first(answers: list[Answered], struck: BrokerNode, since: float) -> float | None:
        later = (answer.at - since for answer in answers if answer.at >= since and answer.node != struck.address)
        return min(later, default=None)

    async def all_well(self) -> None:
        """Wait until all brokers are in the in-sync set, and the master acknowledges; raises TimeoutError."""
        self._senders.answers.clear()
        self._stubborn.answers.clear()
        await eventually(self._is_well, "all brokers are in sync, and the master acknowledges", seconds=WELL_WITHIN)

    def _is_well(self) -> bool:
        brokers = self.brokers
        if brokers.in_sync != {node.address for node in brokers.nodes} or brokers.view is None:
            return False
        leader = brokers.view.leader
        return leader is not None and any(
            answer.node == leader.address and answer.status == SEND_OK for answer in self._senders.answers
        )

    def _state(self) -> str:
        view = self.brokers.view
        if view is None:
            return "etcd never answered"
        leader = view.leader.address if view.leader is not None else "nobody"
        running = [node.number for node in self.brokers.nodes if node.is_running]
        return f"leader {leader}, epoch {view.epoch}, in sync {sorted(self.brokers.in_sync)}, running {running}"


def rounds_on_a_set(
    rounds: int,
    options: SetOptions,
    seed: int,
    keep: Path | None = None,
    program: Callable[[int], Sequence[str]] = lambda number: PRODUCT,
) -> SuccessionReport:
    """Run rounds on one set of brokers; keep its journals and logs in a directory if something was wrong."""
    with tempfile.TemporaryDirectory(prefix="pyromq-failover-") as name:
        directory = Path(name)
        succession = Succession(directory, options, seed)
        asyncio.run(succession.run(rounds, program))
        if not succession.report.good and keep is not None:
            shutil.rmtree(keep / f"seed-{seed}", ignore_errors=True)
            left_out = shutil.ignore_patterns("data-*", "disk-*")
            shutil.copytree(directory, keep / f"seed-{seed}", ignore=left_out)
    return succession.report


def options_of(number: int, *, may_cut: bool) -> SetOptions:
    """Return what the set of this number is like: every kind has its turn."""
    on_disks = may_cut and number % 2 == 1
    return SetOptions(
        brokers=2 + number % 2,
        etcd=3 if number % 3 == 1 else 1,
        flush="SYNC_FLUSH" if on_disks else "ASYNC_FLUSH",
        on_disks=on_disks,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the first set; the next has the next")
    parser.add_argument(
        "--keep", type=Path, default=Path(tempfile.gettempdir()) / "pyromq-failover", help="for bad runs"
    )
    options = parser.parse_args()
    if reason := etcd_unavailable():
        print(f"failover skipped: {reason}")
        return 0
    logging.disable()  # clients log that their broker is gone
    no_cuts = unavailable()
    print(f"seed {options.seed}", *[f"no power cuts: {no_cuts}"] * bool(no_cuts), sep="\n")
    report, number = SuccessionReport(), 0
    while len(report.blows) < options.rounds and report.good:
        chosen = options_of(number, may_cut=not no_cuts)
        print(f"set {number}: {chosen}", flush=True)
        rounds = min(ROUNDS_OF_A_SET, options.rounds - len(report.blows))
        shown = rounds_on_a_set(rounds, chosen, options.seed + number, options.keep)
        counts: Counter[str] = Counter()
        for finding in shown.findings:
            counts[finding.kind] += 1
            if counts[finding.kind] <= SHOWN:
                print(finding)
        print(*shown.problems, sep="\n")
        report.add(shown)
        number += 1
    print(report)
    if not report.good:
        print(f"journals and logs: {options.keep}")
    return 0 if report.good else 1


if __name__ == "__main__":
    sys.exit(main())
