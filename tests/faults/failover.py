"""Failover: masters are killed, paused and cut off from power under load; their slaves take over, and nothing is lost.

    python -m tests.faults.failover --rounds 100
    python -m tests.faults.failover --rounds 5 --seed 7       # the same blows as before, if not at the same moments
    python -m tests.faults.failover --etcd-away 300           # etcd is killed for five minutes: no send fails
    python -m tests.faults.failover --partitions --rounds 20  # networks are cut: from etcd, from slaves, one way
    python -m tests.faults.failover --planted                 # brokers with faults: each has to be found

Brokers of one name with `failover=etcd://…` and SYNC_MASTER, each in a process of its own. `actors/blows.py` says what
is done to them; a third of the rounds pause the master past its lease with its clients on their connections, in a fifth
etcd is killed too, or the leader of its three members. Some sets have three brokers, one of them on a slow link; in
some the date of one broker is an hour wrong; in some, power cuts take what was not flushed; in some there are clients
of Apache's. Meanwhile there are sends, batches, transactions, delays and timers, two groups, and clients that stay with
their broker whatever it is. In the end all brokers have the same bytes, and `history.py` checks what everybody wrote
down: nothing acknowledged is lost, and no deposed master acknowledges. Only members of the in-sync set may have been
elected, as etcd remembers. Failover times are printed: from the blow to the first send that the new master stored.
Journals and logs of a bad run are kept. Run one campaign at a time: the networks of `--partitions` copy the mounts of
the machine, and a disk that lost its power beside them comes back with errors only.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from pyromq import Producer, PyroMQError, SendResult
from pyromq.testing import eventually
from tests.etcd_server import etcd_unavailable
from tests.faults.actors import java_witness, network
from tests.faults.actors.blows import (
    ALL,
    ALONE,
    CUT,
    HANDOVER,
    KILL,
    NEW_DISK,
    PARTITIONS,
    PAUSE,
    PROMOTE,
    Blows,
)
from tests.faults.actors.broker_set import NAME, PRODUCT, BrokerNode, BrokerSet, SetOptions
from tests.faults.actors.draining import drain
from tests.faults.actors.failover_report import Blow, SuccessionReport
from tests.faults.actors.java_witness import JAVA, JavaWitness
from tests.faults.actors.listeners import Listening
from tests.faults.actors.members import consume, make_consumer
from tests.faults.actors.planted import CONFIRMS_EARLY, FAULTS, LATE_SET, LOST_EPOCH, WAITS_FOR_ONE, program
from tests.faults.actors.roles import Role
from tests.faults.actors.senders import Senders
from tests.faults.actors.stubborn import StubbornClients
from tests.faults.history import check
from tests.faults.journal import RAISED, SEND_OK, Answered, AnyEvent, Attempted, Journal, read_journals
from tests.faults.power_cut import unavailable
from tests.faults.timeline import Timeline

SEVERAL = (ALL, ALONE, NEW_DISK)
ROUNDS_OF_A_SET = 17
WELL_WITHIN = 240.0
SHOWN = 10  # findings of one kind
_SYNC = "SYNC_FLUSH"


class PairSenders(Senders):
    """Senders that remember when which broker answered."""

    def __init__(self, namesrv: str, directory: Path, seed: int, pace: float, *, with_delays: bool = True) -> None:
        super().__init__(namesrv, directory, seed, pace)
        self.answers: list[Answered] = []
        self._with_delays = with_delays

    def _delayed_ways(self, hasty: Producer) -> list[Callable[[], Awaitable[None]]]:
        return super()._delayed_ways(hasty) if self._with_delays else []

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
        self._blows = Blows(self.brokers, self._chance)
        self._seed = seed
        self._senders = PairSenders(self.brokers.namesrv, directory, seed, pace, with_delays=not options.clocks)
        self._java = JavaWitness(self.brokers.namesrv, directory)
        self._over = asyncio.Event()

    async def run(
        self,
        rounds: int | Sequence[str],
        program: Callable[[int], Sequence[str]] = lambda number: PRODUCT,
        etcd_away: float = 0.0,
    ) -> None:
        """Strike again and again, let all groups drain, and judge; the report says the rest.

        `rounds` says how often, or in which ways. With `etcd_away`, etcd is killed for so many seconds before.
        """
        options = self.brokers.options
        working: list[asyncio.Task[None]] = []
        try:
            await self.brokers.open(program)
            addresses = [node.address for node in self.brokers.nodes]
            self._stubborn = StubbornClients(self.brokers.namesrv, addresses, NAME, self._directory)
            if options.java:
                await self._java.start()
            ours = [role for role in options.roles if role is not JAVA]
            members = [self._live(role, number) for role in ours for number in range(role.tasks)]
            works = [self._senders.run(), self._stubborn.run(), *members]
            working = [asyncio.create_task(work) for work in works]
            if etcd_away:
                await self._without_etcd(etcd_away)
            if isinstance(rounds, int):
                plan = [self._choose(number) for number in range(rounds)]
            else:
                plan = [(how, False) for how in rounds]
            for number, (how, with_etcd) in enumerate(plan):
                await self.one_round(number, how, with_etcd=with_etcd)
            self._blows.set_dates_right()
            await self.brokers.speed_up()
            await self.all_well()
            self._senders.stop()
            self._stubborn.stop()
            await self._java.rest()
            await self._judge(await drain(self._directory, options.roles, self.brokers.contents))
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
            await self._java.close()
            await self.brokers.close()

    async def _without_etcd(self, seconds: float) -> None:
        """Kill etcd for a while in which all brokers are well: no send fails."""
        await self.all_well()
        since = time.monotonic()
        await asyncio.to_thread(self.brokers.etcd.kill)
        await asyncio.sleep(seconds)
        await asyncio.to_thread(self.brokers.etcd.start)
        events = await asyncio.to_thread(read_journals, self._directory)
        asked = {
            event.value
            for event in events
            if isinstance(event, Attempted) and event.by == "senders" and event.at > since
        }
        answers = [event for event in events if isinstance(event, Answered) and event.value in asked]
        failed = [answer for answer in answers if answer.status == RAISED]
        self.report.figures["sent without etcd"] += len(answers)
        if failed:
            self.report.problems.append(f"{len(failed)} of {len(answers)} sends failed without etcd: {failed[0]}")

    async def _judge(self, contents: list[AnyEvent]) -> None:
        events = await asyncio.to_thread(read_journals, self._directory)
        history: list[AnyEvent] = [*events, *contents]
        self.report.findings += await asyncio.to_thread(check, history)
        self.report.figures.update(Timeline(history).figures())
        self.report.figures["elections of a member of the set"] += self.brokers.elections
        self.report.problems += self.brokers.problems
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

    async def one_round(self, number: int, how: str, *, with_etcd: bool = False) -> None:
        """Strike the master, or several, and let them come back."""
        await self.all_well()
        before = [self._blows.set_a_date()] if self.brokers.options.clocks else []
        await asyncio.sleep(self._chance.uniform(0.3, 2.0))
        master = await self.brokers.master(WELL_WITHIN)
        if any(node.is_slow and node.address not in self.brokers.in_sync for node in self.brokers.nodes):
            before.append("a slave is behind")
            self.report.figures["rounds with a slave behind"] += 1
        etcd = asyncio.create_task(self._blows.strike_etcd()) if with_etcd else None
        try:
            if how in PARTITIONS:
                await self._blows.part(master, how)
                blow = Blow(how, with_etcd)
            elif how in SEVERAL:
                await self._blows.strike_several(master, how)
                blow = Blow(how, with_etcd)
            else:
                blow = Blow(how, with_etcd, *await self._one(master, how))
        finally:
            if etcd is not None:
                await etcd
        self.report.blows.append(blow)
        print(f"  round {number + 1}: broker {master.number}, {blow}", *before, sep=", ", flush=True)

    async def _one(self, master: BrokerNode, how: str) -> tuple[float, float]:
        since = self.brokers.strike(master, how)
        striking = asyncio.create_task(self._blows.strike(master, how))
        try:
            return await self._times(master, since)
        finally:
            await striking
            await self._blows.mend(master, how)

    def _choose(self, number: int) -> tuple[str, bool]:
        if self.brokers.options.in_lab:
            return PARTITIONS[number % len(PARTITIONS)], False
        disks = self.brokers.options.on_disks
        others = [KILL, KILL, KILL, HANDOVER, PROMOTE, ALL, ALONE, NEW_DISK, *[CUT] * (3 if disks else 0)]
        how = PAUSE if number % 3 == 1 else self._chance.choice(others)
        return how, number % 5 == 3 and how != PROMOTE  # nobody can be elected while etcd is away

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
        if not brokers.in_sync >= {node.address for node in brokers.nodes if not node.is_slow} or brokers.view is None:
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
    rounds: int | Sequence[str],
    options: SetOptions,
    seed: int,
    keep: Path | None = None,
    program: Callable[[int], Sequence[str]] = lambda number: PRODUCT,
    etcd_away: float = 0.0,
) -> SuccessionReport:
    """Run rounds on one set of brokers; keep its journals and logs in a directory if something was wrong."""
    with tempfile.TemporaryDirectory(prefix="pyromq-failover-") as name:
        directory = Path(name)
        succession = Succession(directory, options, seed)
        asyncio.run(succession.run(rounds, program, etcd_away))
        if not succession.report.good and keep is not None:
            shutil.rmtree(keep / f"seed-{seed}", ignore_errors=True)
            left_out = shutil.ignore_patterns("data-*", "disk-*")
            shutil.copytree(directory, keep / f"seed-{seed}", ignore=left_out)
    return succession.report


def options_of(number: int, *, may_cut: bool, has_java: bool) -> SetOptions:
    """Return what the set of this number is like: every kind has its turn."""
    kinds = (
        SetOptions(java=has_java),
        SetOptions(brokers=3, etcd=3, flush=_SYNC, on_disks=may_cut),
        SetOptions(brokers=3, slow=1),
        SetOptions(etcd=3, on_disks=may_cut, java=has_java),  # ASYNC_FLUSH: a power cut of all takes the window
        SetOptions(etcd=3, clocks=True),
        SetOptions(brokers=3, slow=1, flush=_SYNC, on_disks=may_cut),
    )
    return kinds[number % len(kinds)]


# How each planted fault is brought to light: how many brokers, which of them have it, and what is done.
_PLANS: dict[str, tuple[int, Callable[[int], bool], Sequence[str]]] = {
    CONFIRMS_EARLY: (2, lambda number: True, [KILL] * 3),
    WAITS_FOR_ONE: (3, lambda number: True, [KILL] * 6),
    LOST_EPOCH: (2, lambda number: True, [ALONE] * 4),
    LATE_SET: (2, lambda number: True, [ALONE] * 6),
}


def find_planted(fault: str, seed: int, keep: Path | None = None) -> SuccessionReport:
    """Run rounds with brokers that have a fault; return what was found."""
    count, has_it, rounds = _PLANS[fault]
    chosen = program(fault)
    return rounds_on_a_set(
        rounds, SetOptions(brokers=count), seed, keep, lambda number: chosen if has_it(number) else PRODUCT
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the first set; the next has the next")
    parser.add_argument(
        "--keep", type=Path, default=Path(tempfile.gettempdir()) / "pyromq-failover", help="for bad runs"
    )
    parser.add_argument("--etcd-away", type=float, default=0.0, help="kill etcd for so many seconds, first")
    parser.add_argument("--planted", action="store_true", help="brokers with faults: each must be found")
    parser.add_argument("--partitions", action="store_true", help="cut networks instead; needs root")
    parser.add_argument("--first-set", type=int, default=0, help="begin with the set of this number")
    options = parser.parse_args()
    if reason := etcd_unavailable():
        print(f"failover skipped: {reason}")
        return 0
    logging.disable()  # clients log that their broker is gone
    print(f"seed {options.seed}")
    if options.planted:
        return _find_all(options.seed)
    if options.partitions:
        if reason := network.unavailable():
            print(f"partitions skipped: {reason}")
            return 0
        network.enter("tests.faults.failover", sys.argv[1:])
    no_cuts = unavailable()
    no_java = java_witness.unavailable()
    for what, reason in (("power cuts", no_cuts), ("clients of Apache's", no_java)):
        print(*[f"no {what}: {reason}\n"] * bool(reason), sep="", end="")
    report, number, etcd_away = SuccessionReport(), options.first_set, options.etcd_away
    while (len(report.blows) < options.rounds or etcd_away) and report.good:
        chosen = options_of(number, may_cut=not no_cuts, has_java=not no_java)
        if options.partitions:
            chosen = SetOptions(brokers=2 + number % 2, in_lab=True)
        print(f"set {number}: {chosen}", flush=True)
        rounds = min(ROUNDS_OF_A_SET, options.rounds - len(report.blows))
        shown = rounds_on_a_set(rounds, chosen, options.seed + number, options.keep, etcd_away=etcd_away)
        _print_findings(shown)
        report.add(shown)
        number, etcd_away = number + 1, 0.0
    print(report)
    if not report.good:
        print(f"journals and logs: {options.keep}")
    return 0 if report.good else 1


def _print_findings(shown: SuccessionReport) -> None:
    counts: Counter[str] = Counter()
    for finding in shown.findings:
        counts[finding.kind] += 1
        if counts[finding.kind] <= SHOWN:
            print(finding)
    print(*shown.problems, sep="\n")


def _find_all(seed: int) -> int:
    missed = []
    for fault in FAULTS:
        report = find_planted(fault, seed)
        kinds = Counter(finding.kind for finding in report.findings)
        found = [*(f"{count} {kind}" for kind, count in kinds.items()), *report.problems]
        print(f"{fault}: {'; '.join(found) or 'NOT FOUND'}", flush=True)
        if report.good:
            missed.append(fault)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
