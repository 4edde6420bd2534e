"""Jobs in turn, round after round, so that whatever else the machine does meets all of them alike."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

_TICKS = os.sysconf("SC_CLK_TCK")


class Pace(NamedTuple):
    """How often to measure."""

    rounds: int
    seconds: float
    """After these no round is begun but the first, so that a slow machine comes to an end."""


class Run(NamedTuple):
    """One run of a job."""

    seconds: float
    cpu_seconds: float
    """Of everything that took part: Spark, its Python processes, and the brokers."""
    load: float
    """How many processes wanted a core in the minute before."""


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
    """Run every job once in each round, and return their runs; a first round that does not count warms up."""
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
    """Return the processor time of this process and all that it has started, directly or not."""
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
