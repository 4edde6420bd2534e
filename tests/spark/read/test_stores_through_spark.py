"""The store of a running broker through Spark, and what users see when it cannot be read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pyromq import Message, blocking
from pyromq.testing import LocalCluster
from tests.spark.conftest import send
from tests.spark.read.sample_store import wait_for_entries

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

pytestmark = pytest.mark.spark


def _messages(numbers: range) -> list[Message]:
    return [Message(topic="filed", body=b"%d" % number, tags="even" if number % 2 == 0 else None) for number in numbers]


def _place(row: Row) -> tuple[int, int]:
    return row.queue_id, row.queue_offset


def test_files_of_a_running_broker_give_the_rows_that_it_gives_itself(
    spark: SparkSession, cluster: LocalCluster, producer: blocking.Producer
) -> None:
    sent = send(producer, _messages(range(100)))
    wait_for_entries(cluster.brokers[0].store_path, "filed", sum(place[0] == "broker-a" for place in sent))
    source = spark.read.format("pyromq").option("subscribe", "filed")
    files = source.option("store", str(cluster.brokers[0].store_path)).option("brokerName", "broker-a").load()
    brokers = (
        spark.read.format("pyromq").option("namesrv", cluster.namesrv).option("subscribe", "filed").load()
    ).where("broker_name = 'broker-a'")
    assert files.schema == brokers.schema
    of_files, of_brokers = (sorted(frame.collect(), key=_place) for frame in (files, brokers))
    assert of_files == of_brokers
    chosen = source.schema("queue_offset bigint, tags string, queue_id int").option("sql", "TAGS = 'even'").load()
    even = [place for place, message in sorted(sent.items()) if message.tags and place[0] == "broker-a"]
    assert [tuple(row) for row in chosen.collect()] == [(offset, "even", queue_id) for _, queue_id, offset in even]


def test_a_stream_of_files_goes_on_where_its_checkpoint_ends(
    spark: SparkSession, cluster: LocalCluster, producer: blocking.Producer, tmp_path: Path
) -> None:
    options = {"store": str(cluster.brokers[0].store_path), "subscribe": "followed", "startingOffsets": "earliest"}
    sent: list[bytes] = []
    for number in range(2):
        messages = send(producer, [Message(topic="followed", body=b"%d-%d" % (number, one)) for one in range(20)])
        sent += [message.body for place, message in messages.items() if place[0] == "broker-a"]
        wait_for_entries(cluster.brokers[0].store_path, "followed", len(sent))
        query = (
            spark.readStream.format("pyromq")
            .options(**options)
            .load()
            .writeStream.format("parquet")
            .options(path=str(tmp_path / "rows"), checkpointLocation=str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)
        rows = spark.read.parquet(str(tmp_path / "rows")).collect()
        assert sorted(bytes(row.body) for row in rows) == sorted(sent)


def test_a_store_that_is_not_there_is_one_line_in_sparks_error(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.read.format("pyromq").option("store", str(tmp_path)).option("subscribe", "x").load()
    with pytest.raises(Exception, match="PYTHON_DATA_SOURCE_ERROR") as caught:
        frame.collect()
    text = f"pyromq.errors.StoreError: no store in {tmp_path}: neither commitlog/ nor store/commitlog/ is there"
    assert text in str(caught.value).splitlines()
