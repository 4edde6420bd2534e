"""Selects messages of an archive or of a group's dead letters to send again, with a reason for each dropped one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from pyromq.errors import ConfigError
from pyromq.pipelines.cluster import brokers_of, cluster
from pyromq.pipelines.common.source_options import ARCHIVE_SCHEMA, KEPT_COLUMNS, time_option
from pyromq.pipelines.common.spark_place import SparkPlace
from pyromq.protocol.messages import properties as names
from pyromq.protocol.names import DLQ_PREFIX
from pyromq.spark.error_text import one_line

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_SAMPLE = 10_000
"""The number of messages whose bodies are inspected for fields."""
_OF_BODY = re.compile(r"\bbody\s*\.", re.IGNORECASE)
_VERDICT = "verdict"
_OF_ARCHIVES = ("topic=", "_spark_metadata", "_checkpoint")


class ConditionOptions(Struct, frozen=True, kw_only=True):
    """The options that say which messages match."""

    where: str = ""
    """Spark SQL over columns and fields of JSON bodies (body.name): "body.cents > 100 and tags = 'paid'"."""
    body_schema: str = ""
    """Fields of the bodies, "cents long, state string"; by default inferred from the first messages."""
    since: str = ""
    """Only messages stored at or after this time, 2026-01-31 or 2026-01-31T08:00:00Z (UTC unless it has a zone)."""
    until: str = ""
    """Only messages stored before this time."""
    namesrv: str = ""
    """Name servers, host:port;host:port."""


class SelectionOptions(ConditionOptions, frozen=True, kw_only=True):
    """The options that select messages, and where they go."""

    archive: str = ""
    """Directory (or URI) written by the pipeline archive."""
    dead_letters: str = ""
    """Instead of an archive: the group whose dead letters to send again."""
    topics: str = ""
    """Topics of the archive, separated by commas; all of them by default."""
    to: str = ""
    """The target topic; by default the topic that each message was first sent to."""


class SelectionCounts(NamedTuple):
    """How many messages were read, kept and dropped."""

    read: int
    kept: int
    dropped: dict[str, int]
    topics: list[str]
    """The topics that the kept messages go to."""


class SelectedMessages(Struct, frozen=True):
    """Messages, each with the reason why it is dropped; null if it is kept."""

    judged: DataFrame
    to: str

    @property
    def kept(self) -> DataFrame:
        """The messages to send."""
        return self.judged.where(f"{_VERDICT} is null").drop(_VERDICT)

    def counts(self) -> SelectionCounts:
        """Count the messages by reason and by target topic."""
        from pyspark.sql.functions import lit

        to = lit(self.to) if self.to else first_topic()
        rows = self.judged.groupBy(_VERDICT, to.alias("goes_to")).count().collect()
        dropped: dict[str, int] = {}
        for row in rows:
            if row[_VERDICT] is not None:
                dropped[row[_VERDICT]] = dropped.get(row[_VERDICT], 0) + row["count"]
        read = sum(row["count"] for row in rows)
        topics = sorted({row["goes_to"] for row in rows if row[_VERDICT] is None})
        return SelectionCounts(read, read - sum(dropped.values()), dropped, topics)


def check_selection(wish: SelectionOptions) -> None:
    """Raise ConfigError for invalid options."""
    if bool(wish.archive) == bool(wish.dead_letters):
        raise ConfigError("set --archive DIR or --dead-letters GROUP")
    if wish.dead_letters and wish.topics:
        raise ConfigError("--topics selects topics of an archive: leave it out with --dead-letters")
    time_option("--since", wish.since)
    time_option("--until", wish.until)


def look_at_selection(wish: SelectionOptions, place: SparkPlace) -> None:
    """Raise PyroMQError if the archive or the dead letters do not exist, as far as this machine can see that."""
    if wish.dead_letters:
        brokers_of(cluster(wish.namesrv)).queues([f"{DLQ_PREFIX}{wish.dead_letters}"])
    elif (path := place.local_path(wish.archive)) and not _is_archive(Path(path)):
        raise ConfigError(f"there is no archive in {path}: pyromq pipeline run archive --to {path} creates one")


def _is_archive(directory: Path) -> bool:
    if not directory.is_dir():
        return False
    return any(path.name.startswith(_OF_ARCHIVES) for path in directory.iterdir())


def choose(spark: SparkSession, wish: SelectionOptions) -> SelectedMessages:
    """Read the candidates and decide for each message whether to keep it."""
    from pyspark.sql.functions import expr, when

    check_selection(wish)
    messages = in_time(_candidates(spark, wish), wish)
    is_empty = expr("body is null or length(body) = 0")
    reason = when(is_empty, "the body is empty, and brokers reject such messages")
    if not wish.to:
        reason = reason.when(first_topic().isNull(), "its first topic is unknown: set --to")
    return SelectedMessages(judge(spark, messages.withColumn(_VERDICT, reason), wish), wish.to)


def matching(spark: SparkSession, messages: DataFrame, wish: ConditionOptions) -> DataFrame:
    """Return the messages that match; those whose body a condition cannot read do not."""
    from pyspark.sql.functions import lit

    judged = in_time(messages, wish).withColumn(_VERDICT, lit(None).cast("string"))
    return judge(spark, judged, wish).where(f"{_VERDICT} is null").drop(_VERDICT)


def judge(spark: SparkSession, judged: DataFrame, wish: ConditionOptions) -> DataFrame:
    """Give a reason to each message that does not match the condition and has none yet."""
    from pyspark.sql.functions import col, expr, lit, when

    if not wish.where:
        return judged
    fits = expr(f"coalesce(({wish.where}), false)")
    if _OF_BODY.search(wish.where):
        return _judge_by_fields(spark, judged, wish, fits)
    _check_condition(judged, wish.where)
    return judged.withColumn(_VERDICT, when(~fits, lit("does not match --where")).otherwise(col(_VERDICT)))


def first_topic() -> Column:
    """Return the topic that a message was first sent to; a dead letter has it in its properties."""
    from pyspark.sql.functions import coalesce, col, when

    sent_to = coalesce(col("properties")[names.RETRY_TOPIC], col("properties")[names.ORIGIN_TOPIC])
    return when(col("topic").startswith(DLQ_PREFIX), sent_to).otherwise(col("topic"))


def _candidates(spark: SparkSession, wish: SelectionOptions) -> DataFrame:
    if wish.dead_letters:
        return (
            spark.read.format("pyromq")
            .options(**cluster(wish.namesrv))
            .option("subscribe", f"{DLQ_PREFIX}{wish.dead_letters}")
            .option("columns", ",".join(KEPT_COLUMNS))
            .load()
        )
    messages = spark.read.schema(ARCHIVE_SCHEMA).parquet(wish.archive)
    topics = [name for part in wish.topics.split(",") if (name := part.strip())]
    return messages.where(messages.topic.isin(topics)) if topics else messages


def in_time(messages: DataFrame, wish: ConditionOptions) -> DataFrame:
    """Return the messages of the time that the options name."""
    from pyspark.sql.functions import col, lit

    since, until = time_option("--since", wish.since), time_option("--until", wish.until)
    has_days = "day" in messages.columns  # then Spark opens only the directories of those days
    if since:
        messages = messages.where(col("store_timestamp") >= lit(since))
        messages = messages.where(col("day") >= lit(since.date())) if has_days else messages
    if until:
        messages = messages.where(col("store_timestamp") < lit(until))
        messages = messages.where(col("day") <= lit(until.date())) if has_days else messages
    return messages.drop("day")


def _judge_by_fields(spark: SparkSession, judged: DataFrame, wish: ConditionOptions, fits: Column) -> DataFrame:
    """Apply a condition in which `body` means the fields of a JSON body."""
    from pyspark.sql.functions import col, from_json, try_parse_json, when

    text = col("body").cast("string")
    schema = wish.body_schema or spark.read.json(judged.select(text.alias("value")).limit(_SAMPLE)).schema
    whole = judged.withColumn("is_json", try_parse_json(text).isNotNull()).withColumn("bytes", col("body"))
    with _blamed("--body-schema", wish.body_schema):
        decoded = whole.withColumn("body", from_json(text, schema))
    _check_condition(decoded, wish.where)
    verdict = (
        when(col(_VERDICT).isNotNull(), col(_VERDICT))
        .when(~col("is_json"), "the body is not JSON")
        .when(~fits, "does not match --where")
    )
    return decoded.withColumn(_VERDICT, verdict).drop("body", "is_json").withColumnRenamed("bytes", "body")


def _check_condition(messages: DataFrame, where: str) -> None:
    with _blamed("--where", where):
        _ = messages.where(where).schema  # needed: a Connect session analyzes only on demand


@contextmanager
def _blamed(option: str, text: str) -> Iterator[None]:
    """Turn Spark's error about an option's text into a ConfigError that names the option."""
    from pyspark.errors import AnalysisException

    try:
        yield
    except AnalysisException as error:
        raise ConfigError(f"{option} {text!r}: {one_line(error)}") from error
