"""The pipeline `orders`: decode, validate, deduplicate and sum by window. Used by the demo, and a model for others.

topic ──► decode ──► is it an order? ──yes──► seen before? ──no──┬──► Parquet, each state of an order once
                            │ no                                 └──► sums by window and state ──► topic
                            └──► topic, with the reason
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from pyromq.pipelines.cluster import cluster
from pyromq.pipelines.common.checkpoints import check_same_stream, last_offsets
from pyromq.pipelines.common.shared_files import check_shared
from pyromq.pipelines.common.source_options import are_times, at_least, look_at_source
from pyromq.pipelines.common.spark_place import SparkPlace
from pyromq.pipelines.common.streams import LATE, REPEATED, Start, run_all, state_in, writer
from pyromq.pipelines.outcome import Outcome, Progress
from pyromq.protocol.names import check_topic
from pyromq.spark.launch.ship import function_with_package

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

STATES = ("created", "paid", "shipped", "finished", "cancelled")
REASONS = ("not an order in JSON", "no order_id", "unknown state", "cents missing or negative")
_SCHEMA = "order_id long, state string, cents long, _corrupt_record string"
_COLUMNS = "topic,queue_id,queue_offset,keys,tags,body,store_timestamp"


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Which topic to read, and where the results go."""

    namesrv: str = ""
    """Name servers, host:port;host:port."""
    topic: str = "orders"
    """Orders as JSON: order_id, state, cents."""
    rejects: str = "orders-rejected"
    """The topic for messages that are not orders; their property `reason` says why."""
    totals: str = "order-totals"
    """The topic for sums; the last message of each key counts."""
    out: str = "pyromq-orders"
    """Directory for the orders as Parquet, and for the checkpoints."""
    window: str = "10 seconds"
    """The length of a window, by the time when the broker stored an order."""
    lateness: str = "1 minute"
    """How late an order, or its second copy, may arrive."""
    parts: int = 4
    """Number of state partitions; fixed by the first run."""
    follow: bool = False
    """Keep running instead of ending when everything there is has been read."""
    fail_on_data_loss: bool = True
    """Stop if retention has deleted messages before they were read, or log a warning and continue."""


class Orders(NamedTuple):
    """The three streams of the pipeline."""

    orders: DataFrame
    """Each state of each order, once."""
    rejects: DataFrame
    """Messages that are not orders."""
    totals: DataFrame
    """Messages and cents by window and state, as messages."""


def check(options: Options) -> None:
    """Raise ConfigError for invalid options; the command calls this before it starts Spark."""
    at_least(1, parts=options.parts)
    are_times(window=options.window, lateness=options.lateness)
    for name in (options.topic, options.rejects, options.totals):
        check_topic(name)


def look(options: Options, place: SparkPlace) -> None:
    """Raise PyroMQError, before Spark starts, if the topic is missing."""
    look_at_source(place, options.namesrv, options.topic)


def build(spark: SparkSession, options: Options) -> Orders:
    """Return the three streams, ready to write."""
    from pyspark.sql import functions as f

    source = (
        spark.readStream.format("pyromq")
        .options(**cluster(options.namesrv))
        .option("subscribe", options.topic)
        .option("startingOffsets", "earliest")
        .option("columns", _COLUMNS)
        .option("failOnDataLoss", str(options.fail_on_data_loss).lower())
        .load()
    )
    order = f.from_json(f.col("body").cast("string"), _SCHEMA)
    checked = source.withColumn("order", order).withColumn("reason", reason_to_reject())
    rejected = [f.count_if(f.col("reason") == text).alias(text) for text in REASONS]
    checked = checked.observe("checked", f.count("*").alias("read"), *rejected)
    orders = (
        checked.where("reason is null")
        .select("order.order_id", "order.state", "order.cents", f.col("store_timestamp").alias("at"))
        .withWatermark("at", options.lateness)
        .dropDuplicatesWithinWatermark(["order_id", "state"])
    )
    sums = orders.groupBy(f.window("at", options.window), "state").agg(
        f.count("*").alias("messages"), f.sum("cents").alias("cents")
    )
    return Orders(orders, as_rejects(checked), as_totals(sums))


def reason_to_reject() -> Column:
    """Return why a decoded message is not an order, null if it is one."""
    from pyspark.sql import functions as f

    order = f.col("order")
    checks = (
        order.isNull() | order._corrupt_record.isNotNull(),
        order.order_id.isNull(),
        order.state.isNull() | ~order.state.isin(*STATES),
        order.cents.isNull() | (order.cents < 0),
    )
    reason = f.lit(None).cast("string")
    for check, text in reversed(list(zip(checks, REASONS, strict=True))):
        reason = f.when(check, text).otherwise(reason)
    return reason


def as_rejects(checked: DataFrame) -> DataFrame:
    """Return rejected messages unchanged, with the reason and their origin as properties."""
    from pyspark.sql import functions as f

    place = f.concat_ws("/", "topic", "queue_id", "queue_offset")
    properties = f.create_map(f.lit("reason"), f.col("reason"), f.lit("origin"), place)
    return checked.where("reason is not null").select("body", "keys", "tags", properties.alias("properties"))


def as_totals(sums: DataFrame) -> DataFrame:
    """Return sums as messages: one key and queue per window and state, so that the last message is the final sum."""
    from pyspark.sql import functions as f

    key = f.concat_ws("/", f.unix_millis("window.start"), "state")
    figures = f.struct("window.start", "window.end", "state", "messages", "cents")
    body = f.to_json(figures, {"timeZone": "UTC"})
    return sums.select(
        body.alias("body"), f.array(key).alias("keys"), f.col("state").alias("tags"), key.alias("order_key")
    )


def run(spark: SparkSession, options: Options, progress: Progress) -> Outcome:
    """Write the three streams and return what became of the messages."""
    out = options.out.rstrip("/")
    first = f"{out}/checkpoints/{Orders._fields[0]}"
    check_same_stream(last_offsets(spark, first), first, options.topic, "", None, "--out")
    check_shared(spark, out)
    target = {**cluster(options.namesrv), "topic": options.totals, "idColumn": "body"}
    send_totals = function_with_package(spark, lambda sums, _: send(sums, target))
    with state_in(spark, options.parts):
        orders, rejects, totals = (
            writer(frame, f"{out}/checkpoints/{name}", follow=options.follow)
            for name, frame in build(spark, options)._asdict().items()
        )
        starts: dict[str, Start] = {
            "orders": lambda: orders.format("parquet").start(f"{out}/orders"),
            "rejects": rejects.format("pyromq").options(**cluster(options.namesrv), topic=options.rejects).start,
            "totals": totals.outputMode("update").foreachBatch(send_totals).start,
        }
        counts, stopped = run_all(starts, progress, at_once=options.follow)
    dropped = {reason: counts.rows[reason] for reason in (*REASONS, REPEATED, LATE) if counts.rows[reason]}
    read = counts.rows["read"]
    remarks = [f"Orders are in {out}/orders, sums in the topic {options.totals}, the rest in {options.rejects}."]
    return Outcome(
        read=read,
        written=read - sum(dropped.values()),
        dropped=dropped,
        remarks=["Stopped; the next run continues from here.", *remarks] if stopped else remarks,
    )


def send(sums: DataFrame, target: Mapping[str, str]) -> None:
    """Send the sums that changed in a batch."""
    sums.write.format("pyromq").options(**target).mode("append").save()  # repeated: same bodies, same ids
