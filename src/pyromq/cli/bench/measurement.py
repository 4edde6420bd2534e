"""Measure a run of `pyromq bench`: count after the warm-up, then print rate, latency and CPU time."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import msgspec
from rich.live import Live
from rich.table import Table
from rich.text import Text

from pyromq.cli.bench.load_generator import LoadCounts
from pyromq.cli.show.console import is_terminal, output, remarks
from pyromq.cli.show.lines import json_line
from pyromq.errors import ClientError


class BenchResult(msgspec.Struct):
    """What one run measured."""

    messages: int
    seconds: float
    errors: int
    first_error: str
    lost: int
    p50_ms: float
    p99_ms: float
    max_ms: float
    generator_cpu_per_million: float
    broker_cpu_per_million: float | None

    @property
    def rate(self) -> float:
        return self.messages / self.seconds if self.seconds else 0.0


class Measurement:
    """Counts between the end of the warm-up and the end of the run."""

    def __init__(self, duration: float, warm_up: float, count: int, broker_pid: int | None) -> None:
        self.counts = LoadCounts()
        self._started = time.perf_counter()
        self._counting_from = self._started + warm_up
        self._until = self._counting_from + duration
        self._left = count
        self._by_count = count > 0
        self._pid = broker_pid
        self._begin: tuple[float, float, float | None] | None = None

    def budget(self) -> bool:
        """Return True if one more request may be sent."""
        now = time.perf_counter()
        if self._by_count:
            self._left -= 1
            self._begin = self._begin or (now, time.process_time(), cpu_seconds(self._pid))
            return self._left >= 0
        if self._begin is None and now >= self._counting_from:
            self.counts.start_counting()
            self._begin = (now, time.process_time(), cpu_seconds(self._pid))
        return now < self._until

    def result(self) -> BenchResult:
        """Return the result."""
        counts, now = self.counts, time.perf_counter()
        began, own_cpu, broker_cpu = self._begin or (self._started, 0.0, None)
        spent = cpu_seconds(self._pid)
        millions = max(counts.messages, 1) / 1e6
        return BenchResult(
            messages=counts.messages,
            seconds=now - began,
            errors=counts.errors,
            first_error=counts.first_error,
            lost=counts.lost,
            p50_ms=counts.percentile(0.5),
            p99_ms=counts.percentile(0.99),
            max_ms=counts.percentile(1.0),
            generator_cpu_per_million=(time.process_time() - own_cpu) / millions,
            broker_cpu_per_million=(spent - broker_cpu) / millions
            if spent is not None and broker_cpu is not None
            else None,
        )


def cpu_seconds(pid: int | None) -> float | None:
    """Return the user and system CPU seconds of a process, None if they cannot be read."""
    if pid is None:
        return None
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def measured(
    work: Callable[[Measurement], Coroutine[Any, Any, None]],
    duration: float,
    warm_up: float,
    count: int,
    broker_pid: int | None,
) -> BenchResult:
    """Run the work, with a live rate on stderr if that is a terminal."""
    measure = Measurement(duration, warm_up, count, broker_pid)
    showing = asyncio.create_task(show_rate(measure.counts))
    try:
        await work(measure)
    finally:
        showing.cancel()
    return measure.result()


async def show_rate(counts: LoadCounts) -> None:
    """Show messages a second, twice a second."""
    console = remarks()
    if not console.is_terminal:
        return
    last = counts.messages
    with Live(console=console, transient=True, redirect_stdout=is_terminal(sys.stdout)) as live:
        while True:
            await asyncio.sleep(0.5)
            live.update(Text(f"{max(counts.messages - last, 0) * 2:>10,} messages/s"))
            last = counts.messages


def report(name: str, connections: int, in_flight: int, result: BenchResult, as_json: bool) -> None:
    """Print the result; errors make the exit code 1."""
    if as_json:
        shape = {"bench": name, "connections": connections, "in_flight": in_flight, "rate": round(result.rate, 1)}
        print(json_line(shape | msgspec.to_builtins(result)))
    else:
        output().print(as_table(name, connections, in_flight, result))
    if result.errors or result.lost:
        raise ClientError(
            f"{result.errors} errors, {result.lost} requests without an answer; "
            f"first: {result.first_error or 'connection lost'}"
        )


def as_table(name: str, connections: int, in_flight: int, result: BenchResult) -> Table:
    """Return the result as a table."""
    shape = f"{connections} connections x {in_flight} in flight" if in_flight else "at a fixed rate"
    table = Table(title=f"bench {name}, {shape}", show_header=False)
    rows = [
        ("messages", f"{result.messages:,} in {result.seconds:.2f} s"),
        ("rate", f"{result.rate:,.0f} messages/s"),
        ("latency p50 / p99 / max", f"{result.p50_ms:.2f} / {result.p99_ms:.2f} / {result.max_ms:.2f} ms"),
        ("generator CPU", f"{result.generator_cpu_per_million:.2f} s per million"),
    ]
    if result.broker_cpu_per_million is not None:
        rows.append(("broker CPU", f"{result.broker_cpu_per_million:.2f} s per million"))
    for row in rows:
        table.add_row(*row)
    return table
