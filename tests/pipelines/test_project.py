"""The project that `pyromq pipeline init` writes, run twice in a row."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pyromq import Message, blocking
from pyromq.pipelines import project
from pyromq.spark.java import prepare_environment
from pyromq.testing import LocalCluster
from tests.spark.spark_servers import SparkServers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]

SCRIPT = Path(__file__).with_name("project_runs.py")


def test_a_new_project_runs_twice_and_each_order_is_processed_once(
    spark: SparkSession, cluster: LocalCluster, producer: blocking.Producer, tmp_path: Path
) -> None:
    for topic in ("project-orders", "project-large"):
        producer.send(Message(topic=topic, body=b"{}"))
    project.write(tmp_path / "shop", cluster.namesrv, "project-orders", "project-large")
    prepare_environment()
    servers = SparkServers(tmp_path)
    try:
        remote = servers.connect_server(Path(sys.executable), "local[2]")
        specification = str(tmp_path / "shop" / "spark-pipeline.yml")
        done = subprocess.run(
            [sys.executable, str(SCRIPT), specification, cluster.namesrv],
            env={**os.environ, "SPARK_REMOTE": remote},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    finally:
        servers.__exit__(None, None, None)
    large = spark.read.format("pyromq").options(namesrv=cluster.namesrv, subscribe="project-large").load()
    assert sorted(row["keys"][0] for row in large.collect() if row["keys"]) == ["o-2", "o-3", "o-4", "o-5"]
    history = spark.read.parquet(str(tmp_path / "shop" / "storage" / "history"))
    assert sorted(row.order_id for row in history.collect() if row.order_id is not None) == list(range(6))
