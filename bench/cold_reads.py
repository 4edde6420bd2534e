"""Sends while consumers catch up on files that are not in memory.

    python bench/cold_reads.py --directory DIR [--messages 3000000]
    PYTHONPATH=/other/checkout/src python bench/cold_reads.py --directory DIR       the same of another version

The store is created in the directory unless it exists: 3 GiB for three million messages. Its files are dropped from the
system's memory, a broker opens it, and messages are sent at a fixed rate: first alone, then while consumers read
everything from the beginning. A latency counts from the time at which its message was due. The disk decides how much
there is to see; a watch inside the broker notes the longest pass of its loop.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from crowd import HERE, Report, Server
from crowd_clients import PULL, Client, connect, measure

TOPICS = tuple(f"events-{number}" for number in range(10))
QUEUES = 8
NOTHING_NEW = (19, 20, 21)


class CatchUp:
    """Consumers that read queues from the beginning, each on its own connection with one pull at a time."""

    def __init__(self) -> None:
        self.pulls = self.bytes = 0
        self._clients: list[Client] = []

    async def run(self, address: str, consumers: int) -> None:
        """Start to read; every consumer has its share of the queues."""
        queues = [(topic, queue) for topic in TOPICS for queue in range(QUEUES)]
        for number in range(consumers):
            client = await connect(address)
            self._clients.append(client)
            self._read(client, queues[number::consumers], 0)

    def _read(self, client: Client, queues: list[tuple[str, int]], offset: int) -> None:
        topic, queue_id = queues[0]

        def pulled(code: int, fields: dict[str, str]) -> None:
            self.pulls += 1
            if code not in NOTHING_NEW:
                self._read(client, queues, int(fields["nextBeginOffset"]))
            elif len(queues) > 1:
                self._read(client, queues[1:], 0)

        fields = {
            "consumerGroup": "TOOLS_CONSUMER", "topic": topic, "queueId": str(queue_id), "queueOffset": str(offset),
            "maxMsgNums": "32", "sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0", "subscription": "*",
            "subVersion": "1", "expressionType": "TAG",
        }  # fmt: skip
        if not client.lost:
            client.ask(PULL, fields, answer=pulled)

    def stop(self) -> None:
        """Read no more."""
        for client in self._clients:
            client.transport.close()


def fill(data: Path, messages: int) -> None:
    """Create the store with this version, so that every version reads the same; and its table of topics."""
    program = f"from big_store import fill; from pathlib import Path; fill(Path({str(data / 'store')!r}), {messages})"
    subprocess.run([sys.executable, "-c", program], cwd=HERE, check=True)
    rows = {
        topic: {
            "order": False, "perm": 6, "readQueueNums": QUEUES, "writeQueueNums": QUEUES, "topicName": topic,
            "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0,
        }
        for topic in TOPICS
    }  # fmt: skip
    table = {"topicConfigTable": rows, "dataVersion": {"timestamp": 1, "counter": 1}}
    (data / "store" / "config").mkdir(exist_ok=True)
    (data / "store" / "config" / "topics.json").write_text(json.dumps(table))


def forget_cache(root: Path) -> None:
    """Make the system drop the pages of a store's files, after writing them."""
    os.sync()
    for path in root.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


async def run(broker: Server, report: Report, options: argparse.Namespace) -> None:
    """Send alone, then beside consumers."""
    for what, consumers in (("sends alone", 0), (f"sends beside {options.consumers} consumers", options.consumers)):
        catch_up = CatchUp()
        await catch_up.run(broker.address, consumers)
        broker.loop()
        # `measure` sends to topics by number, which the broker creates; the backlog has other names.
        found = await measure(
            broker.address, topics=8, queues=8, rate=options.rate, seconds=options.seconds, creations=0.0, first_new=0
        )
        catch_up.stop()
        pulls = round(catch_up.pulls / options.seconds)
        report.add(what, {**found["sends"], "pulls_per_second": pulls}, broker.loop())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--directory", type=Path, required=True, help="where the store is, or will be")
    parser.add_argument("--messages", type=int, default=3_000_000)
    parser.add_argument("--consumers", type=int, default=8)
    parser.add_argument("--rate", type=float, default=500, help="messages sent in a second")
    parser.add_argument("--seconds", type=float, default=15, help="of each phase")
    parser.add_argument("--blame", action="store_true", help="name the code that takes long")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    if not (options.directory / "store" / "config" / "topics.json").exists():
        fill(options.directory, options.messages)
    report: Any = Report()
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pyromq-cold-")))
        forget_cache(options.directory / "store")
        namesrv = stack.enter_context(Server(["namesrv", "--port", "0"], scratch / "namesrv.log"))
        command = ["broker", "--data", str(options.directory), "-n", namesrv.address, "--port", "0"]
        broker = stack.enter_context(Server(command, scratch / "broker.log", blame=options.blame))
        asyncio.run(run(broker, report, options))
        broker.stop()
    if options.json:
        options.json.write_text(json.dumps(report.figures, indent=2))


if __name__ == "__main__":
    main()
