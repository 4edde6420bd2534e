"""A synchronous pair beside Apache's: the same loads on both, interleaved, on this machine.

    python -m bench.pairs [--rounds 5] [--seconds 3] [--json FILE]

Each pair is a SYNC_MASTER and its slave, with the same broker.conf and their default flush (ASYNC_FLUSH). Needs what
`make interop` needs: Java, Maven and Apache's broker. CPU time is that of master and slave together.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, get_args

from interop.servers import HOST, Broker, Kind, NameServer, free_port
from interop.toolkit import Missing, Toolkit, prepare

SHAPES = [(64, 1), (8, 32)]
_FIGURES = ("rate", "p99_ms", "pair_cpu_per_million")
_TICKS = os.sysconf("SC_CLK_TCK")
_SETTINGS = {"mappedFileSizeCommitLog": str(1 << 30), "mappedFileSizeConsumeQueue": str(300_000 * 20)}
_HEAP = ("-Xms1g", "-Xmx1g", "-XX:-UseSerialGC", "-XX:+UseG1GC", "-XX:TieredStopAtLevel=4")
"""As much as a broker gets that is measured; the tests' settings are for a quick start."""


class Pair(NamedTuple):
    """A running master and its slave."""

    namesrv: str
    pids: tuple[int, int]

    def cpu_seconds(self) -> float:
        """Return the CPU time that both have used."""
        fields = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in self.pids]
        return sum(int(field[11]) + int(field[12]) for field in fields) / _TICKS


@contextmanager
def pair(kind: Kind, toolkit: Toolkit, directory: Path) -> Iterator[Pair]:
    """Run a pair of a kind behind a name server of its own."""
    with ExitStack() as stack:
        namesrv = stack.enter_context(NameServer(kind, toolkit, directory / "namesrv"))
        brokers = []
        for broker_id, role in enumerate(("SYNC_MASTER", "SLAVE")):
            port = free_port()
            own = {"brokerId": str(broker_id), "brokerRole": role, "haListenPort": str(port + 1), "brokerIP2": HOST}
            broker = Broker(
                kind, toolkit, directory / role, namesrv.address, {**_SETTINGS, **own}, port=port, options=_HEAP
            )
            brokers.append(stack.enter_context(broker))
        yield Pair(namesrv.address, (brokers[0].pid, brokers[1].pid))


def measure(one: Pair, shape: tuple[int, int], seconds: float) -> dict[str, Any]:
    """Send with a load generator in a process of its own."""
    command = [sys.executable, "-m", "pyromq.cli.main", "bench", "send", "-n", one.namesrv, "--json"]
    command += ["-C", str(shape[0]), "-W", str(shape[1]), "--duration", str(seconds), "--warm-up", "1"]
    before = one.cpu_seconds()
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{shape}: {done.stderr.strip()}")
    found: dict[str, Any] = json.loads(done.stdout)
    sent = found["rate"] * (seconds + 1)  # the warm-up is about as fast
    return found | {"pair_cpu_per_million": (one.cpu_seconds() - before) / sent * 1e6}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--json", type=Path, help="write all rounds to this file")
    options = parser.parse_args()
    try:
        toolkit = prepare()
    except Missing as error:
        raise SystemExit(f"skipped: {error}") from None
    kinds: tuple[Kind, ...] = get_args(Kind)
    rounds: dict[str, list[dict[str, Any]]] = {}
    with tempfile.TemporaryDirectory(prefix="pyromq-pairs-") as directory, ExitStack() as stack:
        pairs = {kind: stack.enter_context(pair(kind, toolkit, Path(directory) / kind)) for kind in kinds}
        for number in range(options.rounds + 1):
            for shape in SHAPES:
                for kind in kinds if number % 2 else reversed(kinds):
                    found = measure(pairs[kind], shape, options.seconds)
                    if number:  # the first round warms up
                        rounds.setdefault(f"{kind} {shape[0]}x{shape[1]}", []).append(found)
    if options.json:
        options.json.write_text(json.dumps(rounds, indent=2))
    for name, every in rounds.items():
        medians = {what: statistics.median(float(one[what]) for one in every) for what in _FIGURES}
        print(f"{name}: " + ", ".join(f"{what} {value:,.2f}" for what, value in medians.items()), flush=True)


if __name__ == "__main__":
    main()
