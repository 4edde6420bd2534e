"""Measures how soon a broker with a large store is ready again after it was killed under load.

    python bench/restart.py --directory DIR --messages 10000000

The store is created in the directory unless it exists, which takes some minutes and 11 GiB for ten million messages.
It is kept; without a directory it is temporary. In each round, `pyromq broker` opens it, is loaded for some seconds and
killed with SIGKILL. Then the time is measured until the next broker reports that it is ready: with the files in the
page cache, as after a kill, and without, as after a reboot.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Self

from big_store import TOPICS, fill
from cold_reads import forget_cache

from pyromq.client.net.calls.broker_api import BrokerApi

PYROMQ = [sys.executable, "-m", "pyromq.cli.main"]


class Server:
    """A server process; killed at the end of a `with` block unless it was stopped."""

    def __init__(self, command: list[str], log: Path) -> None:
        began = time.perf_counter()
        with log.open("w") as errors:
            self.process = subprocess.Popen([*PYROMQ, *command], stdout=subprocess.PIPE, stderr=errors, text=True)
        assert self.process.stdout is not None
        found = re.search(r"ready: (\S+)", self.process.stdout.readline())
        self.seconds = time.perf_counter() - began
        if found is None:
            raise SystemExit(log.read_text()[-3000:])
        self.address = found[1]
        self.recovery = next((line for line in log.read_text().splitlines() if "recovered the store" in line), "")

    def stop(self) -> None:
        """Stop it."""
        self.process.terminate()
        self.process.wait(120)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait(120)


@contextmanager
def load(namesrv: str) -> Iterator[None]:
    """Send as fast as the broker answers while the block runs."""
    shape = ["-C", "8", "-W", "32", "--size", "960", "--topic", TOPICS[0], "--duration", "3600"]
    command = [*PYROMQ, "bench", "send", "-n", namesrv, *shape]
    sending = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        sending.kill()
        sending.wait(120)


async def total(namesrv: str, address: str) -> int:
    """Return how many messages the broker's topics have."""
    async with await BrokerApi.connect(namesrv) as api:
        return sum([await api.max_offset(address, topic, queue_id) for topic in TOPICS for queue_id in range(8)])


def measure(data: Path, namesrv: str, log: Path, seconds: float, *, cold: bool) -> float:
    """Load a broker, kill it, and return how long the next one takes to be ready."""
    command = ["broker", "--data", str(data), "-n", namesrv, "--port", "0"]
    with Server(command, log) as broker:
        before = asyncio.run(total(namesrv, broker.address))
        with load(namesrv):
            time.sleep(seconds)
            broker.process.kill()
    if cold:
        forget_cache(data / "store")
    with Server(command, log) as broker:
        after = asyncio.run(total(namesrv, broker.address))
        broker.stop()
    how = "cold" if cold else "warm"
    print(f"killed under load, {how}: ready in {broker.seconds:.2f} s with {after:,} messages, {after - before:,} new")
    print("  " + broker.recovery, flush=True)
    return broker.seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--directory", type=Path, help="where the store is, or will be")
    parser.add_argument("--messages", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=2, help="of each kind")
    parser.add_argument("--seconds", type=float, default=8.0, help="of load before a kill")
    parser.add_argument("--limit", type=float, default=5.0, help="seconds within which it must be ready")
    options = parser.parse_args()
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pyromq-restart-")))
        data = options.directory or scratch / "data"
        fill(data / "store", options.messages)
        namesrv = stack.enter_context(Server(["namesrv", "--port", "0"], scratch / "namesrv.log"))
        log = scratch / "broker.log"
        times = [
            measure(data, namesrv.address, log, options.seconds, cold=cold)
            for cold in (False, True)
            for _ in range(options.rounds)
        ]
    print(f"slowest of {len(times)}: {max(times):.2f} s, limit {options.limit} s")
    return 0 if max(times) < options.limit else 1


if __name__ == "__main__":
    sys.exit(main())
