"""Spark Connect in front of a standalone cluster of a master and two workers, all without PyroMQ.

The other ways to a cluster are tried by tests/faults/spark_clusters.py, which takes minutes.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from pyromq.errors import ConfigError
from pyromq.spark.session import session
from pyromq.testing import LocalCluster
from tests.spark.cluster.cluster_pipelines import PipelineTrial
from tests.spark.cluster.cluster_trial import Trial
from tests.spark.cluster.spark_servers import SparkServers, environment_without_pyromq


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_cluster_without_the_package_reads_streams_writes_and_widens_with_what_was_shipped(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    python = environment_without_pyromq(tmp_path / "python")
    with SparkServers(tmp_path) as servers:
        address = servers.connect_server(python, servers.master)
        Trial(
            kind="remote",
            address=address,
            python=python,
            ship=True,
            namesrv=cluster.namesrv,
            topic="shipped",
            directory=tmp_path,
        ).run()
        PipelineTrial(
            kind="remote",
            address=address,
            python=python,
            ship=True,
            cluster=cluster,
            topic="backlog",
            directory=tmp_path,
        ).run(["widen"])


def test_a_session_has_one_place_to_be() -> None:
    with pytest.raises(ConfigError, match="set master or remote, not both"):
        session("x", master="local[1]", remote="sc://127.0.0.1:1")


def test_a_cluster_that_does_not_answer_is_one_line() -> None:
    with pytest.raises(ConfigError, match=r"no Spark master answers at 127\.0\.0\.1:1: connection refused\. Is one"):
        session("x", master="spark://127.0.0.1:1")
