"""`pyromq run --workers`: signals and kills under load."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from pyromq import blocking
from pyromq.testing import LocalCluster, wait_until

PROGRAM = """
import os, time
from pathlib import Path
from pyromq import App

app = App("orders-app")
log = os.open("log", os.O_CREAT | os.O_APPEND | os.O_WRONLY)

def note(word: str, number: int) -> None:
    os.write(log, f"{word} {number} {os.getpid()}\\n".encode())

@app.on("orders", group="workers", start_from="earliest", concurrency=4)
def handle(order: dict) -> None:
    note("begin", order["number"])
    time.sleep(0.02)
    note("end", order["number"])

@app.on_shutdown
def stop() -> None:
    note("stop", 0)
"""


class Line(NamedTuple):
    word: str
    number: int
    pid: int


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "service.py").write_text(PROGRAM)
    return tmp_path


def lines(directory: Path, word: str) -> list[Line]:
    log = directory / "log"
    found = [line.split() for line in log.read_text().splitlines()] if log.exists() else []
    return [Line(kind, int(number), int(pid)) for kind, number, pid in found if kind == word]


@contextmanager
def running(directory: Path, namesrv: str, *options: str) -> Iterator[subprocess.Popen[str]]:
    environment = {**os.environ, "NAMESRV_ADDR": namesrv}
    command = [sys.executable, "-m", "pyromq.cli.main", "run", "service:app", *options]
    with (directory / "out").open("a") as out:
        process = subprocess.Popen(command, cwd=directory, env=environment, stdout=out, stderr=out, text=True)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.wait(60)


def send(cluster: LocalCluster, first: int, count: int) -> None:
    with blocking.Producer("test", cluster.namesrv, topic_queues=8) as producer:
        messages = [producer.message("orders", {"number": number}) for number in range(first, first + count)]
        for start in range(0, count, 8):  # small batches, so that all queues get some
            producer.send_batch(messages[start : start + 8])


def waits(directory: Path, condition: Callable[[], object]) -> None:
    try:
        wait_until(condition, seconds=90)
    except TimeoutError:
        raise AssertionError((directory / "out").read_text()) from None


def is_ready(directory: Path, workers: int) -> Callable[[], bool]:
    return lambda: (directory / "out").read_text().count("PyroMQ app ready") >= workers


def test_sigterm_in_the_middle_of_messages_loses_and_repeats_nothing(directory: Path) -> None:
    with LocalCluster(settings={"defaultTopicQueueNums": 8}) as cluster:
        send(cluster, 0, 400)
        with running(directory, cluster.namesrv, "--workers", "4") as process:
            waits(directory, is_ready(directory, 4))
            waits(directory, lambda: len(lines(directory, "end")) > 60)
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0, (directory / "out").read_text()
        begun, ended = lines(directory, "begin"), lines(directory, "end")
        assert len(ended) < 400, "it ended in the middle"
        assert Counter(line.number for line in begun) == Counter(line.number for line in ended)
        assert len(lines(directory, "stop")) == 4
        with running(directory, cluster.namesrv) as process:  # one process takes the rest
            waits(directory, lambda: len(lines(directory, "end")) >= 400)
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 0, (directory / "out").read_text()
    assert Counter(line.number for line in lines(directory, "end")) == Counter(range(400))


def test_a_killed_worker_is_replaced_and_only_what_it_had_comes_again(directory: Path) -> None:
    with LocalCluster(settings={"defaultTopicQueueNums": 8}) as cluster:
        send(cluster, 0, 300)
        with running(directory, cluster.namesrv, "--workers", "2") as process:
            waits(directory, is_ready(directory, 2))
            waits(directory, lambda: len({line.pid for line in lines(directory, "end")}) == 2)
            victim = lines(directory, "end")[-1].pid
            os.kill(victim, signal.SIGKILL)
            waits(directory, is_ready(directory, 3))
            waits(directory, lambda: {line.number for line in lines(directory, "end")} == set(range(300)))
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0, (directory / "out").read_text()
    had = {line.number for line in lines(directory, "begin") if line.pid == victim}
    times = Counter(line.number for line in lines(directory, "begin"))
    assert {number for number, count in times.items() if count > 1} <= had
    assert max(times.values()) == 2


def test_what_cannot_start_says_why_in_one_line(directory: Path) -> None:
    command = [sys.executable, "-m", "pyromq.cli.main", "run", "service:app", "--workers", "2", "-n", "127.0.0.1:1"]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1, done.stderr
    assert "pyromq: worker 1: no name server answers: 127.0.0.1:1 " in done.stderr
    assert "Traceback" not in done.stderr


def test_a_changed_file_is_loaded_again(directory: Path) -> None:
    with LocalCluster() as cluster, running(directory, cluster.namesrv, "--reload"):
        waits(directory, is_ready(directory, 1))
        time.sleep(0.01)  # another time stamp
        (directory / "service.py").write_text("1 / 0")
        waits(directory, lambda: "ZeroDivisionError" in (directory / "out").read_text())
        (directory / "service.py").write_text(PROGRAM)
        waits(directory, is_ready(directory, 2))
    assert len(lines(directory, "stop")) == 2
