"""A crowd at one broker: many topics, groups, connections and held pulls, and what a send costs among them.

    python bench/crowd.py                                            15,000 topics, 15,000 connections: ten minutes
    python bench/crowd.py --topics 1500 --groups 500 --connections 1500 --pulls 1000 --seconds 10
    PYTHONPATH=/other/checkout/src python bench/crowd.py --json FILE   the same of another version

Tables are written as files, then a broker opens them, and every queue gets a message. Clients connect, send heartbeats,
and hold a pull each. Then messages are sent at a fixed rate to random queues: first alone, then while topics are
created. Last, the broker is stopped, started, killed and started. A latency counts from the time at which its request
was due, so that a broker that stands still cannot hide it. A watch inside the broker notes the longest pass of its
event loop: `wall` is what clients feel, `cpu` is without what other processes took. All on loopback.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from crowd_clients import Crowd, fill, group_name, measure, topic_name

HERE = Path(__file__).parent
CLIENTS_A_PROCESS = 5000


class Server:
    """A server of `pyromq` with a watch on its loop; killed at the end of a `with` block."""

    def __init__(self, command: list[str], log: Path, *, blame: bool = False) -> None:
        begun = time.perf_counter()
        watch = [sys.executable, str(HERE / "loop_watch.py"), *(["--blame"] if blame else [])]
        with log.open("a") as errors:
            self.process = subprocess.Popen(
                [*watch, *command],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True,
            )  # fmt: skip
        found = re.search(r"ready: (\S+)", self._line())
        self.seconds = time.perf_counter() - begun
        if found is None:
            raise SystemExit(log.read_text()[-3000:])
        self.address = found[1]

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def loop(self) -> dict[str, Any]:
        """Return the figures of its loop since the last call."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        found: dict[str, Any] = json.loads(self._line().removeprefix("loop "))
        return found

    def memory(self) -> dict[str, int]:
        """Return the memory of the process in MiB: its own, and with maps of files."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return {
            name: int(found[1]) // 1024
            for name in ("RssAnon", "VmRSS")
            if (found := re.search(rf"{name}:\s+(\d+) kB", status))
        }

    def stop(self) -> float:
        """Stop it; return how long that took."""
        begun = time.perf_counter()
        self.process.terminate()
        self.process.wait(600)
        return time.perf_counter() - begun

    def kill(self) -> None:
        """Kill it."""
        self.process.kill()
        self.process.wait(60)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


def write_tables(root: Path, options: argparse.Namespace) -> None:
    """Write the tables of a broker that has these topics and groups, with offsets of every queue that is consumed."""
    config = root / "config"
    config.mkdir(parents=True)
    version = {"timestamp": int(time.time() * 1000), "counter": 1}
    names = {topic_name(number): options.queues for number in range(options.topics)}
    names |= {f"%RETRY%{group_name(number)}": 1 for number in range(options.groups)}
    topics = {
        name: {
            "order": False, "perm": 6, "readQueueNums": queues, "writeQueueNums": queues, "topicName": name,
            "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0,
        }
        for name, queues in names.items()
    }  # fmt: skip
    groups = {
        group_name(number): {
            "groupName": group_name(number), "brokerId": 0, "consumeEnable": True, "consumeBroadcastEnable": True,
            "consumeFromMinEnable": True, "notifyConsumerIdsChangedEnable": True, "retryMaxTimes": 16,
            "retryQueueNums": 1, "whichBrokerWhenConsumeSlowly": 1,
        }
        for number in range(options.groups)
    }  # fmt: skip
    offsets = {
        f"{topic_name(number % options.topics)}@{group_name(number)}": dict.fromkeys(map(str, range(options.queues)), 1)
        for number in range(options.groups)
    }
    for name, table in (
        ("topics.json", {"topicConfigTable": topics, "dataVersion": version}),
        ("subscriptionGroup.json", {"subscriptionGroupTable": groups, "dataVersion": version}),
        ("consumerOffset.json", {"offsetTable": offsets}),
    ):
        (config / name).write_text(json.dumps(table))


class Clients:
    """The processes of the crowd."""

    def __init__(self, address: str, options: argparse.Namespace) -> None:
        shares = [
            (first, min(first + CLIENTS_A_PROCESS, options.connections))
            for first in range(0, options.connections, CLIENTS_A_PROCESS)
        ]
        shared = {"address": address, "pulls": options.pulls, "groups": options.groups, "topics": options.topics}
        shared |= {"queues": options.queues, "depth": 1, "rate": options.connect_rate / len(shares)}
        self._processes = [
            subprocess.Popen(
                [sys.executable, __file__, "--crowd", json.dumps(shared | {"first": first, "last": last})],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
            )
            for first, last in shares
        ]  # fmt: skip

    def counts(self) -> dict[str, int]:
        """Return the sums over all processes; the first call waits until all are connected."""
        found = []
        for process in self._processes:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write("\n")
            process.stdin.flush()
            found.append(json.loads(process.stdout.readline()))
        return {name: sum(one[name] for one in found) for name in found[0]}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.kill()
            process.wait(60)


async def be_a_crowd(options: dict[str, Any]) -> None:
    """Be one process of the crowd: print counts for each line on stdin, once all are connected."""
    crowd = Crowd(options)
    loop = asyncio.get_running_loop()
    asked = asyncio.Semaphore(0)

    def read_line() -> None:
        if sys.stdin.readline():
            asked.release()

    loop.add_reader(sys.stdin, read_line)
    joined = asyncio.Event()
    task = asyncio.create_task(crowd.run(lambda _: joined.set()))
    while not task.done():
        await asked.acquire()
        await joined.wait()
        print(json.dumps(crowd.counts()), flush=True)


class Report:
    """The figures, printed as they come."""

    def __init__(self) -> None:
        self.figures: dict[str, Any] = {}

    def add(self, what: str, figures: dict[str, Any], loop: dict[str, Any] | None = None) -> None:
        """Keep and print the figures of one phase, and of the broker's loop during it."""
        blamed = loop.pop("blamed", []) if loop else []
        self.figures[what] = figures | ({"loop": loop} if loop else {})
        text = ", ".join(f"{name} {value}" for name, value in figures.items())
        if loop:
            text += f"; longest pass {loop['wall_ms']} ms wall, {loop['cpu_ms']} ms cpu"
            text += f", over 50 ms: {loop['over_50_ms']} wall, {loop['over_50_ms_cpu']} cpu"
        print(f"{what}: {text}", flush=True)
        for place, count in blamed:
            print(f"    {count:>5}  {place}", flush=True)


def run(options: argparse.Namespace, directory: Path) -> dict[str, Any]:
    """Make all phases; return their figures."""
    report = Report()
    data = directory / "data"
    write_tables(data / "store", options)
    log = directory / "broker.log"
    with ExitStack() as stack:
        namesrv = stack.enter_context(Server(["namesrv", "--port", "0"], directory / "namesrv.log"))
        command = ["broker", "--data", str(data), "-n", namesrv.address, "--port", "0"]
        command += [word for text in options.set for word in ("--set", text)]

        def start() -> Server:
            return stack.enter_context(Server(command, log, blame=options.blame))

        broker = start()
        report.add("first start", {"seconds": round(broker.seconds, 2), **broker.memory()})
        time.sleep(0.5)
        broker.loop()  # a pass of the start is over: nobody was served yet
        seconds = asyncio.run(fill(broker.address, options.topics, options.queues))
        report.add("a message for each queue", {"seconds": round(seconds, 1), **broker.memory()}, broker.loop())
        with Clients(broker.address, options) as clients:
            report.add("connect", clients.counts() | broker.memory(), broker.loop())
            time.sleep(options.settle)
            broker.loop()
            _measure(report, broker, namesrv, options)
            report.add("crowd", clients.counts() | broker.memory())
            if options.stop_in_crowd:
                report.add("stop among clients", {"seconds": round(broker.stop(), 2)})
        if broker.process.poll() is None:
            report.add("stop", {"seconds": round(broker.stop(), 2)})
        broker = start()
        report.add("start after a stop", {"seconds": round(broker.seconds, 2), **broker.memory()})
        asyncio.run(_send_alone(broker, options, 2.0))
        broker.kill()
        broker = start()
        report.add("start after a kill", {"seconds": round(broker.seconds, 2), **broker.memory()})
        broker.stop()
    return report.figures


def _measure(report: Report, broker: Server, namesrv: Server, options: argparse.Namespace) -> None:
    for what, creations in (("sends", 0.0), ("sends while topics are created", options.creations)):
        namesrv.loop()
        found = asyncio.run(_phase(broker, options, creations))
        loop = broker.loop()
        report.add(what, found["sends"], loop)
        if creations:
            report.add("topics created", found["creations"])
        report.add(f"{what}: name server", {}, namesrv.loop())


async def _phase(broker: Server, options: argparse.Namespace, creations: float) -> dict[str, dict[str, float]]:
    return await measure(
        broker.address,
        topics=options.topics, queues=options.queues, rate=options.rate, seconds=options.seconds,
        creations=creations, first_new=0,
    )  # fmt: skip


async def _send_alone(broker: Server, options: argparse.Namespace, seconds: float) -> None:
    await measure(
        broker.address,
        topics=options.topics, queues=options.queues, rate=options.rate, seconds=seconds, creations=0.0, first_new=0,
    )  # fmt: skip


def main() -> None:
    if sys.argv[1:2] == ["--crowd"]:
        asyncio.run(be_a_crowd(json.loads(sys.argv[2])))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topics", type=int, default=15_000)
    parser.add_argument("--queues", type=int, default=8, help="of each topic")
    parser.add_argument("--groups", type=int, default=5_000)
    parser.add_argument("--connections", type=int, default=15_000)
    parser.add_argument("--pulls", type=int, default=10_000, help="held, one for each of the first connections")
    parser.add_argument("--connect-rate", type=float, default=1_000, help="connections opened in a second")
    parser.add_argument("--rate", type=float, default=500, help="messages sent in a second")
    parser.add_argument("--creations", type=float, default=4, help="topics created in a second, in their phase")
    parser.add_argument("--seconds", type=float, default=40, help="of each of the two phases")
    parser.add_argument("--settle", type=float, default=5, help="seconds to wait before the first phase")
    parser.add_argument("--set", action="append", default=[], help="a broker setting, key=value")
    parser.add_argument("--directory", type=Path, help="for the data; it must not exist (default: a temporary one)")
    parser.add_argument("--blame", action="store_true", help="name the code that takes long; this costs time itself")
    parser.add_argument("--stop-in-crowd", action="store_true", help="stop the broker while all are connected")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    with tempfile.TemporaryDirectory(prefix="pyromq-crowd-") as temporary:
        figures = run(options, options.directory or Path(temporary))
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
