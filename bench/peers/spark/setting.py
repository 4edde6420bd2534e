"""The environment: Kafka's broker, ours, and a Spark session that reads both, with the same messages on both sides."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import NamedTuple

from interop.toolkit import cache_directory, find_java, resolve
from pyspark.sql import SparkSession

from pyromq.spark.schema import DEFAULT_COLUMNS
from pyromq.spark.session import local_session, register

from ..kafka import Kafka
from .jobs import Source
from .messages import QUEUES, Copies, PyroMQ, Topic, digest, fill

LIKE_KAFKA = "topic,queue_id,queue_offset,keys,body,store_timestamp"
"""The columns that correspond to those of Spark's Kafka source."""
_POMS = Path(__file__).parent.with_name("poms")
_MEMORY = "2g"
_MASTER = "local[2]"


class Toolkit(NamedTuple):
    """What Kafka's side needs."""

    java: Path
    broker: Path
    """Jars of Kafka's broker."""
    connector: Path
    """Jars of Spark's Kafka source."""


class Setting(NamedTuple):
    """A session, and the ways to read with it."""

    spark: SparkSession
    kafka: Source
    files: Source
    broker: Source
    all_files: Source
    """Store files with our default columns; the other ways read the columns of Kafka's source."""
    all_broker: Source


def prepare() -> Toolkit:
    """Fetch what is needed unless it exists, and return it; raise Missing."""
    cache = cache_directory()
    return Toolkit(find_java(), resolve(cache, _POMS / "kafka.xml"), resolve(cache, _POMS / "spark-kafka.xml"))


def start(
    toolkit: Toolkit, directory: Path, topics: list[Topic], session: Callable[[Mapping[str, str]], SparkSession],
    stack: ExitStack,
) -> Setting:  # fmt: skip
    """Start everything and make sure that both sides have the topics; `session` makes a session with some settings."""
    store = directory / "pyromq" / "store"
    _say("messages into PyroMQ's store, as far as they are not there")
    fill(store, topics)
    copies = Copies(directory / "kafka")
    kafka = stack.enter_context(Kafka(toolkit.java, toolkit.broker, directory / "kafka", QUEUES))
    pyromq = stack.enter_context(PyroMQ(directory / "pyromq"))
    jars = ",".join(map(str, sorted(toolkit.connector.iterdir())))
    spark = session({"spark.driver.memory": _MEMORY, "spark.jars": jars})
    stack.callback(_stop, spark)
    setting = _setting(spark, kafka.address, store, pyromq.namesrv)
    for topic in copies.missing(topics):
        _say(f"{topic.rows:,} messages into Kafka")
        copies.copy(topic, setting.files.batch(spark, topic), kafka.address)
        check(setting, topic, setting.kafka, setting.files)
    return setting


def quick_session(settings: Mapping[str, str]) -> SparkSession:
    """Return the session that PyroMQ makes."""
    return local_session("bench-peers", _MASTER, fast_checkpoints=True, **settings)


def plain_session(settings: Mapping[str, str]) -> SparkSession:
    """Return a session as users make one, with the format registered; its ports are on loopback."""
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    spark = SparkSession.Builder().appName("bench-peers").master(_MASTER).config(map={**settings}).getOrCreate()
    register(spark)
    return spark


def _stop(spark: SparkSession) -> None:
    with suppress(Exception):  # an interrupted session is unusable; its JVM ends with us
        spark.stop()


def _setting(spark: SparkSession, kafka: str, store: Path, namesrv: str) -> Setting:
    everything = ",".join(DEFAULT_COLUMNS)
    sources = [
        Source(name, "pyromq", {**place, "columns": columns})
        for columns in (LIKE_KAFKA, everything)
        for name, place in (("store files", {"store": str(store)}), ("broker", {"namesrv": namesrv}))
    ]
    return Setting(spark, Source("Kafka", "kafka", {"kafka.bootstrap.servers": kafka}, "value"), *sources)


def check(setting: Setting, topic: Topic, *sources: Source) -> None:
    """Read a topic in several ways; raise unless they agree on rows, bytes and the sum of checksums."""
    found = {source.name: digest(source.batch(setting.spark, topic), source.body) for source in sources}
    if len(set(found.values())) > 1 or next(iter(found.values())).rows != topic.rows:
        raise RuntimeError(f"{topic.name}: the sides differ: {found}")
    _say(f"{topic.rows:,} rows, bytes and checksums are the same by {', '.join(found)}")


def _say(text: str) -> None:
    print(text, flush=True)
