"""`pyromq bench`: how fast is a broker, seen from outside?"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import time
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from pyromq.cli.bench.bench_target import filled_ranges, find_target
from pyromq.cli.bench.end_to_end import EndToEnd
from pyromq.cli.bench.load_generator import LoadCounts, PullSlot, SendSlot, Slot, drive
from pyromq.cli.server_settings import namesrv_addresses
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.errors import ClientError
from pyromq.remoting.loop import run

app = typer.Typer(name="bench", help="Measure a broker: any RocketMQ 4.x broker will do.", no_args_is_help=True)

Namesrv = Annotated[str | None, typer.Option("-n", "--namesrv", help="Name servers, host:port;host:port.")]
Topic = Annotated[str, typer.Option(help="Topic to use; made on first use where the broker allows it.")]
Connections = Annotated[int, typer.Option("--connections", "-C", min=1, max=10_000)]
InFlight = Annotated[int, typer.Option("--in-flight", "-W", min=1, max=100_000, help="Requests in flight on each.")]
Duration = Annotated[float, typer.Option(min=0.1, max=3600, help="Seconds to measure, after the warm-up.")]
WarmUp = Annotated[float, typer.Option(min=0, max=600, help="Seconds before counting starts.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON line instead of a table.")]
BrokerPid = Annotated[
    int | None, typer.Option(help="Process id of a broker on this machine, to count its CPU time as well.")
]


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


@app.command()
def send(
    namesrv: Namesrv = None,
    topic: Topic = "pyromq-bench",
    connections: Connections = 8,
    in_flight: InFlight = 32,
    size: Annotated[int, typer.Option(min=1, max=4_000_000, help="Bytes of each body.")] = 1024,
    count: Annotated[int, typer.Option(min=0, help="Stop after so many messages (0: by --duration).")] = 0,
    duration: Duration = 5.0,
    warm_up: WarmUp = 1.0,
    tag: Annotated[str, typer.Option(help="Tag of each message.")] = "bench",
    broker_pid: BrokerPid = None,
    as_json: AsJson = False,
) -> None:
    """Send as fast as the broker answers."""

    async def work(measure: Measure) -> None:
        async with await BrokerApi.connect(namesrv_addresses(namesrv)) as api:
            target = await find_target(api, topic, writing=True)
        body = os.urandom((size + 1) // 2).hex()[:size].encode()
        seed = secrets.token_hex(8)

        def slot(index: int) -> Slot:
            queue_id = index % target.queues
            return SendSlot(index, topic, queue_id, body, seed, "pyromq-bench", tag)

        await drive(target.addresses, slot_groups(connections, in_flight, slot), measure.tally, measure.budget)

    report("send", connections, in_flight, run(measured(work, duration, warm_up, count, broker_pid)), as_json)


@app.command()
def consume(
    namesrv: Namesrv = None,
    topic: Topic = "pyromq-bench",
    connections: Connections = 8,
    in_flight: InFlight = 1,
    batch: Annotated[int, typer.Option(min=1, max=1024, help="Messages asked for in one pull.")] = 32,
    duration: Duration = 5.0,
    warm_up: WarmUp = 1.0,
    broker_pid: BrokerPid = None,
    as_json: AsJson = False,
) -> None:
    """Pull what the topic holds, again and again, without moving any group's offsets."""

    async def work(measure: Measure) -> None:
        async with await BrokerApi.connect(namesrv_addresses(namesrv)) as api:
            target = await find_target(api, topic, writing=False)
            ranges = await filled_ranges(api, target, topic)
        if not ranges:
            raise ClientError(f"topic {topic} holds no messages; `pyromq bench send --topic {topic}` makes some")

        def slot(index: int) -> Slot:
            queue_id, low, high = ranges[index % len(ranges)]
            return PullSlot(index, topic, queue_id, low, high, batch, "TOOLS_CONSUMER")

        await drive(target.addresses, slot_groups(connections, in_flight, slot), measure.tally, measure.budget)

    report("consume", connections, in_flight, run(measured(work, duration, warm_up, 0, broker_pid)), as_json)


@app.command("end-to-end")
def end_to_end(
    namesrv: Namesrv = None,
    topic: Topic = "pyromq-bench",
    rate: Annotated[float, typer.Option(min=0.1, max=100_000, help="Messages a second.")] = 1000.0,
    size: Annotated[int, typer.Option(min=8, max=4_000_000, help="Bytes of each body.")] = 1024,
    duration: Duration = 5.0,
    warm_up: WarmUp = 1.0,
    broker_pid: BrokerPid = None,
    as_json: AsJson = False,
) -> None:
    """Send at a fixed rate, and measure the time until a consumer has each message."""

    async def work(measure: Measure) -> None:
        await EndToEnd(namesrv_addresses(namesrv), topic, size, rate, measure.tally).run(measure.budget)

    report("end-to-end", 1, 0, run(measured(work, duration, warm_up, 0, broker_pid)), as_json)


def slot_groups(connections: int, in_flight: int, make: Callable[[int], Slot]) -> Sequence[Sequence[Slot]]:
    """Make the slots of every connection; a slot's number counts within its connection, its work over all of them."""
    groups = []
    for connection in range(connections):
        group = []
        for index in range(in_flight):
            slot = make(connection * in_flight + index)
            slot.renumber(index)
            group.append(slot)
        groups.append(group)
    return groups


class Measure:
    """Counts between the end of the warm-up and the end of the run."""

    def __init__(self, duration: float, warm_up: float, count: int, broker_pid: int | None) -> None:
        self.tally = LoadCounts()
        self._started = time.perf_counter()
        self._counting_from = self._started + warm_up
        self._until = self._counting_from + duration
        self._left = count
        self._by_count = count > 0
        self._pid = broker_pid
        self._begin: tuple[float, float, float | None] | None = None

    def budget(self) -> bool:
        """Tell whether one more request may be sent."""
        now = time.perf_counter()
        if self._by_count:
            self._left -= 1
            self._begin = self._begin or (now, time.process_time(), cpu_seconds(self._pid))
            return self._left >= 0
        if self._begin is None and now >= self._counting_from:
            self.tally.start_counting()
            self._begin = (now, time.process_time(), cpu_seconds(self._pid))
        return now < self._until

    def outcome(self) -> BenchResult:
        """Sum up."""
        tally, now = self.tally, time.perf_counter()
        began, own_cpu, broker_cpu = self._begin or (self._started, 0.0, None)
        spent = cpu_seconds(self._pid)
        millions = max(tally.messages, 1) / 1e6
        return BenchResult(
            messages=tally.messages,
            seconds=now - began,
            errors=tally.errors,
            first_error=tally.first_error,
            lost=tally.lost,
            p50_ms=tally.percentile(0.5),
            p99_ms=tally.percentile(0.99),
            max_ms=tally.percentile(1.0),
            generator_cpu_per_million=(time.process_time() - own_cpu) / millions,
            broker_cpu_per_million=(spent - broker_cpu) / millions
            if spent is not None and broker_cpu is not None
            else None,
        )


def cpu_seconds(pid: int | None) -> float | None:
    """Return user and system CPU seconds that a process has used, None where that cannot be told."""
    if pid is None:
        return None
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def measured(
    work: Callable[[Measure], Coroutine[Any, Any, None]],
    duration: float,
    warm_up: float,
    count: int,
    broker_pid: int | None,
) -> BenchResult:
    """Run the work with a live rate on stderr where that is a terminal."""
    measure = Measure(duration, warm_up, count, broker_pid)
    showing = asyncio.create_task(show_rate(measure.tally))
    try:
        await work(measure)
    finally:
        showing.cancel()
    return measure.outcome()


async def show_rate(tally: LoadCounts) -> None:
    """Show messages a second, twice a second."""
    console = Console(stderr=True)
    if not console.is_terminal:
        return
    last = tally.messages
    with Live(console=console, transient=True) as live:
        while True:
            await asyncio.sleep(0.5)
            live.update(Text(f"{max(tally.messages - last, 0) * 2:>10,} messages/s"))
            last = tally.messages


def report(name: str, connections: int, in_flight: int, outcome: BenchResult, as_json: bool) -> None:
    """Print the outcome; errors make the exit code 1."""
    if as_json:
        shape = {"bench": name, "connections": connections, "in_flight": in_flight, "rate": round(outcome.rate, 1)}
        typer.echo(json.dumps(shape | msgspec.to_builtins(outcome)))
    else:
        Console().print(as_table(name, connections, in_flight, outcome))
    if outcome.errors or outcome.lost:
        raise ClientError(
            f"{outcome.errors} errors, {outcome.lost} requests without an answer; "
            f"first: {outcome.first_error or 'connection lost'}"
        )


def as_table(name: str, connections: int, in_flight: int, outcome: BenchResult) -> Table:
    """Lay the outcome out for a person."""
    shape = f"{connections} connections x {in_flight} in flight" if in_flight else "at a fixed rate"
    table = Table(title=f"bench {name}, {shape}", show_header=False)
    rows = [
        ("messages", f"{outcome.messages:,} in {outcome.seconds:.2f} s"),
        ("rate", f"{outcome.rate:,.0f} messages/s"),
        ("latency p50 / p99 / max", f"{outcome.p50_ms:.2f} / {outcome.p99_ms:.2f} / {outcome.max_ms:.2f} ms"),
        ("generator CPU", f"{outcome.generator_cpu_per_million:.2f} s per million"),
    ]
    if outcome.broker_cpu_per_million is not None:
        rows.append(("broker CPU", f"{outcome.broker_cpu_per_million:.2f} s per million"))
    for row in rows:
        table.add_row(*row)
    return table
