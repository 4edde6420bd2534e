"""Measures how fast Spark reads a topic: from store files, through the broker, and from memory as the upper limit.

    python bench/spark_reads.py --directory DIR --messages 1000000

The store is created in the directory unless it exists, and kept; without a directory it is temporary. All jobs read the
same rows into the noop sink, one after another in each round, so that other load on the machine affects all of them.
The figures are rows per second (median and best) and their ratios. The upper limit is one Arrow batch of these rows,
yielded repeatedly: what Spark accepts from a Python source that does nothing. CPU seconds per million rows are those of
the JVM, its Python workers and the broker; they stay meaningful when other load distorts the rates.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from pyromq.protocol.bodies import TopicConfig, TopicConfigSerializeWrapper
from pyromq.protocol.bodies.fastjson import dumps_pretty
from pyromq.protocol.messages.properties import encode_properties
from pyromq.protocol.messages.record import Record, encode_host
from pyromq.protocol.tag_filter import tag_code
from pyromq.spark.options.read_options import read_options
from pyromq.spark.read.store_readers import StoreBatchReader
from pyromq.spark.schema import DEFAULT_COLUMNS, ddl
from pyromq.spark.session import local_session
from pyromq.store.config import StoreConfig
from pyromq.store.message_store import MessageStore

TOPIC = "orders"
QUEUES = 8
LIKE_KAFKA = "topic,queue_id,queue_offset,keys,body,store_timestamp"
"""The columns that correspond to those of Spark's Kafka source."""

_HOST = encode_host("127.0.0.1", 10911)
_BODY = bytes(range(256)) * 4
_GROUP = 1000


# --- the store


def _record(number: int) -> Record:
    properties = {"TAGS": "paid", "KEYS": f"k{number}", "UNIQ_KEY": f"7F0000010001{number:020X}", "CLUSTER": "c"}
    return Record(
        topic=TOPIC, body=_BODY, queue_id=number % QUEUES, properties=encode_properties(properties).encode(),
        tags_code=tag_code("paid"), born_timestamp_ms=1_700_000_000_000 + number, born_host=_HOST, store_host=_HOST,
    )  # fmt: skip


def fill(root: Path, messages: int) -> None:
    """Make sure that a directory has a store with the messages, of 1 KiB each, and that a broker knows their topic."""
    with MessageStore(StoreConfig(root=root), lambda: time.time_ns() // 1_000_000) as store:
        stored = sum(store.max_offset(TOPIC, queue_id) for queue_id in range(QUEUES))
        for start in range(stored, messages, _GROUP):
            for number in range(start, min(start + _GROUP, messages)):
                store.put(_record(number))
            store.commit()
    topic = TopicConfig(topic_name=TOPIC, read_queue_nums=QUEUES, write_queue_nums=QUEUES)
    table = root / "config" / "topics.json"
    if not table.exists():
        table.parent.mkdir(parents=True, exist_ok=True)
        table.write_bytes(dumps_pretty(TopicConfigSerializeWrapper(topic_config_table={TOPIC: topic})))


@contextmanager
def broker(data: Path) -> Iterator[tuple[str, int]]:
    """Run a broker on the store; yield the address of its name server and its process id."""
    command = [sys.executable, "-m", "pyromq.cli.main", "up", "--data", str(data), "--namesrv-port", "0", "--port", "0"]
    with subprocess.Popen([*command, "--console-port", "0"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        found = re.search(r"namesrv (\S+)", process.stdout.readline())
        try:
            if found is None:
                raise SystemExit("the broker did not start")
            yield found[1], process.pid
        finally:
            process.terminate()


# --- the ceiling


class Ceiling(DataSource):
    """Rows from memory, of the same number and kind as those of the store."""

    @classmethod
    def name(cls) -> str:
        return "ceiling"

    def schema(self) -> str:
        return ddl(self.options["columns"].split(","))

    def reader(self, schema: StructType) -> DataSourceReader:
        return CeilingReader(dict(self.options))


class CeilingReader(DataSourceReader):
    """Yields the first batch of a store repeatedly."""

    def __init__(self, options: dict[str, str]) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(number) for number in range(int(self._options["tasks"]))]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        rows = int(self._options["rows"]) // int(self._options["tasks"])
        given = {name: self._options[name] for name in ("store", "columns")}
        reader = StoreBatchReader(read_options(given | {"subscribe": TOPIC}, streaming=False))
        batch = next(reader.read(reader.partitions()[0]))
        while rows > 0:
            yield batch.slice(0, rows)
            rows -= batch.num_rows


# --- the jobs


def jobs(spark: SparkSession, store: Path, namesrv: str, columns: str, messages: int) -> dict[str, DataFrame]:
    """Return the jobs by name."""
    spark.dataSource.register(Ceiling)
    files = spark.read.format("pyromq").option("store", str(store)).option("subscribe", TOPIC)
    brokers = spark.read.format("pyromq").option("namesrv", namesrv).option("subscribe", TOPIC)
    memory = spark.read.format("ceiling").options(store=str(store), columns=columns, rows=str(messages))
    whole = {"minPartitions": "1", "maxRecordsPerPartition": str(2 * messages)}
    return {
        "ceiling, 2 tasks": memory.option("tasks", "2").load(),
        "store, 2 tasks": files.option("columns", columns).option("minPartitions", "2").load(),
        "store, 1 task": files.option("columns", columns).options(**whole).load(),
        "broker, by queues": brokers.option("columns", columns).load(),
    }


# --- measuring


class Cost(NamedTuple):
    """The cost of a job: seconds, and CPU seconds of all processes involved."""

    seconds: float
    jvm: float
    workers: float
    broker: float


class Meter:
    """Measures jobs that use one JVM and one broker."""

    def __init__(self, jvm: int, broker: int) -> None:
        self._jvm = jvm
        self._broker = broker

    def measure(self, job: Callable[[], None]) -> Cost:
        """Run a job and return its cost."""
        before = self._now()
        job()
        return Cost(*(after - start for start, after in zip(before, self._now(), strict=True)))

    def _now(self) -> tuple[float, ...]:
        workers = sum(_cpu(process, ended_children=True) for process in _descendants(self._jvm))
        return time.perf_counter(), _cpu(self._jvm), workers, _cpu(self._broker)


def _cpu(process: int, *, ended_children: bool = False) -> float:
    """Return the CPU seconds of a process, optionally with those of its finished children."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11 : 15 if ended_children else 13])) / os.sysconf("SC_CLK_TCK")


def _descendants(process: int) -> list[int]:
    threads = Path(f"/proc/{process}/task").glob("*/children")
    children = [int(child) for file in threads for child in file.read_text().split()]
    return [found for child in children for found in (child, *_descendants(child))]


def compare(frames: dict[str, DataFrame], messages: int, rounds: int, meter: Meter) -> None:
    """Run all jobs in turn and print their rates."""
    costs: dict[str, list[Cost]] = {name: [] for name in frames}
    for number in range(rounds + 1):
        for name, frame in frames.items():
            cost = meter.measure(frame.write.format("noop").mode("overwrite").save)
            if number:  # the first round warms up
                costs[name].append(cost)
    times = {name: [cost.seconds for cost in taken] for name, taken in costs.items()}
    ceiling = next(iter(times.values()))
    for name, taken in costs.items():
        median, best = statistics.median(times[name]), min(times[name])
        of_ceiling = statistics.median(ceiling) / median, min(ceiling) / best
        jvm, workers, server = (statistics.median(used) * 1e6 / messages for used in list(zip(*taken, strict=True))[1:])
        print(
            f"{name:20} {messages / median:>10,.0f} rows/s (best {messages / best:,.0f}),"
            f" {of_ceiling[0]:.0%} of the ceiling (best {of_ceiling[1]:.0%});"
            f" CPU s a million: JVM {jvm:.2f}, workers {workers:.2f}, broker {server:.2f}",
            flush=True,
        )
    one, two = times["store, 1 task"], times["store, 2 tasks"]
    print(
        f"two tasks: {statistics.median(one) / statistics.median(two):.2f} times one (best {min(one) / min(two):.2f})"
    )


def main() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description="Rows a second of Spark reading a topic.")
    parser.add_argument("--directory", type=Path)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        data = arguments.directory or Path(temporary)
        fill(data / "store", arguments.messages)
        with broker(data) as (namesrv, process):
            spark = local_session("bench", "local[2]", fast_checkpoints=True, **{"spark.driver.memory": "2g"})
            meter = Meter(spark.sparkContext._gateway.proc.pid, process)  # type: ignore[union-attr]
            for columns in (",".join(DEFAULT_COLUMNS), LIKE_KAFKA):
                print(f"\n{arguments.messages:,} messages of 1 KiB, columns {columns}")
                compare(
                    jobs(spark, data / "store", namesrv, columns, arguments.messages),
                    arguments.messages,
                    arguments.rounds,
                    meter,
                )
            spark.stop()


if __name__ == "__main__":
    main()
