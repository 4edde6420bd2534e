"""Chaos: everything that a cluster promises, while everything goes wrong at once; the history checker judges.

    python -m tests.faults.chaos --minutes 30
    python -m tests.faults.chaos --rounds 1 --seed 7        # the same troubles as before, if not at the same moments

In each round senders of every kind (plain, batch, one-way, ordered, delayed, timed, transactions) load a broker that is
killed, stopped, frozen, and kept from writing its tables; some rounds have a small disk that fills up. Groups of every
kind read it (concurrent, orderly, batches, plain functions, lite pull with seeks, broadcasting). Their listeners raise,
hang and are cancelled; their members join and leave, are killed, and are cancelled while they start and close. On the
side a topic is deleted and recreated, an operator resets groups, and second consumers are refused. Then all is
repaired, every group drains, and `history.py` checks what everybody wrote down. Journals and logs of a bad round are
kept.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from msgspec import Struct, field

from tests.faults.actors.draining import drain
from tests.faults.actors.roles import ROLES
from tests.faults.actors.senders import ChaosSenders
from tests.faults.actors.stage import Stage
from tests.faults.actors.troubles import Troubles
from tests.faults.history import Finding, check
from tests.faults.journal import AnyEvent, read_journals
from tests.faults.power_cut import unavailable
from tests.faults.timeline import Timeline

SHOWN = 20  # findings of one kind
SMALL_DISK = 96 << 20


class Report(Struct):
    """What rounds have shown."""

    rounds: int = 0
    figures: Counter[str] = field(default_factory=Counter)
    troubles: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """What is wrong besides the history: members that do not end, tasks that outlive their client."""

    @property
    def good(self) -> bool:
        return not (self.findings or self.problems)

    def add(self, other: Report) -> None:
        """Add what another round has shown."""
        self.rounds += other.rounds
        self.figures.update(other.figures)
        self.troubles.update(other.troubles)
        self.findings += other.findings
        self.problems += other.problems

    def __str__(self) -> str:
        kinds = Counter(finding.kind for finding in self.findings)
        found = (
            ", ".join(f"{number} {kind}" for kind, number in kinds.items()) or "0 lost, invented, doubled, out of order"
        )
        return (
            f"{self.rounds} rounds: {_listed(self.figures)}; troubles: {_listed(self.troubles)}; "
            f"findings: {found}; problems: {len(self.problems)}"
        )


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{number} {name.replace('_', ' ')}" for name, number in counts.items())


class Round:
    """One round, in a directory of its own."""

    def __init__(
        self, directory: Path, data: Path, seed: int, seconds: float, pace: float, *, small_disk: bool
    ) -> None:
        self._directory = directory
        self._seconds = seconds
        flush = random.Random(seed).choice(("ASYNC_FLUSH", "SYNC_FLUSH"))
        self._stage = Stage(directory, data, flush)
        self._senders = ChaosSenders(self._stage, directory, seed, pace)
        self._troubles = Troubles(self._stage, directory, seed, small_disk=small_disk)

    async def run(self) -> Report:
        """Make trouble, repair everything, let all groups drain, and judge."""
        try:
            await self._stage.open()
            self._troubles.open()
            observing = asyncio.ensure_future(self._stage.observe())
            sending = asyncio.ensure_future(self._senders.run())
            members = [asyncio.ensure_future(task.run()) for task in self._troubles.tasks]
            await self._troubles.run(self._seconds)
            self._senders.stop()
            for task in self._troubles.tasks:
                task.calm_down()
            contents = await drain(self._directory, ROLES, self._stage.contents)
            for task in self._troubles.tasks:
                task.stop()
            await self._troubles.close()
            await asyncio.gather(*members)
            for running in (sending, observing):
                running.cancel()
            await asyncio.gather(sending, observing, return_exceptions=True)
            return await self._judge(contents)
        finally:
            self._senders.close()
            self._stage.close()

    async def _judge(self, contents: list[AnyEvent]) -> Report:
        events = await asyncio.to_thread(read_journals, self._directory)
        history: list[AnyEvent] = [*events, *contents]
        report = Report(rounds=1, findings=check(history))
        report.figures.update(Timeline(history).figures())
        report.figures["cancelled"] = self._senders.cut_off + sum(task.cancelled for task in self._troubles.tasks)
        report.troubles = self._troubles.counts
        report.problems = [*self._troubles.problems, *await self._left_behind()]
        report.problems += [problem for task in self._troubles.tasks for problem in task.problems]
        return report

    async def _left_behind(self) -> list[str]:
        """Return the tasks of clients that are still there although all clients are closed."""
        for _ in range(50):
            left = asyncio.all_tasks() - {asyncio.current_task()}
            if not left:
                return []
            await asyncio.sleep(0.1)
        return [f"a task outlives its client: {task.get_name()} {task.get_coro()}" for task in left]


def one_round(seed: int, seconds: float, pace: float = 0.1, keep: Path | None = None) -> Report:
    """Run a round; keep its journals and logs in a directory if it was bad."""
    small_disk = seed % 3 == 0 and not unavailable()
    with tempfile.TemporaryDirectory(prefix="pyromq-chaos-") as name:
        directory = Path(name)
        with _disk(directory / "data", small=small_disk) as data:
            running = Round(directory, data, seed, seconds, pace, small_disk=small_disk)
            report = asyncio.run(running.run())
        if not report.good and keep is not None:
            shutil.rmtree(keep / f"seed-{seed}", ignore_errors=True)
            shutil.copytree(directory, keep / f"seed-{seed}", ignore=shutil.ignore_patterns("data"))
    return report


def _shown(findings: list[Finding]) -> Iterator[str]:
    """Yield the first findings of each kind; the others are in the journals."""
    counts: Counter[str] = Counter()
    for finding in findings:
        counts[finding.kind] += 1
        if counts[finding.kind] <= SHOWN:
            yield str(finding)


@contextmanager
def _disk(place: Path, *, small: bool) -> Iterator[Path]:
    place.mkdir()
    if not small:
        yield place
        return
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SMALL_DISK}", "tmpfs", str(place)], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the first round; the next has the next")
    parser.add_argument("--rounds", type=int, help="so many")
    parser.add_argument("--minutes", type=float, default=0.0, help="rounds until this much time has passed")
    parser.add_argument("--seconds", type=float, default=12.0, help="of trouble in each round")
    parser.add_argument("--pace", type=float, default=0.1, help="seconds between two messages of a sender, about")
    parser.add_argument(
        "--keep", type=Path, default=Path(tempfile.gettempdir()) / "pyromq-chaos", help="for bad rounds"
    )
    options = parser.parse_args()
    logging.disable()  # clients log that their broker is gone
    report, began = Report(), time.monotonic()
    most = options.rounds if options.rounds or options.minutes else 1
    for number in count() if most is None else range(most):
        if options.minutes and time.monotonic() - began > 60 * options.minutes:
            break
        seed = options.seed + number
        shown = one_round(seed, options.seconds, options.pace, options.keep)
        print(f"seed {seed}: {shown}", *_shown(shown.findings), *shown.problems[:20], sep="\n", flush=True)
        report.add(shown)
    print(report)
    if not report.good:
        print(f"journals and logs of bad rounds: {options.keep}")
    return 0 if report.good else 1


if __name__ == "__main__":
    sys.exit(main())
