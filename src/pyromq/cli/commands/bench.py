"""`pyromq bench`: measure how fast a broker is, from outside."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Annotated

import typer

from pyromq.cli.arguments import Namesrv, namesrv_addresses
from pyromq.cli.bench.bench_target import BenchTarget, filled_ranges, find_target, local_pids
from pyromq.cli.bench.end_to_end import EndToEnd
from pyromq.cli.bench.loads import Load, PullLoad, SendLoad, run_load
from pyromq.cli.bench.measurement import Measurement, joined, measured, report
from pyromq.cli.family import Family
from pyromq.client.environment import environment_credentials
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.errors import ClientError
from pyromq.remoting.loop import run

app = Family(help="Measure any RocketMQ 4.x broker.")

Topic = Annotated[str, typer.Option(help="Topic to use; created on first use if the broker allows it.")]
Connections = Annotated[int, typer.Option("--connections", "-C", min=1, max=10_000, help="Connections to use.")]
InFlight = Annotated[
    int, typer.Option("--in-flight", "-W", min=1, max=100_000, help="Requests in flight on each connection.")
]
Duration = Annotated[float, typer.Option(min=0.1, max=3600, help="Seconds to measure, after the warm-up.")]
WarmUp = Annotated[float, typer.Option(min=0, max=600, help="Seconds before counting starts.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON line instead of a table.")]
Chart = Annotated[Path | None, typer.Option(help="Draw the times of answers by percentile into this SVG file.")]
BrokerPid = Annotated[
    int | None, typer.Option(help="Process id of the broker, to count its CPU time; found for one on this machine.")
]


Processes = Annotated[
    int, typer.Option(min=1, max=64, help="Processes that share the connections, if one core is not enough for them.")
]
Rate = Annotated[
    float,
    typer.Option(min=0, max=10_000_000, help="Requests a second; counted from when they are due (0: as answers come)."),
]


@app.command(writes=True)
def send(
    namesrv: Namesrv = None,
    topic: Topic = "pyromq-bench",
    connections: Connections = 8,
    in_flight: InFlight = 32,
    processes: Processes = 1,
    rate: Rate = 0.0,
    size: Annotated[int, typer.Option(min=1, max=4_000_000, help="Bytes of each body.")] = 1024,
    count: Annotated[int, typer.Option(min=0, help="Stop after this many messages (0: by --duration).")] = 0,
    duration: Duration = 5.0,
    warm_up: WarmUp = 1.0,
    tag: Annotated[str, typer.Option(help="Tag of each message.")] = "bench",
    broker_pid: BrokerPid = None,
    as_json: AsJson = False,
    chart: Chart = None,
) -> None:
    """Send as fast as the broker answers, or at a fixed rate."""

    async def look() -> SendLoad:
        account = environment_credentials()
        async with await BrokerApi.connect(namesrv_addresses(namesrv), credentials=account) as api:
            target = await find_target(api, topic, writing=True)
        return SendLoad(
            addresses=target.addresses, topic=topic, connections=connections, in_flight=in_flight, rate=rate,
            duration=duration, warm_up=warm_up, count=count, account=account,
            broker_pids=_pids(broker_pid, target), queues=target.queues, size=size, tag=tag, seed=secrets.token_hex(8),
        )  # fmt: skip

    load = run(look())
    result = joined(run_load(load, processes), load.broker_pids, size)
    report("send", _shape(load, processes) | {"size": size}, result, as_json, chart)


@app.command()
def consume(
    namesrv: Namesrv = None,
    topic: Topic = "pyromq-bench",
    connections: Connections = 8,
    in_flight: InFlight = 1,
    processes: Processes = 1,
    rate: Rate = 0.0,
    batch: Annotated[int, typer.Option(min=1, max=1024, help="Messages requested in one pull.")] = 32,
    duration: Duration = 5.0,
    warm_up: WarmUp = 1.0,
    broker_pid: BrokerPid = None,
    as_json: AsJson = False,
    chart: Chart = None,
) -> None:
    """Pull the messages of a topic again and again; no group's offsets move."""

    async def look() -> PullLoad:
        account = environment_credentials()
        async with await BrokerApi.connect(namesrv_addresses(namesrv), credentials=account) as api:
            target = await find_target(api, topic, writing=False)
            ranges = await filled_ranges(api, target, topic)
        if not ranges:
            raise ClientError(f"topic {topic} holds no messages; `pyromq bench send --topic {topic}` makes some")
        return PullLoad(
            addresses=target.addresses, topic=topic, connections=connections, in_flight=in_flight, rate=rate,
            duration=duration, warm_up=warm_up, account=account,
            broker_pids=_pids(broker_pid, target), ranges=ranges, batch=batch,
        )  # fmt: skip

    load = run(look())
    report(
        "consume",
        _shape(load, processes) | {"batch": batch},
        joined(run_load(load, processes), load.broker_pids),
        as_json,
        chart,
    )


def _pids(given: int | None, target: BenchTarget) -> list[int]:
    return local_pids(target.addresses) if given is None else [given]


def _shape(load: Load, processes: int) -> dict[str, float]:
    return {
        "connections": load.connections, "in_flight": load.in_flight,
        "processes": min(processes, load.connections), "asked_rate": load.rate,
    }  # fmt: skip


@app.command("end-to-end", writes=True)
def end_to_end(
    namesrv: Namesrv = None,
    topic: Topic = "pyromq-bench",
    rate: Annotated[float, typer.Option(min=0.1, max=100_000, help="Messages a second.")] = 1000.0,
    size: Annotated[int, typer.Option(min=8, max=4_000_000, help="Bytes of each body.")] = 1024,
    duration: Duration = 5.0,
    warm_up: WarmUp = 1.0,
    broker_pid: BrokerPid = None,
    as_json: AsJson = False,
    chart: Chart = None,
) -> None:
    """Send at a fixed rate, and measure the time until a consumer has each message."""

    async def work(measure: Measurement) -> None:
        await EndToEnd(namesrv_addresses(namesrv), topic, size, rate, measure.counts).run(measure.budget)

    async def look() -> BenchTarget:
        api = await BrokerApi.connect(namesrv_addresses(namesrv), credentials=environment_credentials())
        async with api:
            return await find_target(api, topic, writing=True)

    pids = _pids(broker_pid, run(look()))
    result = joined([run(measured(work, duration, warm_up, pids))], pids, size)
    report("end-to-end", {"asked_rate": rate, "size": size}, result, as_json, chart)
