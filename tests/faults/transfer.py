"""Transfers from account A to account B: each is a local transaction of A and a message for B, under kills.

Some local transactions commit, some roll back, some return no result, some raise. Producers and the broker are killed
again and again. In the end the credits of B must equal the debits of A, and B must never have received a message of a
transfer that A had not committed by then.

python -m tests.faults.transfer --transfers 10000
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from pyromq import COMMIT, ROLLBACK, UNKNOWN, Message, MessageExt, PushConsumer, PyroMQError, TransactionProducer
from pyromq.admin import AdminClient
from pyromq.protocol.headers.transactions import TransactionState
from tests.faults.bank import COMMITTED, ROLLED_BACK, Bank
from tests.faults.campaign import Server, free_ports

TOPIC = "transfers"
GROUP = "bank-a"
TASKS = 16  # of each producer
PRODUCERS = 2
QUICK_CHECKS = ("transactionTimeOut=300", "transactionCheckInterval=500", "transactionCheckMax=100000")
PATIENCE = 120.0


class Verdict(Struct):
    """The final result."""

    transfers: int = 0
    committed: int = 0
    producer_kills: int = 0
    broker_kills: int = 0
    missing: int = 0
    """Committed by A and not credited to B."""
    invented: int = 0
    """Credited to B and not committed by A."""
    repeated: int = 0
    """Messages that the topic holds twice."""
    early: int = 0
    """Messages that B saw before A had committed."""
    balance: int = 0
    """The debits of A minus the credits of B."""
    open_transactions: int = 0
    seconds: float = 0.0

    @property
    def good(self) -> bool:
        return not (
            self.missing or self.invented or self.repeated or self.early or self.balance or self.open_transactions
        )


# --- a producer, in a process of its own


async def produce(namesrv: str, bank: Bank) -> None:
    """Make transfers while the bank is open, then answer checks about them, until killed."""
    chance = random.Random()

    async def execute(message: MessageExt) -> TransactionState:
        if chance.random() < 0.1:
            await asyncio.sleep(chance.random())  # long enough for a check meanwhile
        wanted = COMMITTED if chance.random() < 0.7 else ROLLED_BACK
        state = bank.decide(message.keys[0], int(message.body), wanted)
        match chance.random():
            case lucky if lucky < 0.1:
                raise RuntimeError("what became of it?")
            case lucky if lucky < 0.3:
                return UNKNOWN
        return COMMIT if state == COMMITTED else ROLLBACK

    async def check(message: MessageExt) -> TransactionState:
        if chance.random() < 0.2:
            return UNKNOWN
        # Decide what is undecided; otherwise it could commit after we answered that it did not.
        state = bank.decide(message.keys[0], int(message.body), ROLLED_BACK)
        return COMMIT if state == COMMITTED else ROLLBACK

    async def transfer_on(producer: TransactionProducer, number: int) -> None:
        count = 0
        while bank.is_open:
            count += 1
            key = f"{os.getpid()}-{number}-{count}"
            message = Message(topic=TOPIC, body=b"%d" % chance.randint(1, 1000), keys=[key])
            try:
                await producer.send_in_transaction(message, execute)
            except PyroMQError:
                await asyncio.sleep(0.05)  # the broker is away

    async with TransactionProducer(GROUP, namesrv, check=check, send_timeout=2.0) as producer:
        await asyncio.gather(*(transfer_on(producer, number) for number in range(TASKS)))
        await asyncio.sleep(3600)


class ProducerProcess:
    """A producer that can be killed."""

    def __init__(self, namesrv: str, bank: Path, log: Path) -> None:
        command = [sys.executable, "-m", "tests.faults.transfer", "--produce", namesrv, "--bank", str(bank)]
        with log.open("a") as errors:
            self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors)

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()
        self._process.wait()


# --- the campaign


class Campaign:
    """A broker, some producers, and a consumer that checks every message."""

    def __init__(self, directory: Path, chance: random.Random) -> None:
        self._directory = directory
        self._chance = chance
        self._ports = free_ports()
        self._log = directory / "log"
        self.namesrv = f"127.0.0.1:{self._ports[0]}"
        self.bank = Bank(directory / "bank.db")
        self.verdict = Verdict()
        self.credited: set[str] = set()
        self._server = self._start_server()
        self._producers = [self._start_producer() for _ in range(PRODUCERS)]

    def _start_server(self) -> Server:
        data = self._directory / "data"
        return Server(data, self._log, flush="ASYNC_FLUSH", ports=self._ports, settings=QUICK_CHECKS)

    def _start_producer(self) -> ProducerProcess:
        return ProducerProcess(self.namesrv, self._directory / "bank.db", self._log)

    async def credit(self, message: MessageExt) -> None:
        """Credit B, after checking that A has really paid."""
        self.credited.add(message.keys[0])
        if self.bank.state(message.keys[0]) != COMMITTED:
            self.verdict.early += 1

    def kill_broker(self) -> None:
        """Kill the broker and start it again."""
        self._server.kill()
        self._server = self._start_server()
        self.verdict.broker_kills += 1

    def kill_producer(self) -> None:
        """Kill a producer and start another one in its place."""
        index = self._chance.randrange(PRODUCERS)
        self._producers[index].kill()
        self._producers[index] = self._start_producer()
        self.verdict.producer_kills += 1

    async def run(self, transfers: int, kills: int, pause: float) -> None:
        """Kill processes until enough transfers have ended, then let every transaction end."""
        watching = PushConsumer("bank-b", self.namesrv, {TOPIC: "*"}, self.credit, start_from="earliest")
        async with watching:
            while self.bank.count() < transfers or self.verdict.broker_kills + self.verdict.producer_kills < kills:
                await asyncio.sleep(self._chance.uniform(pause / 2, pause))
                producers_turn = self.verdict.producer_kills <= self.verdict.broker_kills
                await asyncio.to_thread(self.kill_producer if producers_turn else self.kill_broker)
            self.bank.close()
            await self._wait_for_the_ends()
        self.verdict.transfers = self.bank.count()

    async def _wait_for_the_ends(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                quiet = 0
                while quiet < 3:  # an end may still arrive
                    self.verdict.open_transactions = await self._open_transactions()
                    all_came = self.credited >= self.bank.committed().keys()
                    quiet = quiet + 1 if all_came and not self.verdict.open_transactions else 0
                    await asyncio.sleep(0.3)

    async def _open_transactions(self) -> int:
        async with AdminClient(self.namesrv) as admin:
            pending = [half async for half in admin.transactions.pending()]
            return len(pending) + len([half async for half in admin.transactions.given_up()])

    async def judge(self) -> Verdict:
        """Compare both sides."""
        async with AdminClient(self.namesrv) as admin:
            stored: Counter[str] = Counter()
            amounts: dict[str, int] = {}
            async for message in admin.read(TOPIC):
                stored[message.keys[0]] += 1
                amounts[message.keys[0]] = int(message.body)
        debited = self.bank.committed()
        verdict = self.verdict
        verdict.committed = len(debited)
        verdict.missing = len(debited.keys() - amounts.keys()) + len(debited.keys() - self.credited)
        verdict.invented = len(amounts.keys() - debited.keys()) + len(self.credited - debited.keys())
        verdict.repeated = sum(count - 1 for count in stored.values())
        verdict.balance = sum(debited.values()) - sum(amounts.values())
        return verdict

    def close(self) -> None:
        """End all processes."""
        for producer in self._producers:
            producer.kill()
        self._server.kill()


def campaign(transfers: int, *, kills: int = 2, seed: int = 0, pause: float = 3.0) -> Verdict:
    """Make at least this many transfers, with at least this many kills."""
    with tempfile.TemporaryDirectory(prefix="pyromq-transfer-") as directory:
        began = time.monotonic()
        running = Campaign(Path(directory), random.Random(seed))
        try:
            asyncio.run(running.run(transfers, kills, pause))
            verdict = asyncio.run(running.judge())
        finally:
            running.close()
        verdict.seconds = round(time.monotonic() - began, 1)
        return verdict


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--transfers", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--produce", metavar="NAMESRV", help=argparse.SUPPRESS)
    parser.add_argument("--bank", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.produce:
        asyncio.run(produce(options.produce, Bank(options.bank)))
        return 0
    print(f"seed {options.seed}")
    verdict = campaign(options.transfers, seed=options.seed)
    print(verdict)
    return 0 if verdict.good else 1


if __name__ == "__main__":
    sys.exit(main())
