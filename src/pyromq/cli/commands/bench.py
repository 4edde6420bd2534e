"""`pyromq bench`: measure how fast a broker is, from outside."""

from __future__ import annotations

import os
import secrets
from typing import Annotated

import typer

from pyromq.cli.arguments import Namesrv, namesrv_addresses
from pyromq.cli.bench.bench_target import filled_ranges, find_target
from pyromq.cli.bench.end_to_end import EndToEnd
from pyromq.cli.bench.load_generator import PullSlot, SendSlot, SignedSendSlot, Slot, drive, slot_groups
from pyromq.cli.bench.measurement import Measurement, measured, report
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
BrokerPid = Annotated[
    int | None, typer.Option(help="Process id of a broker on this machine, to count its CPU time as well.")
]


@app.command(writes=True)
def send(
    namesrv: Namesrv = None,
    topic: Topic = "pyromq-bench",
    connections: Connections = 8,
    in_flight: InFlight = 32,
    size: Annotated[int, typer.Option(min=1, max=4_000_000, help="Bytes of each body.")] = 1024,
    count: Annotated[int, typer.Option(min=0, help="Stop after this many messages (0: by --duration).")] = 0,
    duration: Duration = 5.0,
    warm_up: WarmUp = 1.0,
    tag: Annotated[str, typer.Option(help="Tag of each message.")] = "bench",
    broker_pid: BrokerPid = None,
    as_json: AsJson = False,
) -> None:
    """Send as fast as the broker answers."""

    async def work(measure: Measurement) -> None:
        account = environment_credentials()
        async with await BrokerApi.connect(namesrv_addresses(namesrv), credentials=account) as api:
            target = await find_target(api, topic, writing=True)
        body = os.urandom((size + 1) // 2).hex()[:size].encode()
        seed = secrets.token_hex(8)

        def slot(index: int) -> Slot:
            queue_id = index % target.queues
            given = index, topic, queue_id, body, seed, "pyromq-bench", tag
            return SendSlot(*given) if account is None else SignedSendSlot(account, *given)

        await drive(target.addresses, slot_groups(connections, in_flight, slot), measure.counts, measure.budget)

    report("send", connections, in_flight, run(measured(work, duration, warm_up, count, broker_pid)), as_json)


@app.command()
def consume(
    namesrv: Namesrv = None,
    topic: Topic = "pyromq-bench",
    connections: Connections = 8,
    in_flight: InFlight = 1,
    batch: Annotated[int, typer.Option(min=1, max=1024, help="Messages requested in one pull.")] = 32,
    duration: Duration = 5.0,
    warm_up: WarmUp = 1.0,
    broker_pid: BrokerPid = None,
    as_json: AsJson = False,
) -> None:
    """Pull the messages of a topic again and again; no group's offsets move."""

    async def work(measure: Measurement) -> None:
        async with await BrokerApi.connect(namesrv_addresses(namesrv)) as api:
            target = await find_target(api, topic, writing=False)
            ranges = await filled_ranges(api, target, topic)
        if not ranges:
            raise ClientError(f"topic {topic} holds no messages; `pyromq bench send --topic {topic}` makes some")

        def slot(index: int) -> Slot:
            queue_id, low, high = ranges[index % len(ranges)]
            return PullSlot(index, topic, queue_id, low, high, batch, "TOOLS_CONSUMER")

        await drive(target.addresses, slot_groups(connections, in_flight, slot), measure.counts, measure.budget)

    report("consume", connections, in_flight, run(measured(work, duration, warm_up, 0, broker_pid)), as_json)


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
) -> None:
    """Send at a fixed rate, and measure the time until a consumer has each message."""

    async def work(measure: Measurement) -> None:
        await EndToEnd(namesrv_addresses(namesrv), topic, size, rate, measure.counts).run(measure.budget)

    report("end-to-end", 1, 0, run(measured(work, duration, warm_up, 0, broker_pid)), as_json)
