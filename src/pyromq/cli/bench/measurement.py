"""Measure a run of `pyromq bench`: count after the warm-up, then print rate, latency and CPU time."""

from __future__ import annotations

import array
import asyncio
import os
import platform
import sys
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from rich.live import Live
from rich.table import Table
from rich.text import Text

from pyromq.cli.bench.chart import latency_chart
from pyromq.cli.bench.load_generator import LoadCounts
from pyromq.cli.show.console import is_terminal, output, remarks
from pyromq.cli.show.lines import json_line
from pyromq.errors import ClientError
from pyromq.protocol.release import release

PERCENTILES: Final = ("25", "50", "75", "90", "95", "99", "99.5", "99.9", "99.99", "100")
_ALL_OF_A_CORE = 0.9


class PartResult(msgspec.Struct):
    """What one process measured."""

    messages: int
    answer_bytes: int
    seconds: float
    errors: int
    first_error: str
    lost: int
    latencies_us: array.array[int]
    own_cpu: float
    broker_cpu: float | None


class BenchResult(msgspec.Struct):
    """What one run measured, of all processes together."""

    messages: int
    seconds: float
    rate: float
    mb_s: float
    """Millions of bytes a second: of bodies that were sent, or of records that were read."""
    errors: int
    first_error: str
    lost: int
    p50_ms: float
    p99_ms: float
    p999_ms: float
    max_ms: float
    percentiles_ms: dict[str, float]
    """The times of answers that some percents of them did not exceed."""
    generator_processes: int
    generator_cpu_per_million: float
    generator_cores: float
    """Cores that the generator used: if each of its processes used nearly one, it is what was measured."""
    broker_cpu_per_million: float | None
    broker_memory_mb: float | None


class Measurement:
    """Counts between the end of the warm-up and the end of the run."""

    def __init__(self, duration: float, warm_up: float, count: int, broker_pids: Sequence[int]) -> None:
        self.counts = LoadCounts()
        self._started = time.perf_counter()
        self._counting_from = self._started + warm_up
        self._until = self._counting_from + duration
        self._left = count
        self._by_count = count > 0
        self._pids = broker_pids
        self._begin: tuple[float, float, float | None] | None = None

    def budget(self) -> bool:
        """Return True if one more request may be sent."""
        now = time.perf_counter()
        if self._by_count:
            self._left -= 1
            self._begin = self._begin or (now, time.process_time(), cpu_seconds(self._pids))
            return self._left >= 0
        if self._begin is None and now >= self._counting_from:
            self.counts.start_counting()
            self._begin = (now, time.process_time(), cpu_seconds(self._pids))
        return now < self._until

    def result(self) -> PartResult:
        """Return the result."""
        counts, now = self.counts, time.perf_counter()
        began, own_cpu, broker_cpu = self._begin or (self._started, 0.0, None)
        spent = cpu_seconds(self._pids)
        return PartResult(
            messages=counts.messages,
            answer_bytes=counts.answer_bytes,
            seconds=now - began,
            errors=counts.errors,
            first_error=counts.first_error,
            lost=counts.lost,
            latencies_us=counts.latencies_us,
            own_cpu=time.process_time() - own_cpu,
            broker_cpu=None if spent is None or broker_cpu is None else spent - broker_cpu,
        )


def joined(parts: Sequence[PartResult], broker_pids: Sequence[int], body_size: int | None = None) -> BenchResult:
    """Return the result of all processes together; `body_size` is that of each message that was sent."""
    messages, seconds = sum(part.messages for part in parts), max(part.seconds for part in parts)
    millions = max(messages, 1) / 1e6
    size = sum(part.answer_bytes for part in parts) if body_size is None else messages * body_size
    ordered = sorted(latency for part in parts for latency in part.latencies_us)
    broker_cpu = [part.broker_cpu for part in parts if part.broker_cpu is not None]
    own_cpu = sum(part.own_cpu for part in parts)
    return BenchResult(
        messages=messages,
        seconds=seconds,
        rate=sum(part.messages / part.seconds for part in parts if part.seconds),
        mb_s=size / seconds / 1e6 if seconds else 0.0,
        errors=sum(part.errors for part in parts),
        first_error=next((part.first_error for part in parts if part.first_error), ""),
        lost=sum(part.lost for part in parts),
        p50_ms=percentile(ordered, 0.5),
        p99_ms=percentile(ordered, 0.99),
        p999_ms=percentile(ordered, 0.999),
        max_ms=percentile(ordered, 1.0),
        percentiles_ms={name: percentile(ordered, float(name) / 100) for name in PERCENTILES},
        generator_processes=len(parts),
        generator_cpu_per_million=own_cpu / millions,
        generator_cores=own_cpu / seconds if seconds else 0.0,
        broker_cpu_per_million=sum(broker_cpu) / millions if broker_cpu else None,
        broker_memory_mb=memory_mb(broker_pids),
    )


def percentile(ordered: Sequence[int], share: float) -> float:
    """Return the latency in milliseconds that `share` of the answers did not exceed."""
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)] / 1000 if ordered else 0.0


def cpu_seconds(pids: Sequence[int]) -> float | None:
    """Return the user and system CPU seconds of processes, None if they cannot be read."""
    total = 0.0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return None
        total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total if pids else None


def memory_mb(pids: Sequence[int]) -> float | None:
    """Return the memory that is their own, without mapped files, of processes; None if it cannot be read."""
    total = 0
    for pid in pids:
        try:
            status = Path(f"/proc/{pid}/status").read_text()
        except OSError:
            return None
        total += sum(int(line.split()[1]) for line in status.splitlines() if line.startswith("RssAnon"))
    return total / 1000 if pids else None


async def measured(
    work: Callable[[Measurement], Coroutine[Any, Any, None]],
    duration: float,
    warm_up: float,
    broker_pids: Sequence[int],
) -> PartResult:
    """Run work that counts for itself, with a live rate on stderr if that is a terminal."""
    measure = Measurement(duration, warm_up, 0, broker_pids)
    await show_rate_during(work(measure), measure.counts)
    return measure.result()


async def show_rate_during(work: Coroutine[Any, Any, None], counts: LoadCounts) -> None:
    """Do the work, with a live rate on stderr if that is a terminal."""
    showing = asyncio.create_task(show_rate(counts))
    try:
        await work
    finally:
        showing.cancel()


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


def report(name: str, shape: Mapping[str, float], result: BenchResult, as_json: bool, chart: Path | None) -> None:
    """Print the result and draw its chart; errors make the exit code 1. `shape` is what was asked for."""
    if chart is not None:
        write_chart(chart, name, shape, result)
    if as_json:
        print(json_line({"bench": name, **shape} | msgspec.to_builtins(result) | {"machine": machine_facts()}))
    else:
        output().print(as_table(name, shape, result))
    if result.generator_cores > _ALL_OF_A_CORE * result.generator_processes and not shape.get("asked_rate"):
        remarks().print("The generator was as busy as it can be: the broker may be faster. Try more --processes.")
    if result.errors or result.lost:
        raise ClientError(
            f"{result.errors} errors, {result.lost} requests without an answer; "
            f"first: {result.first_error or 'connection lost'}"
        )


def write_chart(path: Path, name: str, shape: Mapping[str, float], result: BenchResult) -> None:
    """Write the times of answers by percentile as SVG; raises ClientError."""
    facts = machine_facts()
    title = f"bench {name}, {_shape_text(shape)}: {result.rate:,.0f} messages/s"
    subtitle = f"{facts['cores']} cores, {facts['processor']}, load {facts['load']}, {facts['time']}"
    try:
        path.write_text(latency_chart(title, subtitle, result.percentiles_ms), encoding="utf-8")
    except OSError as error:
        raise ClientError(f"cannot write {path}: {error.strerror}") from error


def machine_facts() -> dict[str, str | int | float]:
    """Return what a figure depends on besides the broker."""
    return {
        "cores": os.cpu_count() or 0,
        "memory_mb": round(_memory_mb()),
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else 0.0,
        "processor": _processor(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "pyromq": release(),
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def _memory_mb() -> float:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e6
    except (AttributeError, ValueError, OSError):  # not on every system
        return 0.0


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")


def as_table(name: str, shape: Mapping[str, float], result: BenchResult) -> Table:
    """Return the result as a table."""
    table = Table(title=f"bench {name}, {_shape_text(shape)}", show_header=False)
    times = " / ".join(f"{value:.2f}" for value in (result.p50_ms, result.p99_ms, result.p999_ms, result.max_ms))
    used = f"{result.generator_cpu_per_million:.2f} s per million, {result.generator_cores:.2f} cores"
    rows = [
        ("messages", f"{result.messages:,} in {result.seconds:.2f} s"),
        ("rate", f"{result.rate:,.0f} messages/s, {result.mb_s:,.1f} MB/s"),
        ("latency p50 / p99 / p99.9 / max", f"{times} ms"),
        ("generator CPU", used),
    ]
    if result.broker_cpu_per_million is not None:
        rows.append(("broker CPU", f"{result.broker_cpu_per_million:.2f} s per million"))
    if result.broker_memory_mb is not None:
        rows.append(("broker memory", f"{result.broker_memory_mb:,.0f} MB"))
    for row in rows:
        table.add_row(*row)
    return table


def _shape_text(shape: Mapping[str, float]) -> str:
    rate, in_flight = shape.get("asked_rate", 0.0), shape.get("in_flight", 0)
    text = f"{shape['connections']:g} connections x {in_flight:g} in flight" if in_flight else ""
    paced = f"at a fixed rate of {rate:,g}/s" if rate else ""
    processes = f"{shape['processes']:g} processes" if shape.get("processes", 1) > 1 else ""
    return ", ".join(filter(None, (text, paced, processes)))
