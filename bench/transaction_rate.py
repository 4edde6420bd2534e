"""Measures transactions per second: half message, local transaction, end; all of them commit.

python bench/transaction_rate.py [--count 20000] [--tasks 64] [--size 1024]
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pyromq import COMMIT, Message, MessageExt, TransactionProducer, TransactionState
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.client.send.producer import Producer

TOPIC = "bench-transactions"
PORTS = ["--namesrv-port", "0", "--port", "0", "--console-port", "0"]


async def commit(message: MessageExt) -> TransactionState:
    """A local transaction that costs nothing."""
    return COMMIT


async def measure(namesrv: str, count: int, tasks: int, size: int) -> None:
    """Send and wait until everything is delivered; then the same without transactions."""
    message = Message(topic=TOPIC, body=b"x" * size)

    async def run(producer: Producer, number: int) -> None:
        for _ in range(number):
            if isinstance(producer, TransactionProducer):
                await producer.send_in_transaction(message, commit)
            else:
                await producer.send(message)

    transacting = TransactionProducer("bench", namesrv, check=commit)
    for name, producer in (("transactions", transacting), ("plain sends", Producer("plain", namesrv))):
        async with producer:
            await run(producer, 10)
            before = await delivered(namesrv)
            began = time.perf_counter()
            await asyncio.gather(*[run(producer, count // tasks) for _ in range(tasks)])
            missing = 1
            while missing > 0:
                await asyncio.sleep(0.02)
                missing = before + count // tasks * tasks - await delivered(namesrv)
            print(f"{name}: {count / (time.perf_counter() - began):,.0f} a second")


async def delivered(namesrv: str) -> int:
    """Return how many messages are visible to consumers."""
    async with await BrokerApi.connect(namesrv) as api:
        route = await api.route(TOPIC)
        address = route.broker_datas[0].broker_addrs[0]
        return sum([await api.max_offset(address, TOPIC, queue) for queue in range(4)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--tasks", type=int, default=64)
    parser.add_argument("--size", type=int, default=1024)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pyromq-bench-") as data:
        command = [sys.executable, "-m", "pyromq.cli.main", "up", "--data", str(Path(data)), *PORTS]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            assert server.stdout is not None
            words = server.stdout.readline().split()
            namesrv = words[words.index("namesrv") + 1]
            asyncio.run(measure(namesrv, options.count, options.tasks, options.size))
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
