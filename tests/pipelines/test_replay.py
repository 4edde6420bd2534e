"""Archived messages and dead letters back into topics, on a real broker."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec
import pytest

from pyromq import DeadLetter, Message, blocking
from pyromq.errors import ConfigError, LocalProtocolError, NoRoute
from pyromq.pipelines import archive, replay
from pyromq.pipelines.common.copies import MARK
from pyromq.pipelines.outcome import Silent
from pyromq.spark.read.brokers.broker_queues import connect
from pyromq.testing import LocalCluster
from tests.pipelines.conftest import make_topic, numbered

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def archived(
    spark: SparkSession, cluster: LocalCluster, producer: blocking.Producer, tmp_path_factory: pytest.TempPathFactory
) -> replay.Options:
    """An archive of 60 messages with 7 keys and one without a key, and options that select all of it."""
    make_topic(cluster, "again", 4)
    for message in numbered("again", range(1, 61)):
        producer.send(message, order_key=message.keys[0])
    producer.send(Message(topic="again", body=b"no json", flag=61))
    to = str(tmp_path_factory.mktemp("archive"))
    archive.run(spark, archive.Options(namesrv=cluster.namesrv, topics="again", to=to), Silent())
    return replay.Options(archive=to, namesrv=cluster.namesrv)


def _stored(spark: SparkSession, cluster: LocalCluster, topic: str) -> list[Row]:
    frame = spark.read.format("pyromq").option("namesrv", cluster.namesrv).option("subscribe", topic)
    columns = "queue_id,queue_offset,message_id,body,keys,tags,properties,flag"
    return sorted(frame.option("columns", columns).load().collect(), key=lambda row: (row.queue_id, row.queue_offset))


def _wait_for_messages(cluster: LocalCluster, topic: str, count: int) -> None:
    brokers, deadline = connect(cluster.namesrv), time.monotonic() + 60
    while time.monotonic() < deadline:
        with suppress(NoRoute):
            if sum(brokers.max_offsets(brokers.queues([topic])).values()) >= count:
                return
        time.sleep(0.05)
    raise AssertionError(f"no {count} messages in {topic}")


def test_everything_comes_back_once_in_the_order_of_its_key(
    spark: SparkSession, cluster: LocalCluster, archived: replay.Options
) -> None:
    make_topic(cluster, "again-all", 8)
    options = msgspec.structs.replace(archived, to="again-all")
    outcome = replay.run(spark, options, Silent())
    assert (outcome.read, outcome.written, outcome.dropped) == (61, 61, {})
    rows = _stored(spark, cluster, "again-all")
    assert sorted(row.flag for row in rows) == list(range(1, 62))
    for key in range(7):
        mine = [row for row in rows if row["keys"] and row["keys"][0] == f"k{key}"]
        assert [row.flag for row in mine] == sorted(row.flag for row in mine), "in order"
        assert len({row.queue_id for row in mine}) == 1, "one key, one queue"
    row, message = next(row for row in rows if row.flag == 5), numbered("again", range(5, 6))[0]
    assert (bytes(row.body), row["keys"], row.tags) == (message.body, list(message.keys), message.tags)
    assert (row.properties["color"], row.properties["PYROMQ_ORIGIN_TOPIC"]) == ("blue", "again")
    assert row.properties["PYROMQ_ORIGIN_MESSAGE_ID"] != row.message_id, "a new message, with an id of its own"


def test_the_same_command_again_sends_only_what_is_missing(
    spark: SparkSession, cluster: LocalCluster, producer: blocking.Producer, archived: replay.Options
) -> None:
    make_topic(cluster, "again-cut", 4)
    options = msgspec.structs.replace(archived, to="again-cut", where="flag <= 60")
    replay.run(spark, msgspec.structs.replace(options, name="cut", where="flag <= 25"), Silent())  # an interrupted run
    outcome = replay.run(spark, msgspec.structs.replace(options, name="cut"), Silent())
    assert outcome.written == 35
    assert outcome.dropped == {"does not match --where": 1, "sent by an earlier run": 25}
    rows = _stored(spark, cluster, "again-cut")
    assert sorted(row.flag for row in rows) == list(range(1, 61))
    assert len({row.message_id for row in rows}) == 60
    for key in range(7):
        mine = [row.flag for row in rows if row["keys"][0] == f"k{key}"]
        assert mine == sorted(mine)
    assert replay.run(spark, msgspec.structs.replace(options, name="cut"), Silent()).written == 0
    with pytest.raises(LocalProtocolError, match="once more"):
        replay.run(spark, msgspec.structs.replace(options, name="once more"), Silent())
    assert replay.run(spark, msgspec.structs.replace(options, name="once-more"), Silent()).written == 60


def test_fields_of_the_body_choose_and_the_rest_is_counted_by_reason(
    spark: SparkSession, cluster: LocalCluster, archived: replay.Options
) -> None:
    make_topic(cluster, "again-some", 1)
    options = msgspec.structs.replace(archived, to="again-some", where="body.cents > 400 and tags = 'even'")
    outcome = replay.run(spark, options, Silent())
    assert outcome.dropped == {"the body is not JSON": 1, "does not match --where": 50}
    assert sorted(row.flag for row in _stored(spark, cluster, "again-some")) == list(range(42, 61, 2))
    typed = msgspec.structs.replace(options, body_schema="cents string", where="body.cents = '420'", name="typed")
    assert replay.run(spark, typed, Silent()).written == 1


def test_a_rate_is_kept(spark: SparkSession, cluster: LocalCluster, archived: replay.Options) -> None:
    make_topic(cluster, "again-slowly", 1)
    replay.run(spark, msgspec.structs.replace(archived, to="again-slowly", where="flag <= 20", rate=10), Silent())
    frame = spark.read.format("pyromq").options(namesrv=cluster.namesrv, subscribe="again-slowly").load()
    times = [row.store_timestamp for row in frame.select("store_timestamp").collect()]
    assert len(times) == 20
    assert (max(times) - min(times)).total_seconds() > 1.0


def test_a_time_range_chooses(spark: SparkSession, cluster: LocalCluster, archived: replay.Options) -> None:
    make_topic(cluster, "again-late", 1)
    options = msgspec.structs.replace(archived, to="again-late", since="2999-01-01")
    assert replay.run(spark, options, Silent()).read == 0
    with pytest.raises(ConfigError, match="--until must be a time such as"):
        replay.run(spark, msgspec.structs.replace(archived, until="yesterday"), Silent())


def test_dead_letters_go_back_where_they_came_from_without_what_brokers_wrote(
    spark: SparkSession, cluster: LocalCluster, producer: blocking.Producer
) -> None:
    make_topic(cluster, "letters", 1)

    def give_up(message: object) -> None:
        raise DeadLetter("no address")

    with blocking.PushConsumer("posting", cluster.namesrv, {"letters": "*"}, give_up, start_from="earliest"):
        producer.send(Message(topic="letters", body=b'{"to": 1}', keys=["a"], properties={"color": "red"}))
        _wait_for_messages(cluster, "%DLQ%posting", 1)
    outcome = replay.run(spark, replay.Options(dead_letters="posting", namesrv=cluster.namesrv), Silent())
    assert outcome.written == 1
    row = _stored(spark, cluster, "letters")[-1]
    assert row.properties["color"] == "red"
    assert row.properties["PYROMQ_ORIGIN_TOPIC"] == "letters"
    assert MARK in row.properties
    assert not {"RETRY_TOPIC", "DELAY", "REAL_TOPIC", "RECONSUME_TIME"} & row.properties.keys()
