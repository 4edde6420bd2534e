"""Many topics with one queue each: how long a broker takes to create, open and recover them, and what they cost.

    python bench/many_topics.py --topics 10000

Times depend on the machine; memory, open files and disk are the broker's own.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple, Self

from pyromq import Message, Producer
from pyromq.client.net.calls.broker_api import BrokerApi


class Cost(NamedTuple):
    """The resources that a broker process uses."""

    anonymous_mib: float
    open_files: int
    maps: int

    def __str__(self) -> str:
        return f"{self.anonymous_mib:.0f} MiB of memory, {self.open_files} open files, {self.maps} maps of store files"


class Server:
    """`pyromq up` on a directory, in a separate process; killed at the end of a `with` block."""

    def __init__(self, data: Path) -> None:
        begun = time.perf_counter()
        ports = ["--namesrv-port", "0", "--port", "0", "--console-port", "0"]
        # Creating a topic waits for the disk, and so do the requests behind it; here that is allowed.
        patient = ["--set", "brokerFastFailureEnable=false"]
        command = [sys.executable, "-m", "pyromq.cli.main", "up", "--data", str(data), *ports, *patient]
        with (data.parent / "server.log").open("a") as log:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self._process.stdout is not None
        found = re.search(r"namesrv (\S+) broker (\S+)", self._process.stdout.readline())
        if found is None:
            raise SystemExit((data.parent / "server.log").read_text()[-3000:])
        self.namesrv, self.address = found[1], found[2]
        self.start_seconds = time.perf_counter() - begun

    def cost(self) -> Cost:
        """Return what the process uses now."""
        process = Path(f"/proc/{self._process.pid}")
        status = re.search(r"RssAnon:\s+(\d+) kB", (process / "status").read_text())
        maps = [line for line in (process / "maps").read_text().splitlines() if "/store/" in line]
        return Cost(int(status[1]) / 1024 if status else 0.0, len(list((process / "fd").iterdir())), len(maps))

    def stop(self) -> float:
        """Stop it; return how long that took."""
        begun = time.perf_counter()
        self._process.terminate()
        self._process.wait(300)
        return time.perf_counter() - begun

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait(300)


def name(number: int) -> str:
    return f"topic-{number:06d}"


async def send(namesrv: str, numbers: range, round_number: int, together: int) -> float:
    """Send one message to each topic, some at a time; return the seconds it took."""
    waiting = iter(numbers)
    begun = time.perf_counter()
    async with Producer(group="many", namesrv=namesrv, topic_queues=1, send_timeout=60) as producer:

        async def work() -> None:
            for number in waiting:
                await producer.send(Message(topic=name(number), body=b"%d" % round_number))

        await asyncio.gather(*(work() for _ in range(together)))
    return time.perf_counter() - begun


async def check(server: Server, numbers: range, expected: int) -> None:
    """Check that every queue has as many messages as were sent to it."""
    async with await BrokerApi.connect(server.namesrv) as api:
        for number in numbers:
            found = await api.max_offset(server.address, name(number), 0)
            if found != expected:
                raise SystemExit(f"{name(number)} has {found} messages and not {expected}")


def disk_mib(root: Path) -> float:
    """Return the disk space of the files, without holes."""
    return sum(path.stat().st_blocks for path in root.rglob("*")) * 512 / (1 << 20)


def run(topics: int, together: int = 200) -> dict[str, object]:
    """Create the topics, restart twice, and return all figures."""
    figures: dict[str, object] = {}
    with tempfile.TemporaryDirectory(prefix="pyromq-topics-") as directory:
        data = Path(directory) / "data"
        with Server(data) as server:
            figures["start, empty, s"] = round(server.start_seconds, 2)
            figures["empty"] = server.cost()
            for number, what in enumerate(("first", "second")):
                seconds = asyncio.run(send(server.namesrv, range(topics), number, together))
                figures[f"{what} message of each topic, s"] = round(seconds, 1)
            figures["full"] = server.cost()
            figures["disk, MiB"] = round(disk_mib(data / "store"))
            figures["stop, s"] = round(server.stop(), 2)
        for number, how in enumerate(("after a clean stop", "after kill -9")):
            with Server(data) as server:
                figures[f"start {how}, s"] = round(server.start_seconds, 2)
                asyncio.run(check(server, range(topics), 2 + number))
                asyncio.run(send(server.namesrv, range(topics), 2 + number, together))
                figures[f"memory {how}"] = server.cost()
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topics", type=int, default=10_000)
    options = parser.parse_args()
    print(f"{options.topics} topics with one queue each")
    for what, figure in run(options.topics).items():
        print(f"{what:<34} {figure}")


if __name__ == "__main__":
    main()
