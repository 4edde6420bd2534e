"""The console of a large cluster: time of every page and of a snapshot, and a producer's p99 with and without it.

    python -m bench.console [--topics 2000] [--groups 5000] [--browsers 100]

`pyromq up` runs as a process of its own, with its console in it. A producer sends one message after another in turns:
without the console open, and while so many browsers follow the overview.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import httpx

from pyromq import Message, Producer
from pyromq.admin import AdminClient
from pyromq.client.net.calls.admin_calls import AdminCalls
from pyromq.protocol.bodies import SubscriptionGroupConfig, TopicConfig

SECONDS = 8.0
PAGES = (
    "/", "/topics", "/topics?sort=-rate&page=7", "/topics?q=199", "/topics/topic-7", "/groups", "/groups?sort=-lag",
    "/groups?q=group-4&page=3", "/groups/group-7", "/search?q=12",
)  # fmt: skip


def percentile(times: Sequence[float], share: float) -> float:
    return sorted(times)[int(len(times) * share)] * 1000


async def make(namesrv: str, topics: int, groups: int) -> None:
    async with AdminClient(namesrv) as admin:
        calls, (address,) = AdminCalls(admin.api.remoting), (await admin.masters()).values()
        for number in range(topics):
            await calls.update_topic(
                address, TopicConfig(topic_name=f"topic-{number}", read_queue_nums=4, write_queue_nums=4)
            )
        for number in range(groups):
            await calls.update_group(address, SubscriptionGroupConfig(group_name=f"group-{number}"))


async def sends(producer: Producer, seconds: float) -> list[float]:
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end:
        began = time.perf_counter()
        await producer.send(Message(topic="topic-1", body=b"x" * 200))
        times.append(time.perf_counter() - began)
    return times


async def follow(client: httpx.AsyncClient, counts: list[int]) -> None:
    async with client.stream("GET", "/live?page=/", timeout=None) as stream:
        async for _ in stream.aiter_raw():
            counts[0] += 1


async def measure(namesrv: str, url: str, browsers: int) -> None:
    limits = httpx.Limits(max_connections=browsers + 10)
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(httpx.AsyncClient(base_url=url, timeout=60, limits=limits))
        producer = await stack.enter_async_context(Producer("bench", namesrv))
        await client.get("/")
        for path in PAGES:
            times = []
            for _ in range(5):
                began = time.perf_counter()
                answer = await client.get(path)
                times.append(time.perf_counter() - began)
                assert answer.status_code == 200, (path, answer.status_code)
            print(f"{path:28} worst of 5 {max(times) * 1000:7.0f} ms   {len(answer.content) // 1024:4} KB")
        for turn in range(2):
            quiet = await sends(producer, SECONDS)
            counts = [0]
            following = [asyncio.create_task(follow(client, counts)) for _ in range(browsers)]
            beside = await sends(producer, SECONDS)
            for task in following:
                task.cancel()
            await asyncio.gather(*following, return_exceptions=True)
            for name, times in (("nobody looks", quiet), (f"{browsers} browsers", beside)):
                print(
                    f"turn {turn} {name:14} {len(times) / SECONDS:7.0f} sends/s   p50 {percentile(times, 0.5):6.2f} ms"
                    f"   p99 {percentile(times, 0.99):6.2f} ms   worst {max(times) * 1000:6.1f} ms"
                )
            print(f"turn {turn} events sent to browsers: {counts[0]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topics", type=int, default=2000)
    parser.add_argument("--groups", type=int, default=5000)
    parser.add_argument("--browsers", type=int, default=100)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as data:
        ports = ("--namesrv-port", "0", "--port", "0", "--console-port", "0")
        command = [
            str(Path(sys.executable).with_name("pyromq")),
            "up",
            "--data",
            data,
            "--log-level",
            "warning",
            *ports,
        ]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            words = server.stdout.readline().split()
            namesrv, url = words[words.index("namesrv") + 1], words[words.index("console") + 1]
            try:
                asyncio.run(make(namesrv, given.topics, given.groups))
                asyncio.run(measure(namesrv, url, given.browsers))
            finally:
                server.terminate()


if __name__ == "__main__":
    main()
