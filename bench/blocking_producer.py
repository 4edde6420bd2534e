"""Compares the blocking producer's `send_soon` with the async producer, in turns against one broker.

    python -m bench.blocking_producer [--rounds 4] [--seconds 2] [--size 1024]

Prints a JSON line for each round and, at the end, the ratio of the median rates.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager

from pyromq import Message, Producer, blocking
from pyromq.remoting.loop import run

IN_FLIGHT = 256


@contextmanager
def broker() -> Iterator[str]:
    """Start `pyromq up` on free ports; yield the address of its name server."""
    with tempfile.TemporaryDirectory() as data:
        ports = ["--namesrv-port", "0", "--port", "0", "--console-port", "0"]
        command = [sys.executable, "-m", "pyromq.cli.main", "up", "--data", data, *ports]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            assert process.stdout is not None
            found = re.search(r"namesrv (\S+)", process.stdout.readline())
            assert found is not None
            yield found[1]
        finally:
            process.terminate()
            process.wait()


async def send_async(namesrv: str, message: Message, seconds: float) -> float:
    """Return messages a second of the async producer, with `IN_FLIGHT` tasks."""
    sent = 0

    async def keep_sending(producer: Producer, until: float) -> None:
        nonlocal sent
        while time.perf_counter() < until:
            await producer.send(message)
            sent += 1

    async with Producer("bench", namesrv) as producer:
        await producer.send(message)
        began = time.perf_counter()
        await asyncio.gather(*[keep_sending(producer, began + seconds) for _ in range(IN_FLIGHT)])
        return sent / (time.perf_counter() - began)


def send_soon(namesrv: str, message: Message, seconds: float) -> float:
    """Return messages a second of `send_soon`, from one thread."""
    with blocking.Producer("bench", namesrv) as producer:
        producer.send(message)
        sent, began = 0, time.perf_counter()
        while time.perf_counter() < began + seconds:
            future = producer.send_soon(message)
            sent += 1
        producer.flush()
        rate = sent / (time.perf_counter() - began)
        future.result()
        return rate


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--size", type=int, default=1024)
    options = parser.parse_args()
    message = Message("bench", b"x" * options.size, tags="bench")
    rates: dict[str, list[float]] = {"async": [], "send_soon": []}
    with broker() as namesrv:
        for number in range(options.rounds + 1):
            both = {
                "async": run(send_async(namesrv, message, options.seconds)),
                "send_soon": send_soon(namesrv, message, options.seconds),
            }
            if number:  # the first round warms up
                print(json.dumps({name: round(rate) for name, rate in both.items()}))
                for name, rate in both.items():
                    rates[name].append(rate)
    medians = {name: statistics.median(found) for name, found in rates.items()}
    print(json.dumps({"ratio": round(medians["send_soon"] / medians["async"], 3)}))


if __name__ == "__main__":
    main()
