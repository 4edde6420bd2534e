"""The shipped package: its contents, and that it works where PyroMQ is not installed."""

from __future__ import annotations

import os
import subprocess
import zipfile
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle

from pyromq.protocol.tag_filter import java_hash
from pyromq.spark.launch.ship import function_with_package, pack, ship, source_with_package
from tests.spark.cluster.spark_servers import environment_without_pyromq

ARRIVE = """
import importlib.util, sys
from pyspark import cloudpickle
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import BinaryType, StructField, StructType

assert importlib.util.find_spec("pyromq") is None
data = sys.stdin.buffer.read()
source = cloudpickle.loads(data)(CaseInsensitiveDict(namesrv="127.0.0.1:1", subscribe="t"))
source = cloudpickle.loads(cloudpickle.dumps(source))
reader = source.streamReader(StructType([StructField("body", BinaryType())]))
sys.stdout.buffer.write(cloudpickle.dumps(lambda: reader._options.topics))
"""
READ = """
import sys
from pyspark import cloudpickle

print(*cloudpickle.loads(sys.stdin.buffer.read())())
"""
CALL = """
import importlib.util, sys
from pyspark import cloudpickle

assert importlib.util.find_spec("pyromq") is None
print(cloudpickle.loads(sys.stdin.buffer.read())("orders"))
"""


def _run(python: Path, script: str, data: bytes) -> subprocess.CompletedProcess[bytes]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}  # it may lead to PyroMQ
    command = [str(python), "-c", script]
    return subprocess.run(command, input=data, capture_output=True, cwd=python.parent, env=environment, timeout=60)


@pytest.fixture(scope="module")
def pickled() -> bytes:
    data: bytes = cloudpickle.dumps(source_with_package(pack()))  # type: ignore[no-untyped-call]
    return data


def test_the_archive_is_small_the_same_each_time_and_has_no_servers() -> None:
    archive = pack()
    assert archive == pack()
    assert len(archive) < 1 << 20
    names = zipfile.ZipFile(BytesIO(archive)).namelist()
    assert {"pyromq/__init__.py", "pyromq/spark/source.py", "pyromq/spark/read/brokers/slice_reader.py"} <= set(names)
    assert "pyromq/client/net/calls/broker_api.py" in names
    assert not [name for name in names if name.startswith(("pyromq/broker/", "pyromq/cli/", "pyromq/console/"))]


def test_a_planner_and_an_executor_without_the_package_get_it_from_the_pickle(pickled: bytes, tmp_path: Path) -> None:
    python = environment_without_pyromq(tmp_path)
    planner = _run(python, ARRIVE, pickled)
    assert planner.returncode == 0, planner.stderr.decode()
    executor = _run(python, READ, planner.stdout)
    assert executor.stdout == b"t\n", executor.stderr.decode()


def test_a_function_for_batches_brings_the_package_to_the_server_where_it_was_shipped(tmp_path: Path) -> None:
    session: Any = FakeSession()
    assert function_with_package(session, java_hash) is java_hash, "where nothing was shipped a function goes as it is"
    ship(session)
    function = function_with_package(session, java_hash)
    assert function("orders") == java_hash("orders")
    data: bytes = cloudpickle.dumps(function)  # type: ignore[no-untyped-call]
    done = _run(environment_without_pyromq(tmp_path), CALL, data)
    assert done.stdout == b"%d\n" % java_hash("orders"), done.stderr.decode()


class FakeSession:
    """A session that accepts artifacts for executors."""

    def addArtifacts(self, path: str, *, pyfile: bool) -> None:
        assert pyfile


def test_what_cannot_be_shipped_is_named_in_one_line(pickled: bytes, tmp_path: Path) -> None:
    python = environment_without_pyromq(tmp_path, "msgspec")
    last = _run(python, ARRIVE, pickled).stderr.decode().splitlines()[-1]
    assert last.startswith("pyromq.errors.ConfigError: the cluster's Python (")
    assert last.endswith("lacks msgspec, which cannot be shipped: pip install msgspec on every node")
