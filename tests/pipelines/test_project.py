"""The project that `pyromq pipeline init` writes, run twice in a row."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pyromq.pipelines import project
from pyromq.testing import LocalCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]

SCRIPT = Path(__file__).with_name("project_runs.py")


def test_a_new_project_runs_twice_and_each_order_is_processed_once(
    spark: SparkSession, cluster: LocalCluster, tmp_path: Path
) -> None:
    project.write(tmp_path / "shop", cluster.namesrv, "project-orders", "project-large")
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "shop", cluster.namesrv], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    assert done.stdout.count("Run is COMPLETED.") == 2
    assert "\tat org.apache" not in done.stderr, "no page of Java at the end of a run that is good"
    large = spark.read.format("pyromq").options(namesrv=cluster.namesrv, subscribe="project-large").load()
    assert sorted(row["keys"][0] for row in large.collect()) == ["o-2", "o-3", "o-4", "o-5"]
    history = spark.read.parquet(str(tmp_path / "shop" / "storage" / "history"))
    assert sorted(row.order_id for row in history.collect()) == list(range(6))
