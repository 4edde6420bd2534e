"""The console of a large cluster: what its pages, its snapshots and its history cost, and what the broker notices.

    python -m bench.console [--topics 2000] [--groups 5000] [--members 100] [--browsers 100] [--idle 60]

`pyromq up` runs as a process of its own, with its console in it. Every topic has messages, every group has offsets in
all queues of a topic, every second one lags, and some groups have a member that consumes. Then, one after the other:

- every page, five times;
- snapshots and points of history, taken here with the console's own parts: time, and CPU on either side;
- so many seconds in which nobody looks: CPU of the console's thread, which records the history, and of the broker's;
- a producer that sends one message after another, in turns: alone, and while browsers follow the overview.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path

import httpx

from pyromq import Message, MessageExt, Producer, PushConsumer
from pyromq.admin import AdminClient
from pyromq.admin.masters import gather_limited
from pyromq.client.net.calls.admin_calls import AdminCalls
from pyromq.clock import SystemClock
from pyromq.console.reading.history import FigureHistory
from pyromq.console.reading.reader import SnapshotReader
from pyromq.console.reading.recorder import values
from pyromq.console.web.navigation import MENU
from pyromq.protocol.bodies import SubscriptionGroupConfig, TopicConfig
from pyromq.testing import eventually

SECONDS = 8.0
QUEUES, MESSAGES = 4, 12
PAGES = (
    *(entry.path for entry in MENU), "/topics?sort=-rate&page=7", "/topics?q=199", "/topics/topic-7",
    "/topics/topic-7/tail", "/topics/topic-7/settings", "/topics/topic-7/sample", "/groups?sort=-lag",
    "/groups?q=group-4&page=3", "/groups/group-7", "/messages?topic=topic-7", "/search?q=12",
)  # fmt: skip


def percentile(times: Sequence[float], share: float) -> float:
    return sorted(times)[int(len(times) * share)] * 1000


class Threads:
    """The CPU time of the threads of a process."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._console = ""

    def read(self) -> dict[str, float]:
        """Return seconds of CPU by thread."""
        found = {}
        for stat in Path(f"/proc/{self._pid}/task").glob("*/stat"):
            fields = stat.read_text().rpartition(")")[2].split()
            found[stat.parent.name] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        return found

    async def find_console(self, client: httpx.AsyncClient) -> None:
        """Find the console's thread: the one that makes pages."""
        before = self.read()
        for _ in range(40):
            await client.get("/topics")
        after = self.read()
        others = [thread for thread in after if thread != str(self._pid)]
        self._console = max(others, key=lambda thread: after[thread] - before.get(thread, 0.0))

    def split(self, before: dict[str, float]) -> tuple[float, float]:
        """Return the CPU since then: of the servers' thread, and of the console's."""
        after = self.read()
        return tuple(after[thread] - before[thread] for thread in (str(self._pid), self._console))  # type: ignore[return-value]


# --- the cluster


async def make(namesrv: str, topics: int, groups: int) -> None:
    """Create topics with messages, and groups with offsets."""
    async with AdminClient(namesrv) as admin, Producer("bench-filler", namesrv) as producer:
        calls, (address,) = AdminCalls(admin.api.remoting), (await admin.masters()).values()

        async def topic(number: int) -> None:
            name = f"topic-{number}"
            config = TopicConfig(topic_name=name, read_queue_nums=QUEUES, write_queue_nums=QUEUES)
            await calls.update_topic(address, config)

        async def fill(number: int) -> None:
            for _ in range(MESSAGES):  # one after the other, so that they spread over the queues
                await producer.send(Message(topic=f"topic-{number}", body=b'{"total": 7, "name": "ada"}', keys=["k"]))

        async def group(number: int) -> None:
            name, done = f"group-{number}", MESSAGES // QUEUES - number % 2
            await calls.update_group(address, SubscriptionGroupConfig(group_name=name))
            for queue in range(QUEUES):
                await admin.api.commit_offset(address, name, f"topic-{number % topics}", queue, done)

        for work, count in ((topic, topics), (fill, topics), (group, groups)):
            await gather_limited(range(count), work)


@asynccontextmanager
async def consuming(namesrv: str, members: int, topics: int) -> AsyncIterator[None]:
    """Have the first groups consume, with a member each."""

    async def listen(message: MessageExt) -> None:
        pass

    async with AsyncExitStack() as stack:
        for number in range(members):
            topic = {f"topic-{number % topics}": "*"}
            await stack.enter_async_context(PushConsumer(f"group-{number}", namesrv, topic, listen))
        yield


# --- measurements


async def time_pages(client: httpx.AsyncClient, groups: int, threads: Threads) -> None:
    slowest = most = 0.0
    for path in (*PAGES, f"/groups/group-{groups - 1}"):
        times, before = [], threads.read()
        for _ in range(5):
            began = time.perf_counter()
            answer = await client.get(path)
            times.append(time.perf_counter() - began)
            assert answer.status_code == 200, (path, answer.status_code)
        cpu = sum(threads.split(before)) / 5
        slowest, most = max(slowest, *times), max(most, cpu)
        middle, worst, size = statistics.median(times) * 1000, max(times) * 1000, len(answer.content) // 1024
        print(f"{path:28} median {middle:5.0f} ms   worst {worst:5.0f} ms   CPU {cpu * 1000:4.0f} ms   {size:4} KB")
    print(f"{'all pages':28} worst {slowest * 1000:.0f} ms, most CPU {most * 1000:.0f} ms")


async def cost_of_snapshots(namesrv: str, threads: Threads, data: Path) -> None:
    """Take snapshots as the console does, and record them."""
    async with AdminClient(namesrv) as admin:
        reader, history = SnapshotReader(lambda: admin, SystemClock()), FigureHistory(data / "history.bin")
        snapshot = await reader.get()
        before, own, walls = threads.read(), time.process_time(), []
        for _ in range(5):
            began = time.perf_counter()
            snapshot = await reader.get(-1)
            walls.append(time.perf_counter() - began)
        own, servers = (time.process_time() - own) / 5, threads.split(before)[0] / 5
        assert not snapshot.failure, snapshot.failure
        print(
            f"snapshot   {statistics.median(walls) * 1000:.0f} ms, worst {max(walls) * 1000:.0f}; "
            f"CPU {own * 1000:.0f} ms in the console, {servers * 1000:.0f} ms at the servers"
        )
        began = time.process_time()
        for step in range(20):
            history.add(snapshot.at + 10 * step, values(snapshot))
        adding, began = (time.process_time() - began) / 20, time.process_time()
        history.save()
        saving = time.process_time() - began
        size = (data / "history.bin").stat().st_size
        print(
            f"history    {len(history):,} series, {history.bytes / 1e6:.1f} MB in memory, {size / 1e6:.1f} MB on disk; "
            f"CPU {adding * 1000:.1f} ms for each moment, {saving * 1000:.0f} ms to save"
        )


async def idle(threads: Threads, seconds: float) -> None:
    before = threads.read()
    await asyncio.sleep(seconds)
    servers, console = (spent * 60 / seconds for spent in threads.split(before))
    print(
        f"nobody looks: CPU a minute: console {console:.2f} s, servers {servers:.2f} s (with their members' requests)"
    )


async def sends(producer: Producer, seconds: float) -> list[float]:
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end:
        began = time.perf_counter()
        await producer.send(Message(topic="topic-1", body=b"x" * 200))
        times.append(time.perf_counter() - began)
    return times


def browse(url: str, count: int, events: Synchronized[int]) -> None:
    """Follow the overview with so many browsers, in a process of their own, until it is ended."""

    async def one(client: httpx.AsyncClient) -> None:
        async with client.stream("GET", "/live?page=/", timeout=None) as stream:
            async for _ in stream.aiter_raw():
                events.value += 1

    async def all_of_them() -> None:
        async with httpx.AsyncClient(base_url=url, limits=httpx.Limits(max_connections=count)) as client:
            await asyncio.gather(*(one(client) for _ in range(count)))

    asyncio.run(all_of_them())


@asynccontextmanager
async def browsing(url: str, count: int) -> AsyncIterator[Callable[[], int]]:
    """Have browsers look; yields how many events came to them so far."""
    spawn = multiprocessing.get_context("spawn")
    events = spawn.Value("i", 0)
    looking = spawn.Process(target=browse, args=(url, count, events))
    if count:
        looking.start()
    try:
        await eventually(lambda: events.value >= count, seconds=60)  # each is greeted
        yield lambda: events.value
    finally:
        if count:
            looking.terminate()
            looking.join()


async def time_sends(namesrv: str, url: str, browsers: int, threads: Threads) -> None:
    async with Producer("bench", namesrv) as producer:
        await sends(producer, 1.0)
        for turn in range(3):
            for count in (0, 1, browsers):
                async with browsing(url, count) as events:
                    before, greeted = threads.read(), events()
                    times = await sends(producer, SECONDS)
                    console, came = threads.split(before)[1] / SECONDS, events() - greeted
                print(
                    f"turn {turn}  {count:3} browsers  {len(times) / SECONDS:6.0f} sends/s"
                    f"   p50 {percentile(times, 0.5):5.2f} ms   p99 {percentile(times, 0.99):5.2f} ms"
                    f"   worst {max(times) * 1000:5.1f} ms   console {console * 100:4.1f} % CPU   {came} events"
                )


async def measure(namesrv: str, url: str, given: argparse.Namespace, threads: Threads, data: Path) -> None:
    async with httpx.AsyncClient(base_url=url, timeout=60) as client:
        await client.get("/")
        await threads.find_console(client)
        await time_pages(client, given.groups, threads)
        await cost_of_snapshots(namesrv, threads, data)
        await idle(threads, given.idle)
        await time_sends(namesrv, url, given.browsers, threads)


async def with_members(namesrv: str, given: argparse.Namespace, work: Callable[[], Awaitable[None]]) -> None:
    await make(namesrv, given.topics, given.groups)
    async with consuming(namesrv, given.members, given.topics):
        print(
            f"{given.topics:,} topics, {given.groups:,} groups with offsets, {given.members} members, "
            f"{given.topics * MESSAGES:,} messages; {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
        )
        await work()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("topics", 2000), ("groups", 5000), ("members", 100), ("browsers", 100), ("idle", 60)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as data:
        ports = ("--namesrv-port", "0", "--port", "0", "--console-port", "0")
        program = str(Path(sys.executable).with_name("pyromq"))
        command = [program, "up", "--data", data, "--log-level", "warning", *ports]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            words = server.stdout.readline().split()
            namesrv, url = words[words.index("namesrv") + 1], words[words.index("console") + 1]
            threads = Threads(server.pid)
            try:
                asyncio.run(
                    with_members(namesrv, given, lambda: measure(namesrv, url, given, threads, Path(data, "bench")))
                )
            finally:
                server.terminate()


if __name__ == "__main__":
    main()
