"""The sink: a task alone on a real broker, and batch and stream through Spark."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from pyromq import Message, blocking
from pyromq.blocking import Portal
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.client.net.publish_info import queue_for_key
from pyromq.errors import InvalidMessage, NoRoute, PyroMQError, TaskRepeated
from pyromq.protocol.codes import PERM_READ
from pyromq.protocol.messages.message import MessageQueue
from pyromq.spark import dedupe
from pyromq.spark.options.read_options import read_options
from pyromq.spark.options.write_options import write_options
from pyromq.spark.read.batch_reader import BatchReader
from pyromq.spark.read.brokers.queues_reader import QueuesReader
from pyromq.spark.write.sink_task import SinkTask
from pyromq.spark.write.writer import TaskCommit, write_rows
from pyromq.testing import LocalCluster
from tests.pipelines.conftest import make_topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KEYS = 7


def _rows(start: int, count: int) -> pa.RecordBatch:
    """Return rows whose bodies are numbers and whose keys take turns."""
    numbers = range(start, start + count)
    return pa.record_batch(
        {"body": [b"%d" % number for number in numbers], "order_key": [f"key-{number % KEYS}" for number in numbers]}
    )


def _write(
    batches: Iterator[pa.RecordBatch] | list[pa.RecordBatch], namesrv: str, topic: str, attempt: int = 0, **more: str
) -> TaskCommit:
    schema = from_arrow_schema(_rows(0, 1).schema)
    options = write_options({"namesrv": namesrv, "topic": topic, **more}, schema)
    return write_rows(iter(batches), options, SinkTask(f"{topic}-0-0", 0, attempt))


def _read(namesrv: str, topic: str) -> list[dict[str, Any]]:
    given = {"namesrv": namesrv, "subscribe": topic}
    reader = BatchReader(read_options(given, streaming=False))
    return [row for partition in reader.partitions() for batch in reader.read(partition) for row in batch.to_pylist()]


def test_a_task_that_runs_again_sends_again_or_fails_as_it_was_told(cluster: LocalCluster) -> None:
    assert _write([_rows(0, 5)], cluster.namesrv, "once", sendAgain="false").rows == 5
    with pytest.raises(TaskRepeated, match="partition 0 was started before"):
        _write([_rows(0, 5)], cluster.namesrv, "once", attempt=1, sendAgain="false")
    assert len(_read(cluster.namesrv, "once")) == 5
    _write([_rows(0, 5)], cluster.namesrv, "once", attempt=1)
    assert len(_read(cluster.namesrv, "once")) == 10


def test_a_task_ends_when_every_row_is_stored_and_its_ids_are_found(cluster: LocalCluster) -> None:
    assert _write([_rows(0, 400), _rows(400, 300)], cluster.namesrv, "written").rows == 700
    rows = _read(cluster.namesrv, "written")
    assert sorted(int(row["body"]) for row in rows) == list(range(700))
    assert len({row["message_id"] for row in rows}) == 700
    assert {dict(row["properties"])["PYROMQ_BATCH"] for row in rows} == {"written-0-0"}


def test_a_task_that_gets_its_rows_in_another_order_again_loses_none(
    cluster: LocalCluster, producer: blocking.Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker in trouble is read queue by queue, otherwise in the order of its log: see QueuesReader."""
    make_topic(cluster, "ordered", 2)
    for number in range(200):
        producer.send(
            Message(topic="ordered", body=b"%d" % number), queue=MessageQueue("ordered", "broker-a", number % 2)
        )
    first = [row["body"] for row in _read(cluster.namesrv, "ordered")]
    monkeypatch.setattr(QueuesReader, "records", lambda self: iter(()))
    second = [row["body"] for row in _read(cluster.namesrv, "ordered")]
    monkeypatch.undo()
    assert first != second
    assert sorted(first) == sorted(second)
    for attempt, bodies in enumerate((first[:120], second)):
        rows = pa.record_batch({"body": bodies, "order_key": ["key"] * len(bodies)})
        _write([rows], cluster.namesrv, "reordered", attempt)
    sent = _read(cluster.namesrv, "reordered")
    assert len(sent) == 320
    once = {row["message_id"]: row["body"] for row in reversed(sent)}  # the first of each id
    assert sorted(once.values()) == sorted(first), "an id means the same message again"


def test_a_broker_that_restarts_under_a_task_is_waited_for_and_keys_stay_in_order() -> None:
    def batches(cluster: LocalCluster) -> Iterator[pa.RecordBatch]:
        yield _rows(0, 1000)
        cluster.stop_broker()
        back.start()
        yield from (_rows(start, 1000) for start in range(1000, 5000, 1000))

    with LocalCluster() as cluster:
        back = threading.Timer(0.5, cluster.start_broker)
        _write(batches(cluster), cluster.namesrv, "restart")
        back.join()
        rows = _read(cluster.namesrv, "restart")
    seen: dict[str, list[int]] = {}
    for row in {row["message_id"]: row for row in reversed(rows)}.values():  # the first of each id
        seen.setdefault(dict(row["properties"])["__SHARDINGKEY"], []).insert(0, int(row["body"]))
    assert seen == {f"key-{key}": list(range(key, 5000, KEYS)) for key in range(KEYS)}


def test_a_broker_that_stays_away_ends_the_task_with_one_line() -> None:
    with LocalCluster() as cluster:
        _write([_rows(0, 1)], cluster.namesrv, "away")
        cluster.stop_broker()
        with pytest.raises(PyroMQError) as caught:
            _write([_rows(0, 1)], cluster.namesrv, "away", retryTimeout="300ms")
    assert "\n" not in str(caught.value)
    assert "broker" in str(caught.value)


def test_a_name_server_that_is_not_there_ends_the_task_with_one_line() -> None:
    with pytest.raises(PyroMQError, match=r"no name server answers: 127\.0\.0\.1:1 ") as caught:
        _write([_rows(0, 1)], "127.0.0.1:1", "x", retryTimeout="100ms")
    assert "\n" not in str(caught.value)


def test_a_topic_that_nobody_may_write_to_ends_the_task(cluster: LocalCluster) -> None:
    portal = Portal.shared()
    api = portal.call(BrokerApi.connect(cluster.namesrv))
    portal.call(api.create_topic(cluster.brokers[0].address, "read-only", perm=PERM_READ))
    with pytest.raises(NoRoute, match="the topic 'read-only' has no writable queue"):
        _write([_rows(0, 1)], cluster.namesrv, "read-only", retryTimeout="100ms")
    with pytest.raises(InvalidMessage, match="is internal to the broker"):
        _write([_rows(0, 1)], cluster.namesrv, "SCHEDULE_TOPIC_XXXX")


def test_a_body_of_the_full_size_is_stored(cluster: LocalCluster) -> None:
    large = pa.record_batch({"body": [bytes(4 << 20), b"x"], "order_key": ["k", "k"]})
    assert _write([large], cluster.namesrv, "large").rows == 2
    assert [len(row["body"]) for row in _read(cluster.namesrv, "large")] == [4 << 20, 1]


def test_a_rate_is_kept(cluster: LocalCluster) -> None:
    started = time.monotonic()
    _write([_rows(0, 40)], cluster.namesrv, "slowly", ratePerSecond="100")
    assert time.monotonic() - started > 0.2, "no row waits for its own turn, the last ten wait for the others'"


# --- through Spark ----------------------------------------------------------------------------------------------------


def _topic(spark: SparkSession, cluster: LocalCluster, topic: str) -> DataFrame:
    return spark.read.format("pyromq").option("namesrv", cluster.namesrv).option("subscribe", topic).load()


@pytest.mark.spark
def test_a_frame_is_written_with_keys_tags_and_properties(spark: SparkSession, cluster: LocalCluster) -> None:
    frame = spark.range(100).selectExpr(
        "cast(id as string) as body",
        "if(id % 2 = 0, 'even', null) as tags",
        "array(concat('k', id)) as keys",
        "map('n', cast(id as string)) as properties",
        "concat('key-', id % 7) as order_key",
        "if(id % 3 = 0, 'frame-a', 'frame-b') as topic",
    )
    frame.write.format("pyromq").mode("append").option("namesrv", cluster.namesrv).save()
    rows = _topic(spark, cluster, "frame-a,frame-b").collect()
    assert sorted(int(row.body) for row in rows) == list(range(100))
    assert len({row.message_id for row in rows}) == 100
    for row in rows:
        number = int(row.body)
        assert (row.topic, row.tags) == (f"frame-{'ba'[number % 3 == 0]}", None if number % 2 else "even")
        assert (row.keys, row.properties["n"]) == ([f"k{number}"], str(number))


@pytest.mark.spark
def test_sql_writes_through_a_temporary_view(spark: SparkSession, cluster: LocalCluster) -> None:
    given = f"using pyromq options (namesrv '{cluster.namesrv}', topic 'by-sql')"
    spark.sql(f"create or replace temporary view by_sql (body string, keys string, tags string) {given}")
    spark.sql("insert into by_sql values ('one', 'k1 k2', 'a'), ('two', null, null)")
    rows = sorted((bytes(row["body"]), row["keys"], row["tags"]) for row in _read(cluster.namesrv, "by-sql"))
    assert rows == [(b"one", ["k1", "k2"], "a"), (b"two", None, None)]


@pytest.mark.spark
@pytest.mark.parametrize(
    ("columns", "mode", "options", "text"),
    [
        (["body"], "append", {}, "no topic: set the option topic, or add a column topic"),
        (["body"], "overwrite", {"topic": "x"}, "messages cannot be overwritten: write with mode('append')"),
        (["null as body"], "append", {"topic": "x"}, "column 'body' has type void, a sink accepts binary or string"),
        (["'' as body"], "append", {"topic": "x"}, "row 0 of partition 0 cannot be sent: the body is null or empty"),
    ],
)
def test_a_wrong_write_is_one_line_in_sparks_error(
    spark: SparkSession, cluster: LocalCluster, columns: list[str], mode: str, options: dict[str, str], text: str
) -> None:
    frame = spark.range(1).coalesce(1).selectExpr("cast(id as string) as body").selectExpr(*columns)
    with pytest.raises(Exception, match=r"PYTHON|Python") as caught:
        frame.write.format("pyromq").mode(mode).options(namesrv=cluster.namesrv, **options).save()
    assert [line for line in str(caught.value).splitlines() if line.startswith("pyromq.errors.") and text in line]


@pytest.mark.spark
def test_a_batch_that_is_sent_again_has_the_same_ids_and_dedupe_drops_it(
    spark: SparkSession, cluster: LocalCluster, tmp_path: Path
) -> None:
    _write([_rows(0, 200)], cluster.namesrv, "origin")

    def copy() -> None:
        source = spark.readStream.format("pyromq").option("namesrv", cluster.namesrv).option("subscribe", "origin")
        query = (
            source.option("startingOffsets", "earliest")
            .load()
            .drop("message_id")  # it would be kept and identify copies by itself
            .writeStream.format("pyromq")
            .option("namesrv", cluster.namesrv)
            .option("topic", "copies")
            .option("checkpointLocation", str(tmp_path))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    copy()
    (last,) = [path for path in (tmp_path / "commits").iterdir() if path.name == "0"]
    last.unlink()  # as if the driver had died before recording that all was sent
    copy()
    copies = _topic(spark, cluster, "copies")
    rows = copies.collect()
    assert len(rows) == 400
    assert sorted(int(row.body) for row in dedupe(copies).collect()) == list(range(200))
    queues = [MessageQueue("copies", row.broker_name, row.queue_id) for row in rows]
    everywhere = sorted({queue._replace(queue_id=number) for queue in queues for number in range(4)})
    assert queues == [queue_for_key(everywhere, row.properties["__SHARDINGKEY"]) for row in rows], "keys are kept"
    stream = spark.readStream.format("pyromq").option("namesrv", cluster.namesrv).option("subscribe", "copies")
    query = (
        dedupe(stream.option("startingOffsets", "earliest").load())
        .writeStream.format("memory")
        .queryName("deduped")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert sorted(int(row.body) for row in spark.table("deduped").collect()) == list(range(200))
