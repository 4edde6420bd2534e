"""The pipeline `report`: profiles a topic, several topics or a whole store into one HTML page.

Spark does all the counting; only figures come back, never messages. Bodies are not read: their length follows from the
size of the stored record.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from pyromq.errors import ConfigError
from pyromq.pipelines.common.source_options import origin, time_option
from pyromq.pipelines.common.spark_place import SparkPlace
from pyromq.pipelines.outcome import Outcome, Progress
from pyromq.pipelines.topic_profile.collect import collect
from pyromq.pipelines.topic_profile.frames import (
    FAILURE_COLUMNS,
    MOST_TOPICS,
    Frames,
    body_size,
    failures_of,
    figures_of,
    is_compressed,
    names_of,
    order_key,
)
from pyromq.pipelines.topic_profile.profile import Profile
from pyromq.pipelines.topic_profile.report_page import check_page, render
from pyromq.pipelines.topic_profile.survey import Survey, survey_cluster, survey_store
from pyromq.pipelines.topic_profile.trace_frames import traces_of
from pyromq.protocol.names import TRACE_TOPIC

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PARTITIONS, _DEFAULT_PARTITIONS = "spark.sql.shuffle.partitions", "200"
_COLUMNS = "topic,broker_name,queue_id,keys,tags,properties,born_timestamp,store_timestamp,store_size,sys_flag"


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What to profile, and where to write the page."""

    namesrv: str = ""
    """Name servers of the cluster to profile, host:port;host:port."""
    store: str = ""
    """A store's directory, read instead of pulling from brokers."""
    topics: str = ""
    """Topics to profile, separated by commas; all topics by default."""
    since: str = ""
    """Only messages stored at or after this time, such as 2026-01-31T08:00:00Z."""
    until: str = ""
    """Only messages stored before this time."""
    sample: float = 1.0
    """Share of the messages to count; the page mentions it."""
    out: str = "pyromq-report.html"
    """Path of the page."""
    title: str = ""
    """Heading of the page."""


def check(options: Options) -> None:
    """Raise ConfigError for invalid options; the command calls this before it starts Spark."""
    if not options.store and not options.namesrv:
        raise ConfigError("set what to profile: a cluster by its name server (--namesrv), or a directory (--store)")
    origin(options.namesrv, options.store)
    if not 0 < options.sample <= 1:
        raise ConfigError(f"--sample must be above 0 and at most 1, not {options.sample:g}")
    since, until = time_option("--since", options.since), time_option("--until", options.until)
    if since and until and since >= until:
        raise ConfigError(f"--since {options.since} is not before --until {options.until}")
    check_page(Path(options.out))


def look(options: Options, place: SparkPlace) -> None:
    """Raise PyroMQError, before Spark starts, if there is nothing to report; the survey always runs here."""
    survey_of(options)


def build(spark: SparkSession, options: Options) -> Frames:
    """Return the frames of a profile; topics and queues are looked up now, messages are read later."""
    survey = survey_of(options)
    messages = messages_of(read(spark, options, survey.filled), options)
    return Frames(
        survey=survey,
        messages=messages,
        figures=figures_of(messages, survey.filled[:MOST_TOPICS]),
        names=names_of(messages),
        failures=failures_of(read(spark, options, failed, FAILURE_COLUMNS)) if (failed := survey.failures) else None,
        traces=traces_of(read(spark, options, [TRACE_TOPIC], "body")) if survey.has_traces else None,
    )


def run(spark: SparkSession, options: Options, progress: Progress) -> Outcome:
    """Take the profile and write the page."""
    check(options)
    profile = take_profile(spark, options, progress)
    page = Path(options.out)
    page.write_text(render(profile, options.title, datetime.now(UTC)), encoding="utf-8")
    return Outcome(read=profile.messages, written=1, remarks=[f"The report is in {page.resolve()}"])


def take_profile(spark: SparkSession, options: Options, progress: Progress) -> Profile:
    """Return the profile; raise ConfigError if there is nothing to count."""
    frames = build(spark, options)
    try:
        with few_shuffle_partitions(spark, sum(frames.survey.sizes.values())):
            profile = collect(frames, options.sample, progress)
    finally:
        frames.messages.unpersist()
    if not profile.messages:
        raise ConfigError("nothing to report: no message in this time range or sample")
    return profile


@contextmanager
def few_shuffle_partitions(spark: SparkSession, messages: int) -> Iterator[None]:
    """Use few shuffle partitions unless the user has set them: 200 small ones cost more than the counting."""
    chosen = str(spark.conf.get(_PARTITIONS))
    if chosen == _DEFAULT_PARTITIONS:
        spark.conf.set(_PARTITIONS, min(4 + messages // 250_000, int(chosen)))
    try:
        yield
    finally:
        spark.conf.set(_PARTITIONS, chosen)


# --- what is read -----------------------------------------------------------------------------------------------------


def survey_of(options: Options) -> Survey:
    """Look up what there is to profile; raise ConfigError if there is nothing."""
    wanted = [name for part in options.topics.split(",") if (name := part.strip())]
    survey = survey_store(options.store, wanted) if options.store else survey_cluster(options.namesrv, wanted)
    if not any(survey.sizes.values()):
        names = ", ".join(wanted) or "any topic"
        raise ConfigError(f"nothing to report: no message of {names} in {survey.origin}")
    return survey


def read(spark: SparkSession, options: Options, topics: list[str], columns: str = _COLUMNS) -> DataFrame:
    """Return the messages of topics, from brokers or from files."""
    where = origin(options.namesrv, options.store)
    reader = spark.read.format("pyromq").options(**where).option("subscribe", ",".join(topics))
    reader = reader.option("columns", columns).option("propertiesAs", "string").option("failOnDataLoss", "false")
    for name, time in (("startingTimestamp", options.since), ("endingTimestamp", options.until)):
        reader = reader.option(name, time) if time else reader
    return reader.load()


def messages_of(source: DataFrame, options: Options) -> DataFrame:
    """Return the columns needed of each message, persisted because every figure is computed from them."""
    from pyspark.sql import functions as f

    source = source if options.sample == 1 else source.sample(fraction=options.sample, seed=1)
    return source.select(
        "topic",
        f.coalesce("broker_name", f.lit("store")).alias("broker_name"),
        "queue_id",
        order_key().alias("key"),
        f.col("tags").alias("tag"),
        f.col("store_size").alias("stored"),
        body_size().alias("size"),
        is_compressed().alias("is_compressed"),
        f.unix_millis("store_timestamp").alias("at_ms"),
        (f.unix_millis("store_timestamp") - f.unix_millis("born_timestamp")).alias("latency_ms"),
    ).persist()
