"""The Spark examples do what they say, in the session that the other tests use."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pyromq import Message, blocking
from pyromq.testing import LocalCluster
from tests.spark.read.sample_store import wait_for_entries

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLES = Path(__file__).parent.parent.parent / "examples"

pytestmark = pytest.mark.spark


def test_the_batch_example_counts_messages_by_tag(
    spark: SparkSession, cluster: LocalCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    runpy.run_path(str(EXAMPLES / "spark_batch.py"))["main"](cluster.namesrv, spark)
    cells = [[cell.strip() for cell in line.split("|")][1:3] for line in capsys.readouterr().out.splitlines()]
    assert cells[3:6] == [["created", "10"], ["paid", "10"], ["shipped", "10"]]


def test_the_stream_example_adds_only_what_is_new(
    spark: SparkSession, cluster: LocalCluster, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    main = runpy.run_path(str(EXAMPLES / "spark_stream.py"))["main"]
    for rows in ("10|       95.0", "20|      190.0"):
        main(cluster.namesrv, str(tmp_path), spark)
        assert rows in capsys.readouterr().out


def test_the_store_example_tells_what_fills_a_store(
    spark: SparkSession, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with LocalCluster(data=tmp_path) as own, blocking.Producer(group="g", namesrv=own.namesrv) as producer:
        for tag in ("created", "created", "paid"):
            producer.send(Message(topic="example-shop", body=b"order", tags=tag))
        wait_for_entries(own.brokers[0].store_path, "example-shop", 3)
        runpy.run_path(str(EXAMPLES / "spark_store.py"))["main"](str(tmp_path), spark)
    cells = [[cell.strip() for cell in line.split("|")][1:4] for line in capsys.readouterr().out.splitlines()]
    assert cells[3:5] == [["example-shop", "created", "2"], ["example-shop", "paid", "1"]]


def test_the_sink_example_copies_only_what_is_new(
    spark: SparkSession, cluster: LocalCluster, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    main = runpy.run_path(str(EXAMPLES / "spark_sink.py"))["main"]
    for counts in ([["c-0", "2"], ["c-1", "2"], ["c-2", "1"]], [["c-0", "4"], ["c-1", "4"], ["c-2", "2"]]):
        main(cluster.namesrv, str(tmp_path), spark)
        cells = [[cell.strip() for cell in line.split("|")][1:3] for line in capsys.readouterr().out.splitlines()]
        assert cells[3:6] == counts


def test_the_example_of_typed_bodies_reads_json_avro_and_protobuf(
    spark: SparkSession, cluster: LocalCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    runpy.run_path(str(EXAMPLES / "spark_typed.py"))["main"](cluster.namesrv, spark)
    assert capsys.readouterr().out.splitlines() == [f"{kind}: 10 orders, 67.5" for kind in ("json", "avro", "protobuf")]
