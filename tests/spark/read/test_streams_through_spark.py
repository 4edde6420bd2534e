"""Streams through Spark from a real broker into Parquet, with the driver killed in between."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pyromq import Message, blocking
from pyromq.protocol.messages.message import MessageQueue
from pyromq.spark.progress import lag
from pyromq.spark.read.brokers.broker_queues import connect
from pyromq.testing import LocalCluster, wait_until
from tests.spark.conftest import send

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]

SCRIPT = Path(__file__).with_name("stream_to_parquet.py")
PATIENCE = 120.0


def _numbered(topic: str, numbers: range) -> list[Message]:
    return [Message(topic=topic, body=b"%d" % number, keys=[str(number)]) for number in numbers]


def _run_to_the_end(spark: SparkSession, cluster: LocalCluster, topic: str, directory: Path, **options: str) -> Any:
    """Stream what there is into Parquet and return the query's progress reports."""
    messages = spark.readStream.format("pyromq").options(namesrv=cluster.namesrv, subscribe=topic, **options).load()
    query = (
        messages.writeStream.format("parquet")
        .options(path=str(directory / "rows"), checkpointLocation=str(directory / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(int(PATIENCE)), "the stream did not end"
    return query.recentProgress


def _bodies(spark: SparkSession, directory: Path) -> list[int]:
    rows = spark.read.parquet(str(directory / "rows")).select("body").collect()
    return sorted(int(bytes(row.body)) for row in rows)


def test_a_stream_ends_up_in_parquet_and_goes_on_where_it_stopped(
    spark: SparkSession, cluster: LocalCluster, producer: blocking.Producer, tmp_path: Path
) -> None:
    sent = send(producer, _numbered("stream", range(100)))
    options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "40", "group": "mirror"}
    progress = _run_to_the_end(spark, cluster, "stream", tmp_path, **options)
    assert _bodies(spark, tmp_path) == list(range(100))
    assert [report.numInputRows for report in progress if report.numInputRows] == [40, 40, 20]
    assert [sum(queue.messages for queue in lag(report)) for report in progress if report.numInputRows] == [60, 20, 0]
    (source,) = progress[-1].sources
    ends: dict[str, dict[str, int]] = json.loads(source.endOffset)["stream"]
    assert json.loads(source.latestOffset)["stream"] == ends
    assert sum(offset for queues in ends.values() for offset in queues.values()) == len(sent)
    queues = [MessageQueue("stream", broker, int(queue)) for broker, offsets in ends.items() for queue in offsets]
    committed = connect(cluster.namesrv).committed_offsets(queues, "mirror")
    assert {queue: ends[queue.broker_name][str(queue.queue_id)] for queue in queues} == committed, "no lag is shown"

    send(producer, _numbered("stream", range(100, 130)))
    _run_to_the_end(spark, cluster, "stream", tmp_path, **options)
    assert _bodies(spark, tmp_path) == list(range(130))
    written = max((tmp_path / "checkpoint" / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    offsets = json.loads(written.read_text().splitlines()[-1])
    assert json.dumps(offsets) == json.dumps(offsets, sort_keys=True)
    assert sum(offset for queues in offsets["stream"].values() for offset in queues.values()) == 130


def test_an_idle_stream_sees_a_message_at_once_and_runs_no_empty_batches(
    spark: SparkSession, cluster: LocalCluster, producer: blocking.Producer, tmp_path: Path
) -> None:
    send(producer, _numbered("idle", range(8)))
    messages = spark.readStream.format("pyromq").options(namesrv=cluster.namesrv, subscribe="idle").load()
    query = (
        messages.writeStream.format("memory")
        .queryName("idle")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    try:
        wait_until(
            lambda: (tmp_path / "checkpoint" / "commits" / "0").exists(),
            "batch 0 has pinned the start",
            seconds=PATIENCE,
        )
        time.sleep(1.5)  # three polls that find nothing
        send(producer, _numbered("idle", range(8, 10)))
        wait_until(lambda: spark.table("idle").count() == 2, "the messages arrived", seconds=PATIENCE)
        assert sorted(int(bytes(row.body)) for row in spark.table("idle").collect()) == [8, 9], (
            "only those since latest"
        )
        assert len(list((tmp_path / "checkpoint" / "offsets").glob("[0-9]*"))) <= 3, "idle polls are no batches"
    finally:
        query.stop()


@contextmanager
def _driver(cluster: LocalCluster, topic: str, directory: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start a driver with its JVM, and kill -9 both at the end."""
    log = (directory / "driver.log").open("ab")
    arguments = [sys.executable, str(SCRIPT), cluster.namesrv, topic, str(directory), "latest", "25"]
    driver = subprocess.Popen(arguments, stdout=log, stderr=log, start_new_session=True)
    try:
        yield driver
        assert driver.poll() is None, (directory / "driver.log").read_text()
    finally:
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
        log.close()


def _begun(directory: Path) -> set[int]:
    return {int(path.name) for path in (directory / "checkpoint" / "offsets").glob("[0-9]*")}


def _done(directory: Path) -> set[int]:
    return {int(path.name) for path in (directory / "checkpoint" / "commits").glob("[0-9]*")}


def test_a_stream_killed_in_batch_0_and_inside_a_batch_delivers_everything_once(
    spark: SparkSession, cluster: LocalCluster, producer: blocking.Producer, tmp_path: Path
) -> None:
    chooser = random.Random()
    send(producer, _numbered("killed", range(8)))  # before `latest`: never to be seen

    with _driver(cluster, "killed", tmp_path):
        wait_until(lambda: 0 in _begun(tmp_path), "batch 0 began", seconds=PATIENCE)
    for trace in (tmp_path / "checkpoint" / "commits").glob("*0*"):
        trace.unlink()  # in case the kill came too late: this is all that the end of batch 0 leaves
    assert (_begun(tmp_path), _done(tmp_path)) == ({0}, set())
    send(producer, _numbered("killed", range(100, 200)))

    with _driver(cluster, "killed", tmp_path):
        wait_until(lambda: max(_begun(tmp_path)) >= 2, "batch 2 began", seconds=PATIENCE)
        send(producer, _numbered("killed", range(200, 210)))
        time.sleep(chooser.uniform(0, 0.3))  # anywhere inside a batch

    for new in (range(210, 220), range(220, 230)):  # the second time all batches are done, as after a kill between two
        send(producer, _numbered("killed", new))
        _run_to_the_end(spark, cluster, "killed", tmp_path, startingOffsets="latest")
        assert _done(tmp_path) == _begun(tmp_path)
    assert _bodies(spark, tmp_path) == list(range(100, 230)), "each message exactly once"
