"""Runs jobs in turn, round after round, so that other load on the machine affects all of them equally."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

_TICKS = os.sysconf("SC_CLK_TCK")


class Pace(NamedTuple):
    """How many rounds to measure."""

    rounds: int
    seconds: float
    """After this time no further round starts, so that a slow machine finishes."""


class Run(NamedTuple):
    """One run of a job."""

    seconds: float
    cpu_seconds: float
    """CPU time of Spark, its Python processes and the brokers."""
    load: float
    """The load average of the minute before."""


class Runs(list[Run]):
    """All runs of a job."""

    @property
    def median(self) -> float:
        return statistics.median(run.seconds for run in self)

    @property
    def best(self) -> float:
        return min(run.seconds for run in self)

    @property
    def cpu(self) -> float:
        return statistics.median(run.cpu_seconds for run in self)

    @property
    def load(self) -> float:
        return statistics.median(run.load for run in self)


def in_turn(jobs: Mapping[str, Callable[[], float]], pace: Pace, *, warm_up: bool = True) -> dict[str, Runs]:
    """Run every job once per round and return the runs; a first round that is not counted warms up."""
    runs = {name: Runs() for name in jobs}
    end = time.monotonic() + pace.seconds
    for number in range(1 - warm_up, pace.rounds + 1):
        if number > 1 and time.monotonic() > end:
            break
        for name, job in jobs.items():
            before, load = _cpu_seconds(), os.getloadavg()[0]
            run = Run(job(), _cpu_seconds() - before, load)
            if number:
                runs[name].append(run)
    return runs


def _cpu_seconds() -> float:
    """Return the CPU time of this process and all its descendants."""
    parents, used = {}, {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # gone meanwhile
            continue
        process = int(path.parent.name)
        parents[process], used[process] = int(fields[1]), sum(map(int, fields[11:15]))
    return sum(ticks for process, ticks in used.items() if _is_ours(process, parents)) / _TICKS


def _is_ours(process: int, parents: Mapping[int, int]) -> bool:
    while process not in (0, os.getpid()):
        process = parents.get(process, 0)
    return process != 0
