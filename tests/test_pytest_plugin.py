"""The pytest plugin: its fixtures, its marker, and the same tests against a real cluster by one option."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pyromq import blocking
from pyromq.testing import LocalCluster

SOURCE = Path(__file__).parent.parent / "src"
TESTS = """
import pytest
from pyromq import blocking

def test_messages(pyromq_cluster, pyromq_topic):
    with blocking.Producer("shop", pyromq_cluster.namesrv, clock=pyromq_cluster.clock) as producer:
        producer.send(pyromq_topic, "one")
        producer.send("orders", "two")
    pyromq_cluster.expect_blocking(pyromq_topic)
    pyromq_cluster.expect_blocking("orders")

def test_failure(pyromq_cluster):
    pyromq_cluster.kill()

def test_hours(pyromq_cluster):
    pyromq_cluster.clock.advance(hours=2)

@pytest.mark.pyromq(brokers=2)
def test_brokers(pyromq_cluster):
    assert len(pyromq_cluster.brokers) == 2
"""


@pytest.fixture
def tests(tmp_path: Path) -> Path:
    (tmp_path / "test_it.py").write_text(TESTS)
    return tmp_path


def run(tests: Path, *options: str) -> str:
    """Run these tests in a process that has only our plugin; return what it printed."""
    command = [sys.executable, "-m", "pytest", "-p", "pyromq.pytest_plugin", "-q", "--strict-markers", "-rs", *options]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(SOURCE)}
    done = subprocess.run(
        [*command, str(tests)], env=environment, capture_output=True, text=True, timeout=100, cwd=tests
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_each_test_has_a_cluster_of_its_own(tests: Path) -> None:
    assert "4 passed" in run(tests)


def test_the_same_tests_run_against_a_real_cluster_by_one_option(tests: Path) -> None:
    with LocalCluster() as cluster:
        with blocking.Producer("shop", cluster.namesrv) as producer:
            producer.send("orders", "of another test")
        printed = run(tests, "--pyromq-namesrv", cluster.namesrv)
        assert len(cluster.messages_blocking("orders")) == 2
    assert "1 passed, 3 skipped" in printed
    assert "a real cluster has no 'kill': only a LocalCluster does" in printed
    assert "a real cluster's clock cannot be advanced by 2:00:00" in printed
    assert "a real cluster is as it is: brokers cannot be chosen" in printed
