"""The soak. See the package."""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any

from msgspec import Struct, field

from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.errors import PyroMQError
from tests.faults.campaign import Server, free_ports
from tests.faults.hostile.__main__ import memory_mb
from tests.faults.soak.troubles import Troubles
from tests.faults.soak.witness import Witness

EVERY = 30.0
SAMPLED_EVERY = 5.0
WARM_UP = 12.0
MOST_GROWTH_MB = 32
MOST_MORE_DESCRIPTORS = 32
STORE = "store's "
SETTINGS = ("fileReservedTime=72", "mappedFileSizeCommitLog=134217728", "pyromqMaxTopics=2000")


class Sample(Struct):
    """The server at one moment."""

    at: float
    memory_mb: int
    descriptors: int
    """Without those of the store's files: the log grows, and with it their number."""
    kinds: Counter[str]
    """All of them by what they are."""


class Report(Struct):
    """What a soak has shown."""

    rate: float = 0.0
    samples: list[Sample] = field(default_factory=list)
    load: dict[str, Any] = field(default_factory=dict)
    acknowledged: int = 0
    faults: list[str] = field(default_factory=list)

    def judge(self) -> None:
        """Compare the first third of the last life with the last, and look at what was lost."""
        third = len(self.samples) // 3
        if third:
            first, last = self.samples[:third], self.samples[-third:]
            growth = _middle(last, "memory_mb") - _middle(first, "memory_mb")
            more = _middle(last, "descriptors") - _middle(first, "descriptors")
            print(f"soak: memory {_middle(first, 'memory_mb')} -> {_middle(last, 'memory_mb')} MB, descriptors "
                  f"{_middle(first, 'descriptors')} -> {_middle(last, 'descriptors')}")  # fmt: skip
            for name, sample in (("first", first[0]), ("last", last[-1])):
                print(f"soak: {name} {dict(sample.kinds)}")
            if growth > MOST_GROWTH_MB:
                self.faults.append(f"memory grew by {growth} MB")
            if more > MOST_MORE_DESCRIPTORS:
                self.faults.append(f"{more} more descriptors")
        if not self.load:
            self.faults.append("the load ended without a result")
        elif self.load["missing"] or self.load["invented"]:
            self.faults.append(f"{self.load['missing']} messages missing, {self.load['invented']} invented")


def descriptors_by_kind(pid: int) -> Counter[str]:
    """Return how many descriptors of a process are sockets, files of each folder of the store, and so on."""
    kinds: Counter[str] = Counter()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            target = descriptor.readlink()
            folder = next((part for part in ("commitlog", "consumequeue", "index") if part in target.parts), None)
            kinds[f"{STORE}{folder}" if folder else str(target).partition(":")[0]] += 1
    return kinds


def _middle(samples: Sequence[Sample], name: str) -> int:
    return int(median(getattr(sample, name) for sample in samples))


class Soak:
    """One run, in a directory of its own."""

    def __init__(self, directory: Path, minutes: float, seed: int) -> None:
        self._directory = directory
        self._seconds = minutes * 60
        self._seed = seed
        self._ports = free_ports()
        self._report = Report()

    async def run(self) -> Report:
        """Measure the greatest rate, then send half of it while things go wrong."""
        self._server = await asyncio.to_thread(self._start)
        try:
            fast = await self._result(self._load(WARM_UP, 0.0))
            self._report.rate = fast.get("sent", 0) / fast.get("seconds", 1) / 2
            print(f"soak: half of {self._report.rate * 2:.0f} messages/s, sent and consumed", flush=True)
            await self._soak()
        finally:
            self._server.kill()
        self._report.judge()
        return self._report

    async def _soak(self) -> None:
        witness = Witness(self._server.namesrv, self._directory)
        witnessing = asyncio.ensure_future(witness.run())
        load = self._load(self._seconds, self._report.rate)
        troubles = Troubles(self._server, await self._addresses(), self._seed)
        sampling = asyncio.ensure_future(self._sample())
        began, killed = time.monotonic(), False
        try:
            while (passed := time.monotonic() - began) < self._seconds:
                if not killed and passed > self._seconds / 4:
                    killed = True
                    await self._kill(witness, troubles)
                else:
                    await troubles.make()
                await asyncio.sleep(min(EVERY, max(self._seconds - passed, 0)))
                self._tell(troubles)
            witness.stop()
            await witnessing
            self._report.load = await self._result(load)
            self._report.acknowledged, findings = await witness.judge()
            self._report.faults += [str(finding) for finding in findings[:20]]
        finally:
            sampling.cancel()
            troubles.close()
            load.kill()
        print(f"soak: {dict(troubles.counts)}")

    async def _kill(self, witness: Witness, troubles: Troubles) -> None:
        """Kill the server and start it again; its memory counts from here on."""
        self._server.kill()
        self._server = troubles.server = await asyncio.to_thread(self._start)
        witness.restarted()
        troubles.counts["kill"] += 1
        self._report.samples.clear()

    def _start(self) -> Server:
        log = self._directory / "server.log"
        return Server(self._directory / "data", log, flush="ASYNC_FLUSH", ports=self._ports, settings=SETTINGS)

    def _load(self, seconds: float, rate: float) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tests.faults.soak.load", self._server.namesrv, str(seconds), str(rate)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    async def _result(self, load: subprocess.Popen[str]) -> dict[str, Any]:
        output, _ = await asyncio.to_thread(load.communicate)
        found: dict[str, Any] = json.loads(output or "{}")
        return found

    async def _addresses(self) -> dict[str, str]:
        async with await BrokerApi.connect(self._server.namesrv) as api:
            for _ in range(100):
                try:
                    route = await api.route("soak")
                    break
                except PyroMQError:
                    await asyncio.sleep(0.1)
        broker = route.broker_datas[0].broker_addrs[0]
        host, _, port = broker.rpartition(":")
        return {"broker": broker, "namesrv": self._server.namesrv, "ha": f"{host}:{int(port) + 1}"}

    async def _sample(self) -> None:
        while True:
            pid = self._server.pid
            try:
                kinds = descriptors_by_kind(pid)
                others = sum(count for kind, count in kinds.items() if not kind.startswith(STORE))
                self._report.samples.append(Sample(time.monotonic(), memory_mb(pid), others, kinds))
            except OSError:
                pass  # it is being killed
            await asyncio.sleep(SAMPLED_EVERY)

    def _tell(self, troubles: Troubles) -> None:
        now = self._report.samples[-1:]
        told = f"{now[0].memory_mb} MB, {now[0].descriptors} descriptors" if now else "-"
        print(f"soak: {sum(troubles.counts.values())} troubles, {told}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="soak", description="Half of the greatest rate, with troubles, for long.")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    options = parser.parse_args()
    logging.basicConfig(level=logging.ERROR)  # clients tell of every connection that is lost
    print(f"soak: seed {options.seed}, {options.minutes:g} minutes", flush=True)
    with tempfile.TemporaryDirectory(prefix="pyromq-soak-") as directory:
        report = asyncio.run(Soak(Path(directory), options.minutes, options.seed).run())
        log = (Path(directory) / "server.log").read_text()
        if "Traceback" in log:
            report.faults.append("a traceback in the log: " + log[log.index("Traceback") :][:3000])
    print(f"soak: load {report.load}, witness acknowledged {report.acknowledged}")
    for fault in report.faults:
        print(f"soak: FAULT {fault}")
    print(f"soak: {'BAD' if report.faults else 'good'}")
    return 1 if report.faults else 0


if __name__ == "__main__":
    sys.exit(main())
