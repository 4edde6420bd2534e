"""A scrape of /metrics with many topics and groups: how long it takes, and for how long it holds the event loop.

    python bench/scrape.py --topics 10000 --groups 1000 --each 10

A broker runs in this process, on its own loop; each group consumes so many topics, and messages wait in half of them.
The page is made as for a scraper, and sent over HTTP. A timer notes the longest CPU time of the loop's thread between
two of its turns: what another request would have had to wait, on a machine that has nothing else to do. Wall-clock
times are of this machine, on which the timer and the reader take their part.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import urllib.request
from pathlib import Path
from time import perf_counter, thread_time

from pyromq.broker.config.broker_config import broker_config
from pyromq.broker.server import Broker
from pyromq.clock import SystemClock
from pyromq.console.monitoring.http_server import bind
from pyromq.console.monitoring.monitoring import Monitoring
from pyromq.protocol.bodies import TopicConfig
from pyromq.protocol.messages.record import Record, encode_host
from pyromq.remoting.collector import settle_memory
from pyromq.remoting.loop import run

QUEUES = 8
PAGES = ("/metrics", "/groupz", "/topicz", "/varz")


class Turns:
    """Takes every turn of the loop that it can get, and notes the most CPU time between two of them."""

    def __init__(self) -> None:
        self.longest, self.count = 0.0, 0
        self._last = thread_time()
        self._is_over = False

    def take(self) -> None:
        """Take a turn, and ask for the next."""
        now = thread_time()
        self.longest, self._last = max(self.longest, now - self._last), now
        self.count += 1
        if not self._is_over:
            asyncio.get_running_loop().call_soon(self.take)

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


def fetch(url: str) -> int:
    with urllib.request.urlopen(url, timeout=60) as answer:
        return len(answer.read())


async def measure(topics: int, groups: int, each: int, rounds: int) -> None:
    """Print one line for each page."""
    with tempfile.TemporaryDirectory() as directory:
        values = {"listenPort": "0", "storePathRootDir": str(Path(directory) / "store")}
        async with (
            Broker(broker_config(values), SystemClock()) as broker,
            Monitoring(bind("127.0.0.1", 0), "127.0.0.1") as pages,
        ):
            fill(broker, topics, groups, each)
            pages.watched.run(None, [broker])
            await broker.topics.saver.finish()
            settle_memory()  # as the servers' commands do
            for page in PAGES:
                await _measure_page(pages.url + page, page, rounds)
            pages.watched.stop()


async def _measure_page(url: str, page: str, rounds: int) -> None:
    await asyncio.to_thread(fetch, url)
    times: list[float] = []
    turns = Turns()
    turns.take()
    for _ in range(rounds):
        began = perf_counter()
        size = await asyncio.to_thread(fetch, url)
        times.append(perf_counter() - began)
    turns.stop()
    print(
        f"{page:9} {size / 1e6:6.2f} MB  wall {min(times):.3f} to {max(times):.3f} s"
        f"  loop held for {turns.longest * 1000:.1f} ms of CPU time at most, {turns.count / rounds:.0f} turns"
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
