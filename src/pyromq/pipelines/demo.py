"""`make demo`: a shop's orders go in through a producer, come out of a Spark aggregation, and both sides must agree."""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from pyromq.client.producer import Producer
from pyromq.errors import PyroMQError
from pyromq.pipelines import orders
from pyromq.protocol.message import Message
from pyromq.spark.session import local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STATES = ("created", "paid", "shipped", "finished")
Totals = dict[str, tuple[int, int]]


@contextmanager
def servers(data: Path) -> Iterator[str]:
    """Run `pyromq up` on free ports; yield the name server's address."""
    command = [sys.executable, "-m", "pyromq.cli.main", "up", "--data", str(data)]
    ports = ["--namesrv-port", "0", "--port", "0", "--console-port", "0"]
    with (data / "server.log").open("w") as log:
        process = subprocess.Popen([*command, *ports], stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        assert process.stdout is not None
        ready = process.stdout.readline().split()
        if "namesrv" not in ready:
            raise PyroMQError(f"the servers did not start; see {data / 'server.log'}")
        yield ready[ready.index("namesrv") + 1]
    finally:
        process.terminate()
        process.wait(30)


async def shop(namesrv: str, count: int, seed: int) -> Totals:
    """Walk `count` orders through their states, in order for each; return messages and cents by state."""
    chance = random.Random(seed)
    messages, cents = Counter[str](), Counter[str]()
    async with Producer(group="demo-shop", namesrv=namesrv) as producer:

        async def walk(order: int, amount: int, states: tuple[str, ...]) -> None:
            for state in states:
                body = json.dumps({"order_id": order, "state": state, "cents": amount}).encode()
                message = Message(topic="orders", body=body, tags=state, keys=[f"o-{order}"])
                await producer.send(message, order_key=f"o-{order}")
                messages[state] += 1
                cents[state] += amount

        walks = [walk(n, chance.randrange(100, 50_000), STATES[: chance.randint(1, 4)]) for n in range(count)]
        await asyncio.gather(*walks)
    return {state: (messages[state], cents[state]) for state in STATES}


def aggregate(spark: SparkSession, namesrv: str, checkpoint: Path) -> Totals:
    """Stream the topic through the `orders` pipeline and return what came out."""
    totals = orders.build(spark, orders.Options(namesrv=namesrv))
    query = (
        totals.writeStream.format("memory")
        .queryName("totals")
        .outputMode("complete")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return {row.state: (row.messages, row.cents) for row in spark.table("totals").collect()}


def compare(sent: Totals, received: Totals) -> tuple[Table, bool]:
    """Lay both sides next to each other and tell whether they agree."""
    table = Table("state", "messages in", "messages out", "cents in", "cents out", "")
    agree = True
    for state in sorted(sent.keys() | received.keys(), key=lambda s: STATES.index(s) if s in STATES else 99):
        into, out = sent.get(state, (0, 0)), received.get(state, (0, 0))
        agree &= into == out
        table.add_row(state, f"{into[0]:,}", f"{out[0]:,}", f"{into[1]:,}", f"{out[1]:,}", "✓" if into == out else "✗")
    return table, agree


def main() -> int:
    """Run the demo; 0 only if what came out is what went in."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--orders", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=20)
    options = parser.parse_args()
    console = Console()
    with tempfile.TemporaryDirectory(prefix="pyromq-demo-") as directory, servers(Path(directory)) as namesrv:
        console.print(f"name server and broker are up ({namesrv}); sending {options.orders:,} orders")
        sent = asyncio.run(shop(namesrv, options.orders, options.seed))
        console.print(f"{sum(count for count, _ in sent.values()):,} messages sent; starting Spark")
        spark = local_session("pyromq-demo")
        received = aggregate(spark, namesrv, Path(directory) / "checkpoint")
        spark.stop()
    table, agree = compare(sent, received)
    console.print(table)
    console.print("[green]what came out is what went in[/]" if agree else "[red]the two sides differ[/]")
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
