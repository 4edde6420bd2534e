"""The clients of several variants, interleaved: messages a second, CPU time per message of client and broker.

    python -m bench.peers.clients                                                      # this checkout
    python -m bench.peers.clients --variant old:python=/path/to/.venv/bin/python --variant new --works 'send, linger'

A variant is as in `python -m bench.peers.lanes`: a name, and after a colon settings of its environment. Each has a
broker of its own, with asynchronous flush, and a client process for each round. The first round is not counted.
Medians count, and ratios to the first variant; the least CPU time is the steadiest figure on a busy machine.

With `--peers`, Kafka's own producer runs beside `linger` and `linger-soon`, its equal: one sender, which does not wait
for each result (a broker of its own, acks=1, linger 2 ms, batches of 256 KiB). Apache RocketMQ's push consumer runs
beside `push`, at the broker of the first variant.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

from .brokers.ours import NameServer, OurBroker
from .java_clients import JavaPushConsumer, KafkaProducer
from .lanes import Variant

_WORKS = "send, linger, linger-soon, soon, push, push32"
_TICK = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


class Place(NamedTuple):
    """The servers of a variant."""

    namesrv: NameServer
    broker: OurBroker


def cpu_seconds(pid: int) -> float:
    """Return the CPU time that a process has taken, all threads together."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICK


def measure(variant: Variant, place: Place, work: str, options: argparse.Namespace) -> dict[str, float]:
    """Run one client against the broker of its variant."""
    topic = "bench-pushed" if work.startswith("push") else "bench-sent"
    command = [variant.python, str(Path(__file__).with_name("client_load.py")), place.namesrv.address, work]
    command += ["--topic", topic, "--seconds", str(options.seconds), "--size", str(options.size)]
    command += ["--in-flight", str(options.in_flight)]
    before = cpu_seconds(place.broker.pid)
    done = subprocess.run(
        [*command, "--messages", str(options.messages)],
        capture_output=True,
        text=True,
        env=os.environ | variant.environment,
        start_new_session=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{variant.name} {work}: {done.stderr.strip()}")
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    warm_up = 1 + 0.5 / options.seconds if not work.startswith("push") else 10 / 9
    figures["broker_us"] = (cpu_seconds(place.broker.pid) - before) / figures["messages"] / warm_up * 1e6
    return figures


def measure_kafka(kafka: KafkaProducer, options: argparse.Namespace) -> dict[str, float]:
    """Run Kafka's producer; its first 3 seconds warm up."""
    before = cpu_seconds(kafka.pid)
    figures = kafka.run(options.seconds, options.size)
    sent = figures["messages"] * (1 + 3 / options.seconds)
    return figures | {"broker_us": (cpu_seconds(kafka.pid) - before) / sent * 1e6}


def measure_java(java: JavaPushConsumer, options: argparse.Namespace) -> dict[str, float]:
    """Run Java's push consumer."""
    before = cpu_seconds(java.pid)
    figures = java.run("bench-pushed", options.messages)
    return figures | {"broker_us": (cpu_seconds(java.pid) - before) / options.messages * 1e6}


def fill(variant: Variant, place: Place, options: argparse.Namespace) -> None:
    """Send what `push` consumes."""
    sent = 0.0
    while sent < options.messages:
        command = [variant.python, str(Path(__file__).with_name("client_load.py")), place.namesrv.address, "linger"]
        command += ["--topic", "bench-pushed", "--seconds", "1", "--size", str(options.size)]
        sent += json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)["messages"]


def _line(name: str, runs: list[dict[str, float]], base: list[dict[str, float]]) -> str:
    def median(of: list[dict[str, float]], what: str) -> float:
        return statistics.median(one[what] for one in of)

    ratios = [median(runs, what) / max(median(base, what), 1e-9) for what in ("rate", "cpu_us", "broker_us")]
    least = min(one["cpu_us"] for one in runs)
    return (
        f"  {name:<10} {median(runs, 'rate'):>10,.0f}/s  client {median(runs, 'cpu_us'):>6.2f} µs (least {least:>6.2f})"
        f"  broker {median(runs, 'broker_us'):>6.2f} µs  ratio {ratios[0]:.2f} / {ratios[1]:.2f} / {ratios[2]:.2f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--variant", action="append", type=Variant.of, help="NAME[:KEY=VALUE,…]")
    parser.add_argument("--works", default=_WORKS, help="%(default)s")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--size", type=int, default=1024, help="bytes of a body")
    parser.add_argument("--messages", type=int, default=100_000, help="that push consumes")
    parser.add_argument("--in-flight", type=int, default=0, help="sends at a time, instead of 256 and 2,048")
    parser.add_argument("--peers", action="store_true", help="Kafka's producer and Java's consumer too")
    options = parser.parse_args()
    variants: list[Variant] = options.variant or [Variant.of("this")]
    works = [work.strip() for work in options.works.split(",")]
    with tempfile.TemporaryDirectory(prefix="pyromq-client-") as directory, ExitStack() as stack:
        places: dict[str, Place] = {}
        for variant in variants:
            own = Path(directory) / variant.name
            namesrv = stack.enter_context(NameServer(own, variant.python))
            broker = OurBroker(own, namesrv.address, {}, variant.environment, variant.python)
            places[variant.name] = Place(namesrv, stack.enter_context(broker))
            if any(work.startswith("push") for work in works):
                fill(variant, places[variant.name], options)
        peers: dict[str, tuple[str, Callable[[], dict[str, float]]]] = {}
        if options.peers:
            place = places[variants[0].name]
            if "linger" in works or "linger-soon" in works:
                kafka = KafkaProducer(Path(directory) / "kafka", stack)
                peers["linger"] = peers["linger-soon"] = "Kafka", partial(measure_kafka, kafka, options)
            if "push" in works:
                java = JavaPushConsumer(place.namesrv.address, place.broker)
                peers["push"] = "Java", partial(measure_java, java, options)
        for work in works:
            runners: dict[str, Callable[[], dict[str, float]]]
            runners = {one.name: partial(measure, one, places[one.name], work, options) for one in variants}
            if work in peers:
                name, run = peers[work]
                runners[name] = run
            found: dict[str, list[dict[str, float]]] = {name: [] for name in runners}
            for number in range(options.rounds + 1):
                for name in list(runners) if number % 2 else reversed(list(runners)):
                    figures = runners[name]()
                    if number:
                        found[name].append(figures)
            print(f"{work}: median of {options.rounds} rounds; ratio of rate / client / broker to {variants[0].name}")
            for name, runs in found.items():
                print(_line(name, runs, found[variants[0].name]), flush=True)


if __name__ == "__main__":
    main()
