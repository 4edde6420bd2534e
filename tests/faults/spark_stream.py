"""A long stream into Parquet while brokers restart, the driver is killed and the topic grows: every message once.

python -m tests.faults.spark_stream --minutes 30
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from msgspec import Struct

from pyromq import Message, Producer
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.protocol.messages.message import MessageQueue
from tests.faults.campaign import Server, digest, free_ports, read_everything
from tests.faults.spark_campaign import KEYS, Driver, Row, Sent, disordered, produce, read_parquet, wait_until
from tests.faults.spark_driver import Job

TOPIC, BROKER, QUEUES = "steady", "broker-a", 4


class Verdict(Struct, kw_only=True):
    """The final contents of the files, compared with the topic and with the acknowledgements."""

    seconds: float
    acknowledged: int
    unknown: int
    """Sends without an answer: they may be in the topic or not, but the files must agree with it."""
    stored: int
    rows: int
    doubled: int
    missing: int
    """Messages that are in the topic and not in the files."""
    strange: int
    """Rows that differ from the topic."""
    lost: int
    """Acknowledged messages that the topic does not have."""
    disordered: int
    queues: int
    batches: int
    driver_starts: int
    longest_silence: float
    """The longest time in seconds without a finished micro-batch."""

    @property
    def good(self) -> bool:
        wrong = self.doubled or self.missing or self.strange or self.lost or self.disordered
        return not wrong and self.rows == self.stored >= self.acknowledged and self.queues == QUEUES + 1

    def __str__(self) -> str:
        return (
            f"{self.seconds:.0f} s: {self.acknowledged} acknowledged, {self.unknown} unknown, {self.stored} stored in "
            f"{self.queues} queues; {self.rows} rows in {self.batches} batches by {self.driver_starts} drivers: "
            f"doubled {self.doubled}, missing {self.missing}, strange {self.strange}, lost {self.lost}, "
            f"out of order {self.disordered}; longest time without a batch {self.longest_silence:.1f} s"
        )


class Campaign:
    """One run: a server, a producer, a driver, and what happens to them."""

    def __init__(self, directory: Path, rate: float, every: str) -> None:
        self._data, self._log = directory / "data", directory / "server.log"
        self._rate = rate
        self._ports = free_ports()
        self._server = self._new_server()
        self._sent = Sent()
        self._done = [time.monotonic()]
        job = Job(namesrv=self._server.namesrv, source=TOPIC, directory=str(directory / "stream"), every=every)
        self._driver = Driver(job)
        self._rows = Path(job.directory) / "rows"

    def _new_server(self) -> Server:
        return Server(self._data, self._log, flush="ASYNC_FLUSH", ports=self._ports)

    async def run(self, seconds: float) -> Verdict:
        """Stream for this long while everything possible happens, and check the result."""
        stop, started = asyncio.Event(), time.monotonic()
        await self._set_queues(QUEUES)
        with self._driver:
            sending = asyncio.create_task(produce(self._server.namesrv, TOPIC, self._rate, self._sent, stop))
            watching = asyncio.create_task(self._watch())
            await self._until_batch(2)
            try:
                await self._events(seconds - (time.monotonic() - started))
                stop.set()
                await sending
                await self._until_all_is_done()
            except (RuntimeError, TimeoutError):
                _say(self._driver.last_words())
                raise
            watching.cancel()
        return await self._judge(time.monotonic() - started)

    async def _events(self, seconds: float) -> None:
        """Let things happen at equal intervals."""
        events: list[tuple[str, Callable[[], Awaitable[None]]]] = [
            ("broker restarted", partial(self._restart, signal.SIGTERM)),
            ("driver killed", self._kill_driver),
            ("a queue more", self._grow),
            ("broker killed and restarted", partial(self._restart, signal.SIGKILL)),
        ]
        for name, happen in events:
            await asyncio.sleep(max(0.0, seconds) / (len(events) + 1))
            _say(f"{name}: {len(self._sent.acknowledged)} sent, {self._driver.batches('commits')} batches done")
            await happen()
            await self._until_batch(self._driver.batches("commits") + 2)
        await asyncio.sleep(max(0.0, seconds) / (len(events) + 1))

    async def _restart(self, how: signal.Signals) -> None:
        await asyncio.to_thread(self._server.end, how)
        self._server = await asyncio.to_thread(self._new_server)

    async def _kill_driver(self) -> None:
        await asyncio.to_thread(self._driver.kill)
        self._driver.start()

    async def _set_queues(self, queues: int) -> None:
        async with await BrokerApi.connect(self._server.namesrv) as api:
            info = await api.cluster_info()
            address = next(iter(info.broker_addr_table.values())).broker_addrs[0]
            await api.create_topic(address, TOPIC, queues=queues)

    async def _grow(self) -> None:
        """Add a queue and send its first message: the producer finds it only half a minute later."""
        await self._set_queues(QUEUES + 1)
        first = b"%d 0" % KEYS
        async with Producer(group="growing", namesrv=self._server.namesrv) as producer:
            await producer.send(Message(topic=TOPIC, body=first), queue=MessageQueue(TOPIC, BROKER, QUEUES))
        self._sent.acknowledged.add(first)

    async def _watch(self) -> None:
        """Record when micro-batches finish."""
        seen = 0
        while True:
            done = self._driver.batches("commits")
            if done > seen:
                seen = done
                self._done.append(time.monotonic())
            await asyncio.sleep(0.2)

    async def _until_batch(self, number: int) -> None:
        def is_done() -> bool:
            if self._driver.ended():
                raise RuntimeError("the driver ended by itself")
            return self._driver.batches("commits") >= number

        await asyncio.to_thread(wait_until, is_done, f"batch {number} is done")

    async def _until_all_is_done(self) -> None:
        async with await BrokerApi.connect(self._server.namesrv) as api:
            route = await api.route(TOPIC)
            address = route.broker_datas[0].broker_addrs[0]
            queues = range(route.queue_datas[0].read_queue_nums)
            ends = {queue: await api.max_offset(address, TOPIC, queue) for queue in queues}
        await asyncio.to_thread(wait_until, lambda: self._driver.offsets(TOPIC) == ends, f"all is done up to {ends}")

    async def _judge(self, seconds: float) -> Verdict:
        found, _ = await read_everything(self._server.namesrv, {TOPIC})
        await asyncio.to_thread(self._server.end, signal.SIGTERM)
        stored = {(queue_id, offset): value for (_, queue_id, offset), value in found.items()}
        rows = list(read_parquet(self._rows))
        places = Counter((row.queue_id, row.queue_offset) for row in rows)
        bodies = {digest(row.body) for row in rows}
        return Verdict(
            seconds=seconds,
            acknowledged=len(self._sent.acknowledged),
            unknown=len(self._sent.unknown),
            stored=len(stored),
            rows=len(rows),
            doubled=sum(count - 1 for count in places.values()),
            missing=len(stored.keys() - places.keys()),
            strange=sum(_is_strange(row, stored) for row in rows),
            lost=sum(digest(body) not in bodies for body in self._sent.acknowledged),
            disordered=disordered(rows),
            queues=len({queue_id for queue_id, _ in places}),
            batches=self._driver.batches("commits"),
            driver_starts=self._driver.starts,
            longest_silence=max(after - before for before, after in zip(self._done, self._done[1:], strict=False)),
        )


def _is_strange(row: Row, stored: dict[tuple[int, int], bytes]) -> bool:
    return stored.get((row.queue_id, row.queue_offset)) != digest(row.body)


def _say(text: str) -> None:
    print(time.strftime("%H:%M:%S"), text, flush=True)


def campaign(seconds: float, *, rate: float = 500.0, every: str = "0 seconds") -> Verdict:
    """Run once, in a separate directory."""
    with tempfile.TemporaryDirectory(prefix="pyromq-stream-") as directory:
        return asyncio.run(Campaign(Path(directory), rate, every).run(seconds))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--rate", type=float, default=500.0, help="messages a second")
    parser.add_argument("--every", default="5 seconds", help="time from one micro-batch to the next")
    options = parser.parse_args()
    logging.disable()  # clients log that their broker is gone
    verdict = campaign(60 * options.minutes, rate=options.rate, every=options.every)
    _say(str(verdict))
    return 0 if verdict.good else 1


if __name__ == "__main__":
    sys.exit(main())
