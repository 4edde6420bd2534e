"""From an outbox through a broker into an idempotent handler: each row exactly once, while all of them are killed.

    python -m tests.faults.once --orders 10000 --kills 30
    python -m tests.faults.once --database postgresql      # or mariadb, from Debian's packages

Orders and their messages are committed together, some are rolled back. One process sends the outbox, one consumes and
writes a bill for each order. Both are killed at random with `kill -9`, and so is the broker. In the end there is one
bill for each committed order and no other. The bills have no unique key: a second one would be seen.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import pytest
from msgspec import Struct
from sqlalchemy import Column, Connection, Engine, MetaData, String, Table, create_engine, insert, select
from sqlalchemy.pool import NullPool

from pyromq import Message, MessageExt, Producer, PushConsumer, PyroMQError
from pyromq.admin import AdminClient
from pyromq.idempotent import Idempotent
from pyromq.outbox import Outbox
from tests.database_servers import DATABASES, database
from tests.faults.campaign import Server, free_ports

TOPIC, GROUP = "orders", "billing"
PATIENCE = 400.0  # seconds without another bill: a message that failed a few times comes again after minutes
_METADATA = MetaData()
ORDERS = Table("orders", _METADATA, Column("id", String(32), primary_key=True))
BILLS = Table("bills", _METADATA, Column("order_id", String(32)))


class Outcome(Struct):
    """What a run has shown."""

    orders: int
    bills: int
    stored: int
    kills: Counter[str]
    missing: list[str]
    doubled: list[str]
    invented: list[str]

    @property
    def good(self) -> bool:
        return not (self.missing or self.doubled or self.invented)

    def __str__(self) -> str:
        kills = ", ".join(f"{number} of the {name}" for name, number in self.kills.items())
        return (
            f"{self.orders} orders, {self.bills} bills, {self.stored} messages stored; kills: {kills}; "
            f"missing {len(self.missing)}, doubled {len(self.doubled)}, invented {len(self.invented)}"
        )


# --- the two processes


async def relay(url: str, namesrv: str) -> None:
    """Send what is in the outbox, for ever."""
    outbox = Outbox(_engine(url), batch=50)
    async with Producer("shop", namesrv) as producer:
        while True:
            try:
                await outbox.run(producer, poll=0.05)
            except Exception as error:  # the database is busy: as a supervisor would, begin again
                print(f"relay: {error}", file=sys.stderr)


async def consume(url: str, namesrv: str) -> None:
    """Write a bill for each order, for ever."""

    @Idempotent(_engine(url), GROUP)
    def bill(message: MessageExt, connection: Connection) -> None:
        connection.execute(insert(BILLS).values(order_id=message.keys[0]))

    while True:
        try:
            async with PushConsumer(
                GROUP, namesrv, {TOPIC: "*"}, bill, start_from="earliest", concurrency=4, max_reconsume=1000
            ) as consumer:
                await consumer.run()
        except PyroMQError as error:  # the name server is away: as a supervisor would, begin again
            print(f"consumer: {error}", file=sys.stderr)
            await asyncio.sleep(0.2)


def _engine(url: str) -> Engine:
    if not url.startswith("sqlite"):
        return create_engine(url)
    return create_engine(url, poolclass=NullPool, connect_args={"timeout": 60})  # others may write for long


# --- the campaign


class Campaign:
    """Everything that runs, and what kills it."""

    def __init__(self, directory: Path, url: str, seed: int) -> None:
        self._directory = directory
        self._url = url
        self._chance = random.Random(seed)
        self._ports = free_ports()
        self._namesrv = f"127.0.0.1:{self._ports[0]}"
        self._engine = _engine(url)
        self._outbox = Outbox(self._engine)
        self._committed: set[str] = set()
        self.kills: Counter[str] = Counter()

    async def run(self, orders: int, kills: int) -> Outcome:
        """Commit orders, kill processes meanwhile, let all settle, and compare."""
        if self._engine.dialect.name == "sqlite":
            with self._engine.connect() as connection:  # as services do that write from several processes
                connection.exec_driver_sql("PRAGMA journal_mode=WAL")
        for metadata in (_METADATA, self._outbox.metadata, Idempotent(self._engine, GROUP).metadata):
            metadata.create_all(self._engine)
        self._server = await asyncio.to_thread(self._start_server)
        self._processes = {name: self._start(name) for name in ("relay", "consume")}
        try:
            writing = asyncio.create_task(asyncio.to_thread(self._write, orders))
            for _ in range(kills):
                await asyncio.sleep(self._chance.uniform(0.2, 1.5))
                await self._kill()
            await writing
            await self._settle()
            return await self._compare()
        finally:
            for process in self._processes.values():
                process.kill()
                process.wait()
            self._server.kill()
            self._engine.dispose()

    def _write(self, orders: int) -> None:
        for start in range(0, orders, 10):
            with self._engine.connect() as connection:
                names = [f"o-{number}" for number in range(start, min(start + 10, orders))]
                for name in names:
                    connection.execute(insert(ORDERS).values(id=name))
                    message = Message(topic=TOPIC, body=name.encode(), tags="created", keys=[name])
                    self._outbox.add(connection, message, order_key=f"c-{self._chance.randrange(20)}")
                if self._chance.random() < 0.1:
                    connection.rollback()
                else:
                    connection.commit()
                    self._committed.update(names)

    def _start_server(self) -> Server:
        return Server(self._directory / "data", self._directory / "broker.log", ports=self._ports)

    def _start(self, name: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "tests.faults.once", "--as", name, self._url, self._namesrv]
        with (self._directory / f"{name}.log").open("a") as log:
            return subprocess.Popen(command, stdout=log, stderr=log)

    async def _kill(self) -> None:
        name = self._chance.choice(("broker", "relay", "relay", "consume", "consume"))
        self.kills[name] += 1
        if name == "broker":
            await asyncio.to_thread(self._server.end, signal.SIGKILL)
            self._server = await asyncio.to_thread(self._start_server)
        else:
            self._processes[name].kill()
            self._processes[name].wait()
            self._processes[name] = self._start(name)

    async def _settle(self) -> None:
        written, since = 0, time.monotonic()
        while time.monotonic() < since + PATIENCE:
            bills = len(self._bills())
            if not await self._outbox.waiting() and bills >= len(self._committed):
                return
            if bills > written:
                written, since = bills, time.monotonic()
            await asyncio.sleep(0.2)

    def _bills(self) -> list[str]:
        with self._engine.begin() as connection:
            return list(connection.execute(select(BILLS.c.order_id)).scalars())

    async def _compare(self) -> Outcome:
        async with AdminClient(self._namesrv) as admin:
            stored = [message.keys[0] async for message in admin.read(TOPIC)]
        bills = Counter(self._bills())
        return Outcome(
            orders=len(self._committed),
            bills=bills.total(),
            stored=len(stored),
            kills=self.kills,
            missing=sorted(self._committed - set(bills)),
            doubled=[name for name, number in bills.items() if number > 1],
            invented=sorted(set(bills) - self._committed),
        )


def run(orders: int, kills: int, seed: int, kind: str = "sqlite") -> Outcome:
    """Run the campaign on a database of its own."""
    with tempfile.TemporaryDirectory(prefix="pyromq-once-") as name:
        directory = Path(name)
        place = directory / "database"
        place.mkdir()
        with database(kind, place) as url:
            return asyncio.run(Campaign(directory, url, seed).run(orders, kills))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--orders", type=int, default=10_000)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--database", choices=DATABASES, default="sqlite")
    parser.add_argument("--as", nargs=3, metavar=("PROCESS", "URL", "NAMESRV"), dest="process", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.process:
        name, url, namesrv = options.process
        asyncio.run({"relay": relay, "consume": consume}[name](url, namesrv))
        return 0
    logging.disable()  # clients log that their broker is gone
    try:
        outcome = run(options.orders, options.kills, options.seed, options.database)
    except pytest.skip.Exception as missing:
        print(f"not run: {missing}")
        return 0
    print(f"{options.database}, seed {options.seed}: {outcome}")
    for kind in ("missing", "doubled", "invented"):
        if names := getattr(outcome, kind):
            print(kind, *names[:20])
    return 0 if outcome.good else 1


if __name__ == "__main__":
    sys.exit(main())
