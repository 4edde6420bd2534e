"""Pages and commands with many topics and groups: how long they take, and for how long they hold the event loop.

    python bench/scrape.py --topics 10000 --groups 1000 --each 10

A name server and a broker run in this process, on one loop; each group consumes so many topics, and messages wait in
half of them. Pages are made as for a scraper, and sent over HTTP; commands of `pyromq` run as processes. A timer of a
millisecond notes the longest CPU time of the loop's thread between two ticks: what another request would have had to
wait, on a machine that has nothing else to do. Wall-clock times are of this machine, with what else it has to do; CPU
times are those of the command's process and of the loop together.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import perf_counter, thread_time
from typing import NamedTuple

from pyromq.broker.config.broker_config import broker_config
from pyromq.broker.server import Broker
from pyromq.clock import SystemClock
from pyromq.console.monitoring.http_server import bind
from pyromq.console.monitoring.monitoring import Monitoring
from pyromq.namesrv.server import NameServer
from pyromq.protocol.bodies import TopicConfig
from pyromq.protocol.messages.record import Record, encode_host
from pyromq.remoting.collector import settle_memory
from pyromq.remoting.loop import run

QUEUES = 8
PERIOD = 0.001
PAGES = ("/metrics", "/groupz", "/topicz", "/varz")
COMMANDS = (
    ("topic", "list"),
    ("topic", "list", "--json"),
    ("group", "list"),
    ("group", "list", "--json"),
    ("top", "--once"),
    ("top", "--once", "--json"),
    ("check",),
)


class Turns:
    """Ticks on the loop, and notes the most CPU time of its thread between two ticks."""

    def __init__(self) -> None:
        self.longest = 0.0
        self._last = thread_time()
        self._is_over = False

    def take(self) -> None:
        """Note this tick, and ask for the next."""
        now = thread_time()
        self.longest, self._last = max(self.longest, now - self._last), now
        if not self._is_over:
            asyncio.get_running_loop().call_later(PERIOD, self.take)

    def stop(self) -> None:
        """Take no more."""
        self._is_over = True


def fill(broker: Broker, topics: int, groups: int, each: int) -> None:
    """Make topics with a message each, and groups that have consumed every other topic of theirs."""
    host = encode_host("127.0.0.1", 10911)
    for number in range(topics):
        name = f"topic-{number:06d}"
        broker.topics._put(TopicConfig(topic_name=name, read_queue_nums=QUEUES, write_queue_nums=QUEUES))
        broker.store.put(Record(topic=name, body=b"x", queue_id=number % QUEUES, properties=b"", store_host=host))
        if number % 500 == 0:
            broker.store.commit()
    broker.store.commit()
    for number in range(groups):
        group, first = f"group-{number:05d}", number * topics // groups
        broker.groups.find_or_create(group)
        for topic in range(first, first + each):
            topic %= topics
            broker.offsets.commit(group, f"topic-{topic:06d}", topic % QUEUES, (number + topic) % 2, "bench")


class Run(NamedTuple):
    """What one page or one command took."""

    wall: float
    size: int
    cpu: float = 0.0


def run_command(words: tuple[str, ...], namesrv: str) -> Run:
    """Run a command to its end; `check` exits with 1 or 2 here, because groups are behind."""
    began = perf_counter()
    command = [sys.executable, "-m", "pyromq.cli.main", *words, "-n", namesrv]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    size = len(process.stdout.read())
    _, status, usage = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status) not in ((0, 1, 2) if words[0] == "check" else (0,)):
        raise SystemExit(f"{' '.join(words)} failed")
    return Run(perf_counter() - began, size, usage.ru_utime + usage.ru_stime)


def fetch(url: str) -> Run:
    """Read a page to its end."""
    began = perf_counter()
    with urllib.request.urlopen(url, timeout=60) as answer:
        size = len(answer.read())
    return Run(perf_counter() - began, size)


async def measure(topics: int, groups: int, each: int, rounds: int) -> None:
    """Print one line for each page and each command."""
    with tempfile.TemporaryDirectory() as directory:
        clock = SystemClock()
        async with NameServer(host="127.0.0.1", port=0, clock=clock, data_dir=None) as server:
            namesrv = server.address
            values = {"listenPort": "0", "storePathRootDir": str(Path(directory) / "store"), "namesrvAddr": namesrv}
            async with (
                Broker(broker_config(values), clock) as broker,
                Monitoring(bind("127.0.0.1", 0), "127.0.0.1") as pages,
            ):
                fill(broker, topics, groups, each)
                pages.watched.run(server, [broker])
                await broker.topics.saver.finish()
                await broker.service.registration.register_everywhere()
                settle_memory()  # as the servers' commands do
                for page in PAGES:
                    await _measure(page, rounds, partial(fetch, pages.url + page))
                for words in COMMANDS:
                    await _measure("pyromq " + " ".join(words), rounds, partial(run_command, words, namesrv))
                pages.watched.stop()


async def _measure(name: str, rounds: int, one: Callable[[], Run]) -> None:
    await asyncio.to_thread(one)
    turns = Turns()
    turns.take()
    began = thread_time()
    runs = [await asyncio.to_thread(one) for _ in range(rounds)]
    cpu = max(run.cpu for run in runs) + (thread_time() - began) / rounds
    turns.stop()
    walls = [run.wall for run in runs]
    print(
        f"{name:25} {runs[0].size / 1e6:6.2f} MB  wall {min(walls):.2f} to {max(walls):.2f} s  CPU {cpu:.2f} s"
        f"  loop held for {turns.longest * 1000:.1f} ms of CPU time at most",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topics", type=int, default=10_000)
    parser.add_argument("--groups", type=int, default=1_000)
    parser.add_argument("--each", type=int, default=10, help="topics of a group")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    run(measure(given.topics, given.groups, given.each, given.rounds))


if __name__ == "__main__":
    main()
