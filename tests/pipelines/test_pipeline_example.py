"""The example of the pipelines does what it says."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pyromq.testing import LocalCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "spark_pipelines.py"

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


def test_the_example_archives_all_and_replays_the_large_ones_once(
    spark: SparkSession, cluster: LocalCluster, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    runpy.run_path(str(EXAMPLE))["main"](cluster.namesrv, str(tmp_path), spark)
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["archived 20", "replayed 5 of 20, dropped {'does not match --where': 15}"]
    assert lines[2].startswith("replayed 0 of 20")
