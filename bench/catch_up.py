"""An empty slave copies a long log: how fast, and what sends cost beside it.

    python bench/catch_up.py --directory DIR [--messages 10000000]

The log is made once and kept (ten million messages take 10 GiB, the copy as much again). Sends at a fixed rate are
measured alone, then while the slave copies; a latency counts from the time at which its request was due. Two brokers
on one disk wait for each other there; `--copy` on another one shows what the master alone has to do with it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from cold_reads import fill, forget_cache
from crowd import Report, Server
from crowd_clients import measure

from pyromq.admin import AdminClient

_PAUSE = 1.0  # between two looks at the copy: they take time of the brokers and of this process, which sends
_NEXT_TO_NOTHING = 1 << 20


async def _lag(namesrv: str) -> int | None:
    """Return the bytes that the slave lacks, None if there is none yet."""
    async with AdminClient(namesrv) as admin:
        status = await admin.cluster_status()
    return next((one.lag_bytes for one in status.brokers if not one.is_master), None)


async def _copied(namesrv: str) -> float:
    """Wait until the slave lacks next to nothing; return the time."""
    while True:
        lag = await _lag(namesrv)
        if lag is not None and lag <= _NEXT_TO_NOTHING:
            return time.perf_counter()
        await asyncio.sleep(_PAUSE)


async def _send(address: str, options: argparse.Namespace) -> dict[str, float]:
    found = await measure(
        address, topics=8, queues=8, rate=options.rate, seconds=options.seconds, creations=0.0, first_new=0
    )
    return found["sends"]


async def _send_beside(address: str, namesrv: str, options: argparse.Namespace) -> tuple[list[dict[str, float]], float]:
    copied = asyncio.create_task(_copied(namesrv))
    phases = []
    while not copied.done():
        phases.append(await _send(address, options))
    return phases, await copied


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--directory", type=Path, required=True, help="where the log is, or will be")
    parser.add_argument("--copy", type=Path, help="where the slave's copy will be (default: beside the log)")
    parser.add_argument("--messages", type=int, default=10_000_000)
    parser.add_argument("--rate", type=float, default=500, help="messages sent in a second")
    parser.add_argument("--seconds", type=float, default=10, help="of each phase")
    parser.add_argument("--cold", action="store_true", help="have the system forget the log's pages first")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    master = options.directory / "master"
    if not (master / "store" / "config" / "topics.json").exists():
        fill(master, options.messages)
    report: Any = Report()
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pyromq-catch-up-")))
        if options.cold:
            forget_cache(master / "store")
        namesrv = stack.enter_context(Server(["namesrv", "--port", "0"], scratch / "namesrv.log"))
        common = ["broker", "-n", namesrv.address, "--port", "0", "--set", "fileReservedTime=100000"]
        broker = stack.enter_context(Server([*common, "--data", str(master)], scratch / "master.log"))
        broker.loop()  # of its start
        report.add("sends alone", asyncio.run(_send(broker.address, options)), broker.loop())
        copy = (options.copy or options.directory) / "slave"
        stack.callback(shutil.rmtree, copy, ignore_errors=True)
        begun = time.perf_counter()
        own = ["--data", str(copy), "--set", "brokerId=1", "--set", "brokerRole=SLAVE"]
        stack.enter_context(Server([*common, *own], scratch / "slave.log"))
        phases, done = asyncio.run(_send_beside(broker.address, namesrv.address, options))
        size = sum(path.stat().st_blocks * 512 for path in (copy / "store" / "commitlog").glob("0*"))
        for found in phases:
            report.add("sends beside the copy", found, broker.loop())
        rate = size / (done - begun) / 1e6
        report.add("copy", {"bytes": size, "seconds": round(done - begun, 1), "MB_per_second": round(rate)})
    if options.json:
        options.json.write_text(json.dumps(report.figures, indent=2))


if __name__ == "__main__":
    main()
