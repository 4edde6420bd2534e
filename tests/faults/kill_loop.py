"""Kills: the broker is killed under load again and again; in either flush mode nothing acknowledged is lost.

python -m tests.faults.kill_loop --kills 100
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import random
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from pyromq import PyroMQError
from tests.faults.campaign import History, Server, Verdict, check, load, read_everything

TOPICS = [f"steady-{index}" for index in range(3)]


async def one_kill(server: Server, history: History, number: int, seconds: float) -> None:
    """Load the broker and kill it meanwhile."""
    stop = asyncio.Event()
    sending = asyncio.create_task(load(server.namesrv, history, [*TOPICS, f"new-{number}"], stop))
    await asyncio.sleep(seconds)
    server.kill()
    stop.set()
    with suppress(PyroMQError):
        await sending


def campaign(kills: int, *, flush: str = "ASYNC_FLUSH", seed: int = 0, most_seconds: float = 0.6) -> Verdict:
    """Kill it this many times, read everything after each kill, and end early if something is wrong."""
    chance = random.Random(seed)
    history, verdict = History(), Verdict()
    with tempfile.TemporaryDirectory(prefix="pyromq-kill-") as directory:
        data, log = Path(directory) / "data", Path(directory) / "server.log"
        server = Server(data, log, flush=flush)
        try:
            while verdict.good and verdict.cuts < kills:
                number = verdict.cuts
                asyncio.run(one_kill(server, history, number, chance.uniform(0.05, most_seconds)))
                server = Server(data, log, flush=flush)
                verdict = check(history, *asyncio.run(read_everything(server.namesrv, history.topics)))
                verdict.cuts = number + 1
        finally:
            server.kill()
    return verdict


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    logging.disable()  # clients log that their broker is gone
    print(f"seed {options.seed}")
    verdicts = [campaign(options.kills // 2, flush=flush, seed=options.seed) for flush in ("ASYNC_FLUSH", "SYNC_FLUSH")]
    for verdict in verdicts:
        print(verdict)
    return 0 if all(verdict.good for verdict in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
