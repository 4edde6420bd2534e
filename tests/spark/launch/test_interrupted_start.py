"""Ctrl-C while Spark starts."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from pyromq.spark.launch import interrupted_start
from pyromq.spark.launch.interrupted_start import no_jvm_left_behind

SLEEPER = [sys.executable, "-c", "import time; time.sleep(60)"]
JVM = [*SLEEPER, "org.apache.spark.deploy.SparkSubmit"]


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[bytes]]]:
    started: list[subprocess.Popen[bytes]] = []
    yield started
    for process in started:
        process.kill()
        process.wait()


def interrupted_after(*commands: list[str]) -> list[subprocess.Popen[bytes]]:
    started = []

    def start() -> None:
        with no_jvm_left_behind():
            started.extend([subprocess.Popen(command) for command in commands])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        start()
    return started


def test_a_jvm_that_has_not_reported_itself_is_ended(
    monkeypatch: pytest.MonkeyPatch, processes: list[subprocess.Popen[bytes]]
) -> None:
    monkeypatch.setattr(interrupted_start, "_has_gateway", lambda: False)
    processes += [subprocess.Popen(JVM), *interrupted_after(JVM, SLEEPER)]
    earlier, jvm, other = processes
    assert jvm.wait(30) == -9
    assert (earlier.poll(), other.poll()) == (None, None), "only what was started here, and only Spark"


def test_a_jvm_that_pyspark_knows_may_be_used_again(
    monkeypatch: pytest.MonkeyPatch, processes: list[subprocess.Popen[bytes]]
) -> None:
    monkeypatch.setattr(interrupted_start, "_has_gateway", lambda: True)
    processes += interrupted_after(JVM)
    assert processes[0].poll() is None
