"""`make bench`: starts one broker and runs the load shapes one after another; prints rates and CPU time per message.

Absolute values depend on the machine. The same broker is measured in several rounds. The median of each shape is
printed with its range, and every round is kept as a JSON line in the file named at the end.
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
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SHAPES = [("send", 1, 1), ("send", 64, 1), ("send", 8, 32), ("consume", 1, 1), ("consume", 8, 1), ("consume", 64, 1)]

IN_FLIGHT = [1, 32, 256]


@contextmanager
def broker(data: Path, extra: list[str]) -> Iterator[tuple[str, int]]:
    """Run `pyromq up` in its own process session; yield the name server's address and the process id."""
    command = [sys.executable, "-m", "pyromq.cli.main", "up", "--data", str(data / "data")]
    ports = ["--namesrv-port", "0", "--port", "0", "--console-port", "0"]
    with (data / "server.log").open("w") as log:
        process = subprocess.Popen(
            [*command, *ports, *extra], stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True
        )
    try:
        assert process.stdout is not None
        words = process.stdout.readline().split()
        if "namesrv" not in words:
            raise SystemExit((data / "server.log").read_text())
        yield words[words.index("namesrv") + 1], process.pid
    finally:
        process.terminate()
        process.wait(60)


def measure(namesrv: str, pid: int, shape: tuple[str, int, int], seconds: float) -> dict[str, Any]:
    """Run one load shape in a separate generator process."""
    verb, connections, in_flight = shape
    command = [sys.executable, "-m", "pyromq.cli.main", "bench", verb, "-n", namesrv, "--json"]
    options = ["-C", str(connections), "-W", str(in_flight), "--duration", str(seconds), "--warm-up", "0.5"]
    done = subprocess.run(
        [*command, *options, "--broker-pid", str(pid)], capture_output=True, text=True, start_new_session=True
    )
    if done.returncode:
        raise SystemExit(f"{verb} {connections}x{in_flight}: {done.stderr.strip()}")
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def measure_producer(namesrv: str, in_flight: int, seconds: float) -> dict[str, Any]:
    """Run our Producer in a separate process, on one connection."""
    command = [sys.executable, str(Path(__file__).with_name("producer.py")), namesrv]
    options = ["--in-flight", str(in_flight), "--seconds", str(seconds)]
    done = subprocess.run([*command, *options], capture_output=True, text=True, start_new_session=True)
    if done.returncode:
        raise SystemExit(f"producer: {done.stderr.strip()}")
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def line(shape: tuple[str, int, int], rounds: list[dict[str, Any]]) -> str:
    """Summarize the rounds of a shape: median and range."""

    name = f"{shape[0]} {shape[1]}x{shape[2]}"
    rate, cpu = spread(rounds, "rate", 0), spread(rounds, "broker_cpu_per_million", 2)
    return f"{name:<14} {rate:<32} {cpu:<24} {spread(rounds, 'p99_ms', 2)}"


def producer_line(in_flight: int, rounds: list[dict[str, Any]]) -> str:
    """Summarize the rounds of the Producer."""
    name = f"Producer 1x{in_flight}"
    return f"{name:<14} {spread(rounds, 'rate', 0):<32} its own CPU µs/message: {spread(rounds, 'cpu_us', 2)}"


def spread(rounds: list[dict[str, Any]], name: str, digits: int) -> str:
    """Return the median and range of one figure."""
    values = [float(found[name]) for found in rounds]
    return f"{statistics.median(values):,.{digits}f} ({min(values):,.{digits}f}–{max(values):,.{digits}f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--set", action="append", default=[], help="a broker setting, key=value")
    options = parser.parse_args()
    extra = [word for text in options.set for word in ("--set", text)]
    results: dict[tuple[str, int, int], list[dict[str, Any]]] = {shape: [] for shape in SHAPES}
    sends: dict[int, list[dict[str, Any]]] = {in_flight: [] for in_flight in IN_FLIGHT}
    with (
        tempfile.TemporaryDirectory(prefix="pyromq-bench-") as directory,
        broker(Path(directory), extra) as (addr, pid),
    ):
        for _ in range(options.rounds):
            for shape in SHAPES:
                results[shape].append(measure(addr, pid, shape, options.seconds))
            for in_flight in IN_FLIGHT:
                sends[in_flight].append(measure_producer(addr, in_flight, options.seconds))
    print(f"{os.cpu_count()} cores, generator beside the broker; {options.rounds} rounds of {options.seconds} s")
    print("median (range)")
    print(f"{'shape':<14} {'messages/s':<32} {'broker CPU s/million':<24} p99 ms")
    for shape, rounds in results.items():
        print(line(shape, rounds))
    for in_flight, rounds in sends.items():
        print(producer_line(in_flight, rounds))
    raw = Path(tempfile.gettempdir()) / "pyromq-bench.jsonl"
    everything = [*results.values(), *sends.values()]
    raw.write_text("".join(json.dumps(found) + "\n" for rounds in everything for found in rounds))
    print(f"raw rounds: {raw}")


if __name__ == "__main__":
    main()
