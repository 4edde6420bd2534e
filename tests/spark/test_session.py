from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from pyromq import Message, blocking
from pyromq.spark import register
from pyromq.testing import LocalCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JOB = """
import sys
from pyspark.sql import SparkSession
from pyromq.spark import one_line, register

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
orders = spark.read.format("pyromq").option("namesrv", sys.argv[1]).option("subscribe", sys.argv[2])
try:
    orders.load()
except Exception as error:
    print(one_line(error))
register(spark)
print([row.body.decode() for row in orders.load().collect()], spark.sparkContext.pythonExec)
"""


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_a_job_of_an_environment_that_is_not_activated(
    cluster: LocalCluster, producer: blocking.Producer, tmp_path: Path
) -> None:
    """`.venv/bin/python job.py` with another python3 on the PATH, which Spark takes for its own processes."""
    producer.send(Message(topic="inactive", body=b"one"))
    other = tmp_path / "bin" / "python3"
    other.parent.mkdir()
    other.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "$@"\n')  # a Python without any package
    other.chmod(0o755)
    (tmp_path / "job.py").write_text(JOB)
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYSPARK_")}
    environment |= {"PATH": f"{other.parent}:{environment['PATH']}", "SPARK_LOCAL_IP": "127.0.0.1"}
    job = [sys.executable, str(tmp_path / "job.py"), cluster.namesrv, "inactive"]
    done = subprocess.run(job, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    advice, rows = done.stdout.splitlines()
    assert advice.startswith("Spark does not know the format pyromq: ")
    assert "register(spark)" in advice
    assert "PYSPARK_PYTHON" in advice
    assert rows == "['one'] python3", "only the format runs in the job's own Python"


@pytest.mark.parametrize(("cache", "shim"), [("cache", True), ("a_file", False)])
def test_a_registered_format_starts_without_compiling_sparks_zips(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: str, shim: bool
) -> None:
    (tmp_path / "a_file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / cache))
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    used: list[str] = []
    context = SimpleNamespace(master="local[2]", pythonExec="python3")
    source = SimpleNamespace(register=lambda _: used.append(context.pythonExec))
    conf = SimpleNamespace(get=lambda _, default: default)
    register(cast("SparkSession", SimpleNamespace(_sc=context, dataSource=source, conf=conf)))
    assert used[0].startswith(str(tmp_path / cache)) is shim
    assert used == [sys.executable] or shim, "without a place for the shim, this Python"
    assert context.pythonExec == "python3", "the user's own functions run where they ran before"
