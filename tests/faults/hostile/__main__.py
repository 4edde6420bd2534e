"""The campaign: how a good client fares beside each behaviour. See the package."""

from __future__ import annotations

import argparse
import asyncio
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from tests.faults.frame_fuzz import Servers
from tests.faults.hostile.behaviours import BEHAVIOURS
from tests.faults.hostile.good_client import Figures, GoodClient, newcomer

MOST_MEMORY_MB = 64
LEAST_BAR_MS = 10.0
DESCRIPTORS = 2_000
MOST_LINES = 10  # of the log, a second
MOST_PASS_MS = 50.0

PATIENT = ("--set", "brokerFastFailureEnable=false", "--set", "osPageCacheBusyTimeOutMills=60000")
"""For a machine that is busy with other work: sends that wait for it are not refused."""


class Verdict(Struct):
    """How a behaviour went."""

    name: str
    quiet_ms: float = 0.0
    p99_ms: float = 0.0
    memory_mb: int = 0
    lines: float = 0.0
    over: list[dict[str, Any]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def judge(self, *, noisy: bool) -> None:
        """Add what is wrong with the figures. On a noisy machine latencies say nothing, but CPU time does."""
        bar = max(2 * self.quiet_ms, LEAST_BAR_MS)
        if self.p99_ms > bar and not noisy:
            self.faults.append(f"p99 {self.p99_ms:g} ms, more than {bar:g} ms")
        if self.memory_mb > MOST_MEMORY_MB:
            self.faults.append(f"{self.memory_mb} MB more memory")
        if self.lines > MOST_LINES:
            self.faults.append(f"{self.lines:.0f} lines of log a second")
        if self.over:
            self.faults.append(f"{len(self.over)} passes of the loop over the limit, {self.over[0]}")

    def __str__(self) -> str:
        told = f"{self.name:<28} p99 {self.p99_ms:6.1f} ms (quiet {self.quiet_ms:.1f}), +{self.memory_mb} MB"
        return f"{told}, {self.lines:.1f} lines/s  {'; '.join(self.faults) or 'good'}"


class Campaign:
    """One server for each behaviour: what one leaves behind does not count for the next."""

    def __init__(self, seconds: float, *, noisy: bool) -> None:
        self._seconds = seconds
        self._noisy = noisy

    def run(self, name: str) -> Verdict:
        """Try one behaviour."""
        with tempfile.TemporaryDirectory(prefix="pyromq-hostile-") as directory:
            patient = PATIENT if self._noisy else ()
            servers = Servers(directory, "--descriptors", str(DESCRIPTORS), *patient, on_uvloop=True)
            verdict = Verdict(name)
            try:
                asyncio.run(self._try(servers, verdict, Path(directory)))
            finally:
                if servers.process.poll() is not None:
                    verdict.faults.append("the server died")
                lines = servers.stop()
            log = (Path(directory) / "errors.log").read_text()
        verdict.over = [line for line in lines if "over_ms" in line]
        if "Traceback" in log:
            verdict.faults.append("a traceback in the log: " + log[log.index("Traceback") :][:1500])
        verdict.judge(noisy=self._noisy)
        return verdict

    async def _try(self, servers: Servers, verdict: Verdict, directory: Path) -> None:
        addresses = servers.addresses
        log = directory / "errors.log"
        async with GoodClient(addresses["namesrv"]) as client:
            verdict.quiet_ms = (await client.measure(2.0)).p99
            before, lines = memory_mb(servers.process.pid), count_lines(log)
            began = time.monotonic()
            rude = misbehave(verdict.name, addresses, self._seconds)
            watching = asyncio.ensure_future(most_memory(servers.process.pid))
            figures = await client.measure(self._seconds)
            verdict.faults += await self._ask_newcomer(addresses["namesrv"])
            watching.cancel()
            await asyncio.to_thread(rude.wait, 60)
            verdict.memory_mb = (await _result(watching)) - before
            verdict.lines = (count_lines(log) - lines) / (time.monotonic() - began)  # it may take longer to end
            verdict.p99_ms = figures.p99
            _note_errors(figures, verdict)
            after = await client.measure(1.0)
            if after.errors:
                verdict.faults.append(f"afterwards: {after.errors[0]}")
        if rude.returncode:
            verdict.faults.append(f"the behaviour itself failed ({rude.returncode})")

    async def _ask_newcomer(self, namesrv: str) -> list[str]:
        wrong = await newcomer(namesrv)
        return [wrong] if wrong else []


def misbehave(name: str, addresses: dict[str, str], seconds: float) -> subprocess.Popen[bytes]:
    """Start a process that misbehaves for so long."""
    where = [addresses["broker"], addresses["namesrv"], addresses["ha"], str(seconds)]
    return subprocess.Popen([sys.executable, "-m", "tests.faults.hostile.behaviours", name, *where])


def _note_errors(figures: Figures, verdict: Verdict) -> None:
    if figures.errors:
        verdict.faults.append(f"{len(figures.errors)} sends failed: {figures.errors[0]}")


def memory_mb(pid: int) -> int:
    """Return the memory that a process has for itself."""
    found = re.search(r"RssAnon:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) // 1024 if found else 0


async def most_memory(pid: int) -> int:
    """Watch the memory of a process until this task is cancelled; return the most that was seen."""
    most = 0
    try:
        while True:
            most = max(most, memory_mb(pid))
            await asyncio.sleep(0.05)
    except asyncio.CancelledError:
        return most


async def _result(task: asyncio.Task[int]) -> int:
    return await task


def count_lines(log: Path) -> int:
    """Return how many lines a log has."""
    return log.read_bytes().count(b"\n")


def main() -> int:
    parser = argparse.ArgumentParser(prog="hostile", description="A good client beside rude ones.")
    parser.add_argument("behaviour", nargs="*", help="only these")
    parser.add_argument("--seconds", type=float, default=10.0, help="how long each lasts")
    parser.add_argument("--noisy", action="store_true", help="other work runs: do not judge latencies")
    parser.add_argument("--list", action="store_true", help="print all behaviours")
    options = parser.parse_args()
    if options.list:
        print("\n".join(f"{name:<28} {function.__doc__}" for name, function in BEHAVIOURS.items()))
        return 0
    names = options.behaviour or list(BEHAVIOURS)
    if unknown := set(names) - set(BEHAVIOURS):
        parser.error(f"no behaviour is called {', '.join(sorted(unknown))}; see --list")
    campaign = Campaign(options.seconds, noisy=options.noisy)
    verdicts = []
    began = time.monotonic()
    for name in names:
        verdicts.append(campaign.run(name))
        print(verdicts[-1], flush=True)
    bad = [verdict.name for verdict in verdicts if verdict.faults]
    good = len(verdicts) - len(bad)
    print(f"hostile: {good} of {len(verdicts)} behaviours are good, {time.monotonic() - began:.0f} s")
    print(f"hostile: {'good' if not bad else 'BAD: ' + ', '.join(bad)}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
