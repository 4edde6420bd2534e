"""`make demo`: a day in a shop. Orders go in through a producer and come out of consumers and Spark.

What went in and what came out must agree everywhere; if not, the exit code is 1. The demo leaves a page with charts.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pyromq.errors import PyroMQError
from pyromq.pipelines import orders, report
from pyromq.pipelines.common.pipeline_session import one_line_errors
from pyromq.pipelines.common.quiet import quiet_jvm
from pyromq.pipelines.demo import books as demo_books
from pyromq.pipelines.demo import demo_page
from pyromq.pipelines.demo.books import Books
from pyromq.pipelines.demo.shop import fates
from pyromq.pipelines.demo.shop_day import TOPICS, Claim, ShopDay
from pyromq.pipelines.outcome import Silent
from pyromq.pipelines.topic_profile.profile import Profile
from pyromq.spark.session import local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = ("transactionTimeOut=1000", "transactionCheckInterval=1000", "traceTopicEnable=true")
"""By default a broker waits a minute before it checks a transaction, too long for a demo. Tracing is on."""
_WINDOW = 1
_PARTS = 1
_SPARK = {"spark.sql.shuffle.partitions": str(_PARTS), "spark.log.level": "FATAL"}


@contextmanager
def servers(data: Path) -> Iterator[str]:
    """Run `pyromq up` on free ports; yield the name server's address."""
    command = [sys.executable, "-m", "pyromq.cli.main", "up", "--data", str(data)]
    ports = ["--namesrv-port", "0", "--port", "0", "--console-port", "0"]
    settings = [word for setting in SETTINGS for word in ("--set", setting)]
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


def start_spark() -> SparkSession:
    """Start Spark with settings for many small streams."""
    with quiet_jvm():
        return local_session("pyromq-demo", fast_checkpoints=True, **_SPARK)


def stream(spark: SparkSession, namesrv: str, directory: Path) -> Books:
    """Stream the topic through `orders`, and read the results."""
    options = orders.Options(namesrv=namesrv, out=str(directory), window=f"{_WINDOW} seconds", parts=_PARTS)
    return demo_books.read_books(spark, options, orders.run(spark, options, Silent()))


def profile(spark: SparkSession, namesrv: str) -> Profile:
    """Profile the shop's topics."""
    return report.take_profile(spark, report.Options(namesrv=namesrv, topics=",".join(TOPICS)), Silent())


def claims_table(parts: Mapping[str, Sequence[Claim]]) -> tuple[Table, bool]:
    """Return a table of what went in and what came out, and whether they agree."""
    table = Table("", "went in", "came out", "cents in", "cents out", "")
    for name, claims in parts.items():
        table.add_section()
        table.add_row(f"[bold]{name}")
        for claim in claims:
            cents = ("" if amount is None else f"{amount:,}" for amount in (claim.cents_expected, claim.cents_seen))
            sign = "[green]✓" if claim.is_true else "[red]✗"
            table.add_row(claim.name, f"{claim.expected:,}", f"{claim.seen:,}", *cents, sign)
    for column in table.columns[1:5]:
        column.justify = "right"
    return table, all(claim.is_true for claims in parts.values() for claim in claims)


class Demo(Struct, frozen=True, kw_only=True):
    """The size of the demo, and the directory of its page."""

    orders: int = 2000
    seed: int = 20
    patience: timedelta = timedelta(seconds=5)
    """How long the shop waits for a payment."""
    out: Path = Path("pyromq-demo")

    @property
    def page(self) -> Path:
        """The path of the page."""
        return self.out / "report.html"


def run(demo: Demo, session: Callable[[], SparkSession], console: Console) -> dict[str, list[Claim]]:
    """Run the day and Spark and write the page; return all claims by part."""
    with tempfile.TemporaryDirectory(prefix="pyromq-demo-") as directory, servers(Path(directory)) as namesrv:
        console.print(f"name server and broker are up ({namesrv}); the shop opens for {demo.orders:,} orders")
        day = ShopDay(fates(demo.orders, demo.seed), demo.patience)
        asyncio.run(day.run(namesrv))
        console.print(f"the shop is closed, with {len(day.shop.sent):,} messages; Spark streams them through `orders`")
        books = stream(session(), namesrv, Path(directory) / "orders")
        console.print("and takes the profile of the shop's topics")
        seen = profile(session(), namesrv)
    parts = {"Consumers": day.claims(), "Spark": demo_books.claims(day.shop, books)}
    demo.out.mkdir(parents=True, exist_ok=True)
    page = demo_page.render(
        day.shop.totals(), parts, books, seen, window=_WINDOW, resent=day.resent, now=datetime.now(UTC)
    )
    demo.page.write_text(page, encoding="utf-8")
    return parts


def main() -> int:
    """Run the demo; return 0 only if what came out is what went in."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--orders", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=20)
    parser.add_argument("--out", type=Path, default=Path("pyromq-demo"), help="directory for the page")
    demo = Demo(**vars(parser.parse_args()))
    console, began = Console(), time.monotonic()
    session = cache(start_spark)  # in this thread: Spark binds the format to the thread that starts it
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: the servers must not outlive us
    try:
        with one_line_errors():
            table, agree = claims_table(run(demo, session, console))
    except (PyroMQError, OSError) as error:
        Console(stderr=True).print(f"[red]{escape(str(error))}[/]")
        return 1
    except KeyboardInterrupt:
        Console(stderr=True).print("stopped; nothing is left behind")
        return 130
    finally:
        if session.cache_info().currsize:
            session().stop()
    console.print(table)
    console.print("[green]what came out is what went in[/]" if agree else "[red]the two sides differ[/]")
    console.print(f"{time.monotonic() - began:.0f} s; the page with the charts is {demo.page.resolve()}")
    return 0 if agree else 1
