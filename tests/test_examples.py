"""The examples do what they say."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pyromq.testing import LocalCluster

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted(path for path in (ROOT / "examples").glob("*.py") if "spark" not in path.name)  # those: tests/spark


TWICE = {"app", "blocking", "groups", "push_consumer", "send_and_receive", "steps_in_order", "transactions"}
"""One for each kind of client; the others would show the same, for ten seconds of CPU time."""


def run_example(path: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    known = {**os.environ, "PYTHONPATH": str(ROOT / "src"), **environment}
    return subprocess.run([sys.executable, path, *arguments], capture_output=True, text=True, timeout=100, env=known)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_example_runs_against_a_fresh_cluster(path: Path) -> None:
    with LocalCluster() as cluster:
        done = run_example(path, cluster.namesrv)
        assert done.returncode == 0, done.stderr
        assert "received" in done.stdout
        if path.stem in TWICE:
            again = run_example(path, NAMESRV_ADDR=cluster.namesrv)  # its group continues where it was
            assert again.returncode == 0, again.stderr
            assert again.stdout.count("received") == done.stdout.count("received")


@pytest.mark.parametrize("name", ["app", "faststream_shop"])
def test_the_example_has_a_test_that_needs_no_network(name: str) -> None:
    program = ROOT / "examples" / f"{name}.py"
    options = ["-q", "-p", "no:cacheprovider", "-c", os.devnull, "-o", "asyncio_mode=auto"]
    command = [sys.executable, "-m", "pytest", *options, str(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert "1 passed" in done.stdout, done.stdout
