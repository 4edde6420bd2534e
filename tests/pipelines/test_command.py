"""`pyromq pipeline run` in a separate process: with --follow, and stopped by a signal."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pyromq import Message, blocking
from pyromq.testing import LocalCluster

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]

PYROMQ = [sys.executable, "-m", "pyromq.cli.main"]


def test_a_followed_archive_stops_cleanly_at_a_signal_and_says_what_it_did(
    cluster: LocalCluster, producer: blocking.Producer, tmp_path: Path
) -> None:
    for number in range(10):
        producer.send(Message(topic="followed", body=b"%d" % number))
    arguments = ["-n", cluster.namesrv, "--topics", "followed", "--to", str(tmp_path / "a"), "--follow"]
    command = [*PYROMQ, "pipeline", "run", "archive", *arguments, "--every", "1 second", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            _wait_for(tmp_path / "a" / "_checkpoint" / "commits" / "1", process)
            process.send_signal(signal.SIGTERM)
            output, errors = process.communicate(timeout=120)
        finally:
            process.kill()
    assert process.returncode == 0, errors
    outcome = json.loads(output)
    assert (outcome["read"], outcome["written"]) == (10, 10)
    assert outcome["remarks"][0].startswith("Stopped after a batch")
    assert "stopping after the current batch" in errors
    assert "Traceback" not in errors


def _wait_for(path: Path, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 240
    while not path.exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, f"no {path}"
        time.sleep(0.05)
