"""Drivers and executors are killed at random while a stream writes files or a topic: nothing is lost.

Parquet has every message once. A topic has it at least once, with the same id each time; without the copies it has
every message once, and those of one key in order.

python -m tests.faults.spark_kills --kills 20
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import random
import signal
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from pyromq.client.net.calls.answers import PullStatus
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.protocol.messages.record import decode_messages
from tests.faults.campaign import Server, pull_header
from tests.faults.spark_campaign import Driver, Row, Sent, disordered, produce, read_parquet, wait_until
from tests.faults.spark_driver import Job

SOURCE, TARGET = "steady", "copies"
MASTER = "local-cluster[2,1,1024]"  # executors in separate processes, and tasks that are retried


class Verdict(Struct, kw_only=True):
    """What was written, without recognizable copies."""

    into: str
    seconds: float
    kills: dict[str, int]
    acknowledged: int
    written: int
    copies: int
    """The number of messages beyond the number of ids."""
    lost: int
    doubled: int
    disordered: int
    batches: int

    @property
    def good(self) -> bool:
        """True if every message is there once, and files hold no copies at all."""
        wrong = self.lost or self.doubled or self.disordered or (self.copies and self.into == "files")
        return not wrong and self.acknowledged > 0

    def __str__(self) -> str:
        kills = ", ".join(f"{count} {victim}s" for victim, count in self.kills.items())
        return (
            f"into {self.into}: {self.seconds:.0f} s, killed {kills}; {self.acknowledged} acknowledged, {self.written} "
            f"written in {self.batches} batches, {self.copies} copies: lost {self.lost}, doubled {self.doubled}, "
            f"out of order {self.disordered}"
        )


class Campaign:
    """One run of kills on one kind of sink."""

    def __init__(self, directory: Path, into: str, rate: float, chance: random.Random) -> None:
        self._server = Server(directory / "data", directory / "server.log", flush="ASYNC_FLUSH")
        self._into = into
        self._rate = rate
        self._chance = chance
        self._sent = Sent()
        self._kills = {"driver": 0, "executor": 0}
        self._job = Job(
            namesrv=self._server.namesrv,
            source=SOURCE,
            target=TARGET if into == "topic" else "",
            directory=str(directory / "stream"),
            master=MASTER,
            most=2000,
            pace=500,  # slow enough to be killed during a batch
        )
        self._driver = Driver(self._job)

    async def run(self, victims: list[str]) -> Verdict:
        """Kill these, one after the other, and check what was written."""
        stop, started = asyncio.Event(), time.monotonic()
        await self._make_topics()
        try:
            with self._driver:
                sending = asyncio.create_task(produce(self._server.namesrv, SOURCE, self._rate, self._sent, stop))
                for victim in victims:
                    await asyncio.to_thread(self._kill, victim)
                await asyncio.to_thread(self._await_progress)
                stop.set()
                await sending
                await self._finish()
            return await self._judge(time.monotonic() - started)
        finally:
            self._server.kill()

    async def _make_topics(self) -> None:
        async with await BrokerApi.connect(self._server.namesrv) as api:
            info = await api.cluster_info()
            self._broker = next(iter(info.broker_addr_table.values())).broker_addrs[0]
            for topic in (SOURCE, TARGET):
                await api.create_topic(self._broker, topic, queues=4)

    def _kill(self, victim: str) -> None:
        self._await_progress()
        wait_until(lambda: self._driver.batches("offsets") > self._driver.batches("commits"), "a batch is under way")
        time.sleep(self._chance.uniform(0, 1.0))  # anywhere in this batch or the next one
        if victim == "executor" and (executors := self._driver.executors()):
            with suppress(ProcessLookupError):
                os.kill(self._chance.choice(executors), signal.SIGKILL)
        else:
            victim = "driver"
            self._driver.kill()
            self._driver.start()
        self._kills[victim] += 1

    def _await_progress(self) -> None:
        """Wait for another micro-batch; restart a driver that gave up, as an operator would."""
        before = self._driver.batches("commits")

        def has_progress() -> bool:
            if self._driver.ended():
                self._driver.start()
            return self._driver.batches("commits") > before

        wait_until(has_progress, f"batch {before} is done")

    async def _finish(self) -> None:
        async with await BrokerApi.connect(self._server.namesrv) as api:
            ends = {queue: await api.max_offset(self._broker, SOURCE, queue) for queue in range(4)}

        def is_done() -> bool:
            if self._driver.ended():
                self._driver.start()
            return self._driver.offsets(SOURCE) == ends

        await asyncio.to_thread(wait_until, is_done, f"all is done up to {ends}")

    async def _judge(self, seconds: float) -> Verdict:
        files = Path(self._job.directory) / "rows"
        rows = sorted(read_parquet(files) if self._into == "files" else await self._read_target())
        first = list({row.message_id: row for row in reversed(rows)}.values())
        bodies = {row.body for row in first}
        return Verdict(
            into=self._into,
            seconds=seconds,
            kills=self._kills,
            acknowledged=len(self._sent.acknowledged),
            written=len(rows),
            copies=len(rows) - len(first),
            lost=len(self._sent.acknowledged - bodies),
            doubled=len(first) - len(bodies),
            disordered=disordered(first),
            batches=self._driver.batches("commits"),
        )

    async def _read_target(self) -> list[Row]:
        async with await BrokerApi.connect(self._server.namesrv) as api:
            return [row for queue_id in range(4) for row in await _read_queue(api, self._broker, TARGET, queue_id)]


async def _read_queue(api: BrokerApi, address: str, topic: str, queue_id: int) -> list[Row]:
    rows: list[Row] = []
    end = await api.max_offset(address, topic, queue_id)
    offset = await api.min_offset(address, topic, queue_id)
    while offset < end:
        answer = await api.pull(address, pull_header(topic, queue_id, offset), timeout=10)
        if answer.status is PullStatus.FOUND:
            for message in decode_messages(answer.body):
                rows.append(Row(queue_id, message.queue_offset, message.body, message.message_id))
        offset = max(answer.next_offset, offset + 1)
    return rows


def campaign(into: str, victims: list[str], *, seed: int = 0, rate: float = 500.0) -> Verdict:
    """Run once, in a separate directory."""
    with tempfile.TemporaryDirectory(prefix="pyromq-kills-") as directory:
        return asyncio.run(Campaign(Path(directory), into, rate, random.Random(seed)).run(victims))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20, help="for each kind of sink")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    logging.disable()
    print(f"seed {options.seed}", flush=True)
    chance, good = random.Random(options.seed), True
    for into in ("files", "topic"):
        verdict = campaign(into, chance.choices(["driver", "executor"], k=options.kills), seed=options.seed)
        print(verdict, flush=True)
        good = good and verdict.good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
