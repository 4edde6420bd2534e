"""`orders`: decode, validate, deduplicate and sum up by window; the demo's pipeline, and a pattern for others.

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
from pyromq.pipelines.common.source_options import are_times, at_least
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
    """What to read, and where the results go."""

    namesrv: str = ""
    """Name servers, host:port;host:port."""
    topic: str = "orders"
    """Orders as JSON: order_id, state, cents."""
    rejects: str = "orders-rejected"
    """The topic for what is no order; the property `reason` says why."""
    totals: str = "order-totals"
    """The topic for sums; of the messages with one key, the last one counts."""
    out: str = "pyromq-orders"
    """Directory for the orders as Parquet, and for the checkpoints."""
    window: str = "10 seconds"
    """How long a window is, by the time at which the broker stored an order."""
    lateness: str = "1 minute"
    """How much later than others an order, or its second copy, may come."""
    parts: int = 4
    """Parts that the state is kept in; fixed by the first run."""
    follow: bool = False
    """Go on with what arrives, instead of ending with what is there."""
    fail_on_data_loss: bool = True
    """Stop where retention took messages before they were read, or say so in the log and go on."""


class Orders(NamedTuple):
    """Three streams out of one."""

    orders: DataFrame
    """Each state of each order, once."""
    rejects: DataFrame
    """What is no order, as messages."""
    totals: DataFrame
    """Messages and cents by window and state, as messages."""


def check(options: Options) -> None:
    """Raise ConfigError for options that cannot be meant; the command asks before it starts Spark."""
    at_least(1, parts=options.parts)
    are_times(window=options.window, lateness=options.lateness)
    for name in (options.topic, options.rejects, options.totals):
        check_topic(name)


def build(spark: SparkSession, options: Options) -> Orders:
    """Return the three streams, ready to be written."""
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
    """Return why a decoded message is no order, null if it is one."""
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
    """Return what is no order as it came, with the reason and the place it came from."""
    from pyspark.sql import functions as f

    place = f.concat_ws("/", "topic", "queue_id", "queue_offset")
    properties = f.create_map(f.lit("reason"), f.col("reason"), f.lit("origin"), place)
    return checked.where("reason is not null").select("body", "keys", "tags", properties.alias("properties"))


def as_totals(sums: DataFrame) -> DataFrame:
    """Return sums as messages: one key and one queue for each window and state, so that the last one is the sum."""
    from pyspark.sql import functions as f

    key = f.concat_ws("/", f.unix_millis("window.start"), "state")
    figures = f.struct("window.start", "window.end", "state", "messages", "cents")
    body = f.to_json(figures, {"timeZone": "UTC"})
    return sums.select(
        body.alias("body"), f.array(key).alias("keys"), f.col("state").alias("tags"), key.alias("order_key")
    )


def run(spark: SparkSession, options: Options, progress: Progress) -> Outcome:
    """Write the three streams, and say what became of the messages."""
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
        tally, stopped = run_all(starts, progress, at_once=options.follow)
    dropped = {reason: tally.rows[reason] for reason in (*REASONS, REPEATED, LATE) if tally.rows[reason]}
    read = tally.rows["read"]
    remarks = [f"Orders are in {out}/orders, sums in the topic {options.totals}, the rest in {options.rejects}."]
    return Outcome(
        read=read,
        written=read - sum(dropped.values()),
        dropped=dropped,
        remarks=["Stopped; the next run goes on from here.", *remarks] if stopped else remarks,
    )


def send(sums: DataFrame, target: Mapping[str, str]) -> None:
    """Send the sums that a batch has changed."""
    sums.write.format("pyromq").options(**target).mode("append").save()  # a batch again: the same bodies, the same ids
