"""The Spark examples do what they say, in the session that the other tests use."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pyromq.testing import LocalCluster

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
