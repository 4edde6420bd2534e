"""A backlog copied to a topic with more queues: each key in order, each message once, even after an interruption."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from pyromq import blocking
from pyromq.errors import ConfigError
from pyromq.pipelines import widen
from pyromq.pipelines.outcome import Silent
from pyromq.pipelines.widen import backlog
from pyromq.spark.read.brokers.broker_queues import connect
from pyromq.testing import LocalCluster
from tests.pipelines.conftest import make_topic, numbered

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


def _fill(cluster: LocalCluster, producer: blocking.Producer, topic: str, numbers: range) -> None:
    make_topic(cluster, topic, 2)
    for message in numbered(topic, numbers):
        producer.send(message, order_key=message.keys[0])


def _options(cluster: LocalCluster, topic: str, directory: Path) -> widen.Options:
    return widen.Options(
        topic=topic,
        group=f"{topic}-group",
        to=f"{topic}-wide",
        queues=8,
        checkpoint=str(directory),
        namesrv=cluster.namesrv,
        batch=25,
    )


def _stored(spark: SparkSession, cluster: LocalCluster, topic: str) -> list[Row]:
    frame = spark.read.format("pyromq").option("namesrv", cluster.namesrv).option("subscribe", topic)
    columns = "queue_id,queue_offset,message_id,body,keys,tags,properties,flag"
    return sorted(frame.option("columns", columns).load().collect(), key=lambda row: (row.queue_id, row.queue_offset))


def _check(rows: list[Row], numbers: range) -> None:
    """Assert that each number is stored once, and each key in one queue, in order."""
    assert sorted(row.flag for row in rows) == list(numbers)
    for key in range(7):
        mine = [row for row in rows if row["keys"][0] == f"k{key}"]
        assert [row.flag for row in mine] == sorted(row.flag for row in mine)
        assert len({row.queue_id for row in mine}) == 1


def test_a_backlog_is_spread_over_more_queues_and_the_group_has_nothing_left(
    spark: SparkSession, cluster: LocalCluster, producer: blocking.Producer, tmp_path: Path
) -> None:
    _fill(cluster, producer, "narrow", range(1, 61))
    options = _options(cluster, "narrow", tmp_path)
    brokers = connect(cluster.namesrv)
    consumed = dict.fromkeys(brokers.queues(["narrow"]), 1)
    brokers.commit(consumed, options.group)  # the first message of each queue
    outcome = widen.run(spark, options, Silent())
    assert outcome.written == 58
    assert backlog(cluster.namesrv, "narrow", options.group) == 0
    rows = _stored(spark, cluster, "narrow-wide")
    first = {row.flag for row in rows}
    assert len(rows) == len(first) == 58, "what was consumed before is not copied"
    original = {row.flag: row for row in _stored(spark, cluster, "narrow")}
    assert all(row.message_id == original[row.flag].message_id for row in rows), "copies keep their ids"
    assert backlog(cluster.namesrv, "narrow-wide", options.group) == 58, "all of it is for the group"

    for message in numbered("narrow", range(61, 71)):
        producer.send(message, order_key=message.keys[0])
    assert widen.run(spark, options, Silent()).written == 10
    assert len(_stored(spark, cluster, "narrow-wide")) == 68


def test_a_batch_that_was_cut_is_completed_and_not_repeated(
    spark: SparkSession,
    cluster: LocalCluster,
    producer: blocking.Producer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _fill(cluster, producer, "cut", range(1, 61))
    options = _options(cluster, "cut", tmp_path)
    send = widen.WideTopic._send

    def die_half_way(self: widen.WideTopic, copies: DataFrame) -> None:
        if copies.isEmpty():
            return
        send(self, copies.where("flag % 3 > 0 or flag < 30"))
        raise RuntimeError("pyromq.errors.PyroMQError: the driver dies here")

    monkeypatch.setattr(widen.WideTopic, "_send", die_half_way)
    with pytest.raises(Exception, match="the driver dies here"):
        widen.run(spark, options, Silent())
    assert 0 < len(_stored(spark, cluster, "cut-wide")) < 60
    monkeypatch.setattr(widen.WideTopic, "_send", send)
    widen.run(spark, options, Silent())
    rows = _stored(spark, cluster, "cut-wide")
    assert sorted(row.flag for row in rows) == list(range(1, 61)), "nothing lost, nothing twice"


def test_a_worker_that_dies_costs_no_message_and_doubles_none(
    spark: SparkSession,
    cluster: LocalCluster,
    producer: blocking.Producer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _fill(cluster, producer, "worker", range(1, 31))
    send = widen.WideTopic._send
    deaths: list[str] = []

    def die_once(self: widen.WideTopic, copies: DataFrame) -> None:
        if deaths or copies.isEmpty():
            return send(self, copies)
        send(self, copies.where("flag < 10"))
        deaths.append("once")
        raise RuntimeError("Python worker exited unexpectedly")

    monkeypatch.setattr(widen.WideTopic, "_send", die_once)
    widen.run(spark, _options(cluster, "worker", tmp_path), Silent())
    _check(_stored(spark, cluster, "worker-wide"), range(1, 31))


def test_members_that_still_read_the_old_topic_are_named(
    spark: SparkSession, cluster: LocalCluster, producer: blocking.Producer, tmp_path: Path
) -> None:
    _fill(cluster, producer, "busy", range(1, 3))
    options = _options(cluster, "busy", tmp_path)
    with (
        blocking.PushConsumer(options.group, cluster.namesrv, {"busy": "*"}, lambda message: None),
        pytest.raises(ConfigError, match="1 members of 'busy-group' read 'busy': stop them"),
    ):
        widen.run(spark, options, Silent())


def test_a_wide_topic_of_another_width_and_the_topic_itself_are_refused(
    spark: SparkSession, cluster: LocalCluster, producer: blocking.Producer, tmp_path: Path
) -> None:
    _fill(cluster, producer, "odd", range(1, 3))
    options = _options(cluster, "odd", tmp_path)
    make_topic(cluster, "odd-wide", 2)
    with pytest.raises(ConfigError, match="exists with 2 queues, not 8"):
        widen.run(spark, options, Silent())
    with pytest.raises(ConfigError, match="the topic itself"):
        widen.run(spark, msgspec.structs.replace(options, to="odd"), Silent())
