"""The books of the demo's shop: what Spark made of the day, compared with what went in."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pyromq.pipelines import orders
from pyromq.pipelines.common.streams import LATE, REPEATED
from pyromq.pipelines.demo.shop import Shop, Totals
from pyromq.pipelines.demo.shop_day import Claim
from pyromq.pipelines.orders import REASONS, STATES
from pyromq.pipelines.outcome import Outcome

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class WindowSum(NamedTuple):
    """Messages and cents of one state within one window."""

    start: datetime
    state: str
    messages: int
    cents: int


class Books(NamedTuple):
    """The results of the pipeline `orders`."""

    kept: Totals
    """Messages and cents in the Parquet files, by state."""
    sums: list[WindowSum]
    """The last message of each key in the topic of sums."""
    rejected: dict[str, int]
    """Messages in the topic of rejects, by reason."""
    outcome: Outcome


def read_books(spark: SparkSession, options: orders.Options, outcome: Outcome) -> Books:
    """Read everything that the pipeline has written."""
    from pyspark.sql import functions as f

    kept = spark.read.parquet(str(Path(options.out) / "orders")).groupBy("state")
    rows = kept.agg(f.count("*").alias("messages"), f.sum("cents").alias("cents")).collect()
    rejects = _topic(spark, options, options.rejects).groupBy(f.col("properties")["reason"].alias("reason")).count()
    return Books(
        kept={row["state"]: (row["messages"], row["cents"]) for row in rows},
        sums=_sums(_topic(spark, options, options.totals)),
        rejected={row["reason"]: row["count"] for row in rejects.collect()},
        outcome=outcome,
    )


def _topic(spark: SparkSession, options: orders.Options, topic: str) -> DataFrame:
    return spark.read.format("pyromq").option("namesrv", options.namesrv).option("subscribe", topic).load()


def _sums(messages: DataFrame) -> list[WindowSum]:
    from pyspark.sql import functions as f

    last = messages.groupBy("keys").agg(f.max_by("body", "queue_offset").cast("string").alias("body"))
    figures = f.from_json("body", "start string, state string, messages long, cents long")
    rows = last.select(figures.alias("sum")).select("sum.*").orderBy("start", "state").collect()
    return [
        WindowSum(datetime.fromisoformat(row["start"]), row["state"], row["messages"], row["cents"]) for row in rows
    ]


def claims(shop: Shop, books: Books) -> list[Claim]:
    """Compare what went in with what came out."""
    into, summed = shop.totals(), _by_state(books.sums)
    dropped = books.outcome.dropped
    return [
        *(_claim(f"Parquet: {state}", into[state], books.kept.get(state, (0, 0))) for state in STATES),
        _claim("Parquet: any other state", (0, 0), _others(books.kept)),
        *(_claim(f"sums by window: {state}", into[state], summed.get(state, (0, 0))) for state in STATES),
        *(Claim(f"rejected: {reason}", shop.rubbish[reason], books.rejected.get(reason, 0)) for reason in REASONS),
        Claim("second copies, dropped", shop.repeated, dropped.get(REPEATED, 0)),
        Claim("dropped because they came too late", 0, dropped.get(LATE, 0)),
    ]


def _claim(name: str, into: tuple[int, int], out: tuple[int, int]) -> Claim:
    return Claim(name, into[0], out[0], into[1], out[1])


def _by_state(sums: list[WindowSum]) -> Totals:
    messages: Counter[str] = Counter()
    cents: Counter[str] = Counter()
    for one in sums:
        messages[one.state] += one.messages
        cents[one.state] += one.cents
    return {state: (messages[state], cents[state]) for state in messages}


def _others(kept: Totals) -> tuple[int, int]:
    others = [total for state, total in kept.items() if state not in STATES]
    return sum(count for count, _ in others), sum(cents for _, cents in others)
