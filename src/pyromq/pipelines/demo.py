"""`make demo`: a day in a shop, whose orders go in through a producer, and come out of consumers and of Spark.

What went in and what came out must agree, on both ways; the exit code says whether they do.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from pyromq.errors import PyroMQError
from pyromq.pipelines import orders
from pyromq.pipelines.shop import STATES, Totals, fates
from pyromq.pipelines.shop_day import Day, Scene
from pyromq.spark.session import local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PATIENCE = timedelta(seconds=5)
"""How long the shop waits for the money."""
QUICK_CHECKS = ("transactionTimeOut=1000", "transactionCheckInterval=1000")
"""A broker waits a minute before it asks about a transaction; a demo has less time."""


@contextmanager
def servers(data: Path) -> Iterator[str]:
    """Run `pyromq up` on free ports; yield the name server's address."""
    command = [sys.executable, "-m", "pyromq.cli.main", "up", "--data", str(data)]
    ports = ["--namesrv-port", "0", "--port", "0", "--console-port", "0"]
    settings = [word for setting in QUICK_CHECKS for word in ("--set", setting)]
    with (data / "server.log").open("w") as log:
        process = subprocess.Popen([*command, *ports, *settings], stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        assert process.stdout is not None
        ready = process.stdout.readline().split()
        if "namesrv" not in ready:
            raise PyroMQError(f"the servers did not start; see {data / 'server.log'}")
        yield ready[ready.index("namesrv") + 1]
    finally:
        process.terminate()
        process.wait(30)


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


def tell(scenes: list[Scene]) -> tuple[Table, bool]:
    """Lay out what consumers saw, and tell whether that is what they should have seen."""
    table = Table("consumers", "expected", "seen", "")
    for scene in scenes:
        table.add_row(scene.name, f"{scene.expected:,}", f"{scene.seen:,}", "✓" if scene.is_true else "✗")
    return table, all(scene.is_true for scene in scenes)


def main() -> int:
    """Run the demo; 0 only if what came out is what went in."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--orders", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=20)
    options = parser.parse_args()
    console = Console()
    with tempfile.TemporaryDirectory(prefix="pyromq-demo-") as directory, servers(Path(directory)) as namesrv:
        console.print(f"name server and broker are up ({namesrv}); the shop opens for {options.orders:,} orders")
        day = Day(fates(options.orders, options.seed), PATIENCE)
        asyncio.run(day.run(namesrv))
        sent = day.shop.totals()
        table, consumed = tell(day.scenes())
        console.print(table)
        console.print(f"{sum(count for count, _ in sent.values()):,} messages sent; starting Spark")
        spark = local_session("pyromq-demo")
        received = aggregate(spark, namesrv, Path(directory) / "checkpoint")
        spark.stop()
    table, agree = compare(sent, received)
    console.print(table)
    agree &= consumed
    console.print("[green]what came out is what went in[/]" if agree else "[red]the two sides differ[/]")
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
