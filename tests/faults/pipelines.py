"""Pipelines whose drivers, executors and workers are killed: nothing is lost, nothing comes twice, keys stay in order.

    python -m tests.faults.pipelines archive --messages 1000000 --kills 3
    python -m tests.faults.pipelines widen --messages 1000000 --kills 1 --worker-kills 2
    python -m tests.faults.pipelines widen --messages 300000 --kills 0 --executor-kills 3

A store is filled with a backlog of 4 queues and 10,000 keys, and a broker is started on it. `archive` archives it,
replays the archive into another topic, and compares that with the backlog; `widen` widens it to 16 queues. The commands
run in separate processes. When part of the work is done, a process is killed with `kill -9`: the driver with its JVM,
which is started again, one of its executors (then in separate JVMs), or one of the Python workers.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from pyromq.spark.read.brokers.broker_queues import connect
from tests.faults.backlog import Verdict, compare, fill, read_archive, read_topic
from tests.faults.campaign import Server
from tests.faults.spark_campaign import EXECUTOR, command_line, session_members

WIDE = "backlog-wide"
_PATIENCE = 900.0
_MASTER = ["--master", "local-cluster[2,1,1024]", "--conf", "spark.executor.memory=512m"]
"""Executors in separate processes."""
_DAEMON = b"pyspark.daemon"


class Kills(Struct, frozen=True, kw_only=True):
    """How many processes of each kind are killed in one run, and the random generator."""

    driver: int = 0
    executor: int = 0
    worker: int = 0
    seed: int = 0

    def plan(self, chance: random.Random) -> list[tuple[float, str]]:
        """Return which process is killed after which part of the work."""
        victims = ["driver"] * self.driver + ["executor"] * self.executor + ["worker"] * self.worker
        return sorted((chance.uniform(0.05, 0.9), victim) for victim in victims)


class Command:
    """`pyromq pipeline run …` in a separate process."""

    def __init__(self, arguments: list[str], log: Path) -> None:
        self._command = [sys.executable, "-m", "pyromq.cli.main", "pipeline", "run", *arguments, "--json"]
        self._log = log
        self.start()

    def start(self) -> None:
        """Start it, or start it again."""
        with self._log.open("a") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, start_new_session=True)

    def kill(self, victim: str) -> bool:
        """Kill one of its processes; return True if there was one."""
        if victim == "driver":
            os.killpg(self._process.pid, signal.SIGKILL)  # with its JVM; its workers notice and end
            self._process.wait()
            self.start()
            return True
        is_victim = _is_executor if victim == "executor" else _is_worker
        found = [pid for pid in session_members(self._process.pid) if is_victim(pid)]
        for pid in found[:1]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return bool(found)

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def finish(self) -> None:
        """Wait until it has ended, and check that it succeeded."""
        if self._process.wait(_PATIENCE):
            raise RuntimeError(f"the pipeline failed:\n{self._log.read_text()[-3000:]}")


def _is_executor(pid: int) -> bool:
    return EXECUTOR in command_line(pid)


def _is_worker(pid: int) -> bool:
    """Return True if a process is a worker: its parent is the daemon that forks workers."""
    try:
        parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return False
    return _DAEMON in command_line(pid) and _DAEMON in command_line(parent)


def run_through_kills(arguments: list[str], log: Path, done: Callable[[], float], kills: Kills) -> int:
    """Run a command to its end, with kills at random points of its progress; return the number of kills."""
    chance = random.Random(kills.seed)
    command, count = Command([*arguments, *(_MASTER if kills.executor else [])], log), 0
    for share, victim in kills.plan(chance):
        while command.running and done() < share:
            time.sleep(0.2)
        while command.running and not command.kill(victim):
            time.sleep(0.1)  # a killed process has no successor yet
        count += command.running
    command.finish()
    return count


def _arrived(namesrv: str, topic: str, messages: int) -> Callable[[], float]:
    def share() -> float:
        brokers = connect(namesrv)
        if topic not in brokers.topics([], f"{topic}"):
            return 0.0
        return sum(brokers.max_offsets(brokers.queues([topic])).values()) / messages

    return share


def archive(data: Path, messages: int, size: int, kills: Kills) -> Iterator[Verdict]:
    """Archive a backlog, replay the archive, and compare both with it; yield each result at once."""
    fill(data / "store", messages, size)
    before = read_topic(data / "store", "backlog")
    server = Server(data, data / "server.log", flush="ASYNC_FLUSH")
    try:
        to, log = data / "archive", data / "driver.log"
        batch = max(1, messages // 10)

        def archived() -> float:
            return len([path for path in to.glob("_checkpoint/commits/*") if path.name.isdigit()]) / 11

        given = ["archive", "-n", server.namesrv, "--topics", "backlog", "--to", str(to), "--batch", str(batch)]
        began = time.monotonic()
        first_kills = run_through_kills(given, log, archived, kills)
        first = compare(before, read_archive(to), in_queues=False)
        first.kills, first.seconds = first_kills, time.monotonic() - began
        yield first
        given = ["replay", "-n", server.namesrv, "--archive", str(to), "--to", "backlog-again"]
        began = time.monotonic()
        arrived = _arrived(server.namesrv, "backlog-again", messages)
        second_kills = run_through_kills(given, log, arrived, kills)
        second = compare(before, read_topic(data / "store", "backlog-again"), in_queues=True)
        second.kills, second.seconds = second_kills, time.monotonic() - began
        yield second
    finally:
        server.kill()


def widen(data: Path, messages: int, size: int, kills: Kills, batches: int = 10) -> list[Verdict]:
    """Widen a backlog and compare the wide topic with it."""
    fill(data / "store", messages, size)
    before = read_topic(data / "store", "backlog")
    server = Server(data, data / "server.log", flush="ASYNC_FLUSH")
    try:
        given = ["widen", "-n", server.namesrv, "--topic", "backlog", "--group", "behind", "--to", WIDE]
        given += ["--queues", "16", "--checkpoint", str(data / "checkpoint"), "--batch", str(messages // batches)]
        began = time.monotonic()
        count = run_through_kills(given, data / "driver.log", _arrived(server.namesrv, WIDE, messages), kills)
        verdict = compare(before, read_topic(data / "store", WIDE), in_queues=True)
        verdict.kills, verdict.seconds = count, time.monotonic() - began
        return [verdict]
    finally:
        server.kill()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pipeline", choices=["archive", "widen"])
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--kills", type=int, default=1, help="of drivers")
    parser.add_argument("--executor-kills", type=int, default=0)
    parser.add_argument("--worker-kills", type=int, default=0)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    kills = Kills(driver=options.kills, executor=options.executor_kills, worker=options.worker_kills, seed=options.seed)
    run: Callable[..., Iterable[Verdict]] = archive if options.pipeline == "archive" else widen
    good = True
    with tempfile.TemporaryDirectory(prefix="pyromq-pipelines-") as directory:
        for verdict in run(Path(directory), options.messages, options.size, kills):
            print(verdict, flush=True)
            good = good and verdict.good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
