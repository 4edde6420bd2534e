"""Batch reads from a real broker: through Spark where it matters, else with the reader alone."""

from __future__ import annotations

import json
import random
import threading
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from pyromq import Message, blocking
from pyromq.errors import ConfigError, NoRoute, OffsetOutOfRange, PyroMQError
from pyromq.protocol.messages.message import MessageQueue
from pyromq.spark import register
from pyromq.spark.options.read_options import read_options
from pyromq.spark.read.batch_reader import BatchReader
from pyromq.spark.read.brokers.broker_queues import connect
from pyromq.testing import LocalCluster
from tests.spark.conftest import Sent, send

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TAGS = ("created", "paid", None)


def _messages(topic: str, count: int) -> list[Message]:
    chooser = random.Random(topic)
    return [
        Message(
            topic=topic,
            body=chooser.randbytes(chooser.choice((1, 100, 1024))) if number % 7 else b"abc" * 3000,  # compressed
            tags=TAGS[number % 3],
            keys=[f"k-{number}", "every"] if number % 2 else [],
            properties={"number": str(number), "Größe": "ä" * (number % 5 + 1)} if number % 5 else {},
            flag=number,
        )
        for number in range(count)
    ]


@pytest.fixture(scope="module")
def sent(producer: blocking.Producer) -> Sent:
    return send(producer, _messages("batch", 600))


def _read(cluster: LocalCluster, **options: str) -> list[dict[str, Any]]:
    given = {
        "namesrv": cluster.namesrv,
        "subscribe": "batch",
        "columns": "broker_name,queue_id,queue_offset,tags,topic",
    }
    reader = BatchReader(read_options(given | options, streaming=False))
    return [row for partition in reader.partitions() for batch in reader.read(partition) for row in batch.to_pylist()]


def _places(rows: list[dict[str, Any]]) -> list[tuple[str, int, int]]:
    """Return where rows come from, queue by queue, those of one queue in the order in which they came."""
    places = [(row["broker_name"], row["queue_id"], row["queue_offset"]) for row in rows]
    return sorted(places, key=lambda place: place[:2])


@pytest.mark.spark
def test_a_batch_read_is_what_was_sent_byte_for_byte_and_in_queue_order(
    spark: SparkSession, cluster: LocalCluster, sent: Sent
) -> None:
    frame = spark.read.format("pyromq").option("namesrv", cluster.namesrv).option("subscribe", "batch").load()
    rows = [row.asDict() for row in frame.collect()]
    assert _places(rows) == sorted(sent), "all of them, once, each queue in its order"
    for row in rows:
        message = sent[row["broker_name"], row["queue_id"], row["queue_offset"]]
        assert bytes(row["body"]) == message.body
        assert (row["topic"], row["tags"]) == ("batch", message.tags)
        assert row["keys"] == (list(message.keys) or None)
        assert dict(message.properties).items() <= row["properties"].items()
        assert row["message_id"] == row["properties"]["UNIQ_KEY"]
        assert row["reconsume_times"] == 0
        assert 0 <= (row["store_timestamp"] - row["born_timestamp"]).total_seconds() < 60


@pytest.mark.spark
def test_filters_narrow_a_read_where_spark_pushes_them_down_and_fail_none_where_not(
    spark: SparkSession, cluster: LocalCluster, sent: Sent
) -> None:
    given = {"namesrv": cluster.namesrv, "subscribe": "batch"}
    expected = sorted(place for place, one in sent.items() if one.tags == "paid" and place[1] == 1 and place[2] < 6)
    for setting in ("true", "false"):
        spark.conf.set("spark.sql.python.filterPushdown.enabled", setting)
        frame = spark.read.format("pyromq").options(**given, group=f"pushed-{setting}").load()
        rows = frame.where("tags = 'paid' and queue_id = 1 and queue_offset < 6").collect()
        assert _places([row.asDict() for row in rows]) == expected
    spark.conf.unset("spark.sql.python.filterPushdown.enabled")
    servers = [broker.server for broker in cluster.brokers if broker.server is not None]
    pushed, plain = (
        sum(server.stats.gets["batch", f"pushed-{setting}"].messages for server in servers)
        for setting in ("true", "false")
    )
    assert plain == len(sent)
    assert 0 <= pushed - len(expected) <= len(servers), "a pull with a filter may reach beyond its range"


@pytest.mark.spark
def test_columns_are_chosen_by_option_or_by_the_users_schema(
    spark: SparkSession, cluster: LocalCluster, sent: Sent
) -> None:
    source = spark.read.format("pyromq").option("namesrv", cluster.namesrv).option("subscribe", "batch")
    by_option = source.option("columns", "flag,physical_offset,store_host").load()
    assert by_option.columns == ["flag", "physical_offset", "store_host"]
    assert sorted(row.flag for row in by_option.collect()) == sorted(message.flag for message in sent.values())
    by_schema = source.schema("tags string, properties string").load()
    assert {row.tags for row in by_schema.collect()} == set(TAGS)
    assert by_schema.where("properties like '%CLUSTER%'").count() == len(sent)


@pytest.mark.spark
def test_the_format_is_found_in_sql_without_registration(
    spark: SparkSession, cluster: LocalCluster, sent: Sent
) -> None:
    other = spark.newSession()
    other.sql(f"create temporary view messages using pyromq options (namesrv '{cluster.namesrv}', subscribe 'batch')")
    counts = other.sql("select tags, count(*) from messages group by tags order by tags nulls first").collect()
    assert [tuple(row) for row in counts] == [(None, 200), ("created", 200), ("paid", 200)]


@pytest.mark.spark
@pytest.mark.parametrize(
    ("options", "schema", "text"),
    [
        ({"subscribe": "no-such-topic"}, None, "the brokers broker-a, broker-b do not have the topic 'no-such-topic'"),
        (
            {"subscribe": "batch", "secretKey": "hunter2"},
            None,
            "options accessKey and secretKey belong together: set both or neither",
        ),
        ({"subscribe": "batch"}, "body string", "column 'body' has type binary, not string: convert it after reading"),
    ],
)
def test_a_wrong_read_is_one_line_in_sparks_error(
    spark: SparkSession, cluster: LocalCluster, sent: Sent, options: dict[str, str], schema: str | None, text: str
) -> None:
    source = spark.read.format("pyromq").option("namesrv", cluster.namesrv).options(**options)
    with pytest.raises(Exception, match="PYTHON_DATA_SOURCE_ERROR") as caught:
        (source.schema(schema) if schema else source).load().collect()
    assert [line for line in str(caught.value).splitlines() if line.startswith("pyromq.errors.") and text in line]
    assert "hunter2" not in str(caught.value)


def test_speculation_is_refused() -> None:
    session = SimpleNamespace(conf={"spark.speculation": "TRUE"})  # it cannot be switched on in a live session
    with pytest.raises(ConfigError, match="speculation=true runs tasks twice"):
        register(cast("SparkSession", session))


def test_several_topics_and_patterns(cluster: LocalCluster, producer: blocking.Producer, sent: Sent) -> None:
    send(producer, _messages("batch-2", 3))
    assert len(_read(cluster, subscribe="batch,batch-2")) == len(sent) + 3
    given = {
        "namesrv": cluster.namesrv,
        "columns": "topic",
        "subscribePattern": "batch.*|DefaultCluster|broker-.|TBW102",
    }
    reader = BatchReader(read_options(given, streaming=False))
    topics = {queue.queue.topic for partition in reader.partitions() for queue in partition.value}
    assert topics == {"batch", "batch-2"}, "RocketMQ's own topics do not count"
    nothing = BatchReader(read_options(given | {"subscribePattern": "nothing"}, streaming=False))
    assert nothing.partitions() == []


def test_tags_are_filtered_by_the_broker(cluster: LocalCluster, sent: Sent) -> None:
    rows = _read(cluster, tags="paid || unheard-of")
    assert _places(rows) == sorted(place for place, message in sent.items() if message.tags == "paid")
    assert {row["tags"] for row in rows} == {"paid"}


def test_two_tags_with_one_hash_are_told_apart(cluster: LocalCluster, producer: blocking.Producer) -> None:
    send(producer, [Message(topic="hashes", body=b"x", tags=tag) for tag in ("Aa", "BB", "Aa", "C")])
    assert [row["tags"] for row in _read(cluster, subscribe="hashes", tags="Aa")] == ["Aa", "Aa"]


def test_offsets_queue_by_queue(cluster: LocalCluster, sent: Sent) -> None:
    starts = {"batch": {"broker-a": {"0": 5, "1": -1}, "broker-b": {"0": -2}}}
    ends = {"batch": {"broker-a": {"0": 8}, "broker-b": {"0": 2, "1": 0}}}
    rows = _read(cluster, startingOffsets=json.dumps(starts), endingOffsets=json.dumps(ends))
    expected = [
        (broker, queue, offset)
        for broker, queue, offset in sorted(sent)
        if (broker, queue) not in {("broker-a", 0), ("broker-a", 1), ("broker-b", 0), ("broker-b", 1)}
        or ((broker, queue) == ("broker-a", 0) and 5 <= offset < 8)
        or ((broker, queue) == ("broker-b", 0) and offset < 2)
    ]
    assert _places(rows) == expected


@pytest.mark.parametrize("name", ["startingOffsets", "endingOffsets"])
def test_offsets_that_do_not_exist_are_refused(cluster: LocalCluster, sent: Sent, name: str) -> None:
    with pytest.raises(OffsetOutOfRange, match="queue batch/broker-a/0: wanted offset 1000000, but it ends at"):
        _read(cluster, **{name: '{"batch": {"broker-a": {"0": 1000000}}}'})
    with pytest.raises(ConfigError, match="offsets are given for queue batch/broker-a/99"):
        _read(cluster, **{name: '{"batch": {"broker-a": {"99": 0}}}'})
    assert _read(cluster, failOnDataLoss="false", **{name: '{"batch": {"broker-a": {"0": 1000000}}}'})


def test_a_time_begins_and_ends_a_read(cluster: LocalCluster, producer: blocking.Producer) -> None:
    early = send(producer, _messages("times", 20))
    time.sleep(0.01)
    middle = cluster.clock.now_ms()
    late = send(producer, _messages("times", 20))
    begun = _places(_read(cluster, subscribe="times", startingTimestamp=str(middle)))
    ended = _places(_read(cluster, subscribe="times", endingTimestamp=str(middle)))
    assert (begun, ended) == (sorted(late), sorted(early))
    assert _read(cluster, subscribe="times", startingTimestamp="2100-01-01") == []
    assert len(_read(cluster, subscribe="times", startingTimestamp="2000-01-01")) == 40


def test_committed_offsets_of_a_group(cluster: LocalCluster, sent: Sent) -> None:
    queue = MessageQueue("batch", "broker-a", 0)
    connect(cluster.namesrv).commit({queue: 7}, "audit")
    rows = _read(cluster, startingOffsets="committed", group="audit")
    assert _places(rows) == [place for place in sorted(sent) if place[:2] != ("broker-a", 0) or place[2] >= 7]
    rows = _read(cluster, endingOffsets="committed", group="audit")
    assert _places(rows) == [place for place in sorted(sent) if place[:2] == ("broker-a", 0) and place[2] < 7]


def test_partitions_follow_the_options(cluster: LocalCluster, sent: Sent) -> None:
    given = {"namesrv": cluster.namesrv, "subscribe": "batch"}
    assert len(BatchReader(read_options(given, streaming=False)).partitions()) == 1, "small ranges share a task"
    reader = BatchReader(read_options(given | {"minPartitions": "20"}, streaming=False))
    assert len(reader.partitions()) >= 20
    reader = BatchReader(read_options(given | {"maxRecordsPerPartition": "10"}, streaming=False))
    sizes = [sum(part.stop - part.start for part in partition.value) for partition in reader.partitions()]
    assert sum(sizes) == len(sent)
    assert 5 < max(sizes) <= 10


def test_a_topic_that_does_not_exist_is_named_with_what_was_looked_at(cluster: LocalCluster) -> None:
    with pytest.raises(NoRoute, match="no broker has the topic 'no-such-topic'"):
        _read(cluster, subscribe="no-such-topic")


def test_a_name_server_that_is_not_there_is_one_line() -> None:
    with pytest.raises(PyroMQError, match=r"no name server answers: 127\.0\.0\.1:1 ") as caught:
        BatchReader(read_options({"namesrv": "127.0.0.1:1", "subscribe": "x"}, streaming=False)).partitions()
    assert "\n" not in str(caught.value)


def test_a_broker_that_restarts_under_a_read_is_waited_for() -> None:
    with LocalCluster() as cluster, blocking.Producer(group="g", namesrv=cluster.namesrv) as own:
        sent = send(own, _messages("restart", 40))
        given = {"namesrv": cluster.namesrv, "subscribe": "restart", "pullBatchSize": "5", "batchRows": "1"}
        reader = BatchReader(read_options(given, streaming=False))
        (partition,) = reader.partitions()
        batches = reader.read(partition)
        rows = next(batches).to_pylist()
        cluster.stop_broker()
        back = threading.Timer(0.5, cluster.start_broker)
        back.start()
        rows += [row for batch in batches for row in batch.to_pylist()]
        assert _places(rows) == sorted(sent)
        back.join()
