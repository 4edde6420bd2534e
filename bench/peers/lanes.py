"""One broker in several variants, interleaved: messages a second, CPU time per message and latencies of each shape.

    python -m bench.peers.lanes                                                 # the default lane and the plain one
    python -m bench.peers.lanes --variant old:python=/path/to/.venv/bin/python --variant new
    python -m bench.peers.lanes --shapes 'send 64x1, sync 8x32, pull 8x8' --rounds 5 --seconds 3

A variant is a name, and after a colon settings of its environment, divided by commas; `python` is the interpreter to
run it with, such as that of another checkout. Each variant has a broker with asynchronous flush (`send`, `pull`) and,
if a shape wants it, one with synchronous flush (`sync`). The first round is not counted. Ratios are those of medians,
to the first variant; CPU time is the steadier one on a busy machine, and its minimum steadier than its median.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from interop.toolkit import Missing

from .brokers.ours import NameServer, OurBroker
from .brokers.work import Setting, Work
from .load.generator import Figures, Pace, Shape, run
from .load.rocketmq import Backlog, Messages, pulls, ranges, sends

_SHAPES = "send 1x1, send 64x1, send 256x1, send 8x32, sync 1x1, sync 64x1, sync 8x32, pull 8x1, pull 64x1, pull 8x8"
_TOPIC, _PULLED = "bench-lanes", "bench-lanes-pulled"
_TO_PULL = 100_000
_FLUSHES = {Setting.ASYNC: "ASYNC_FLUSH", Setting.SYNC: "SYNC_FLUSH"}


class Variant(NamedTuple):
    """A broker to measure, by its environment."""

    name: str
    environment: dict[str, str]
    python: str

    @classmethod
    def of(cls, text: str) -> Variant:
        """Read `name:KEY=value,KEY=value`."""
        name, _, rest = text.partition(":")
        settings = dict(part.split("=", 1) for part in rest.split(",") if part)
        return cls(name, settings, settings.pop("python", sys.executable))


def known(text: str) -> Work:
    """Read `send 64x1`; the brokers here have neither slaves nor accounts."""
    work = Work.of(text)
    if work.setting not in _FLUSHES:
        raise SystemExit(f"no such work here: {text!r}; bench.peers brokers has it")
    return work


def fill(broker: OurBroker, messages: int) -> None:
    """Send messages to be pulled, as many or a few more."""
    with sends(broker.address, Shape(8, 32), Messages([_PULLED])) as load:
        while sum(end for _, _, end in ranges(broker.address, _PULLED)) < messages:
            run(load, Pace(0.5, 0.0), [broker.pid])


def measure(broker: OurBroker, work: Work, pace: Pace, options: argparse.Namespace) -> Figures:
    """Run one load."""
    if work.is_pull:
        part = [(queue, low, end) for queue, low, end in ranges(broker.address, _PULLED)]
        backlog = Backlog(_PULLED, part, tag=options.tag, commit=not options.no_commit, heartbeat=options.heartbeat)
        with pulls(broker.address, work.shape, backlog) as load:
            return run(load, pace, [broker.pid])
    topics = [_TOPIC] if options.topics == 1 else [f"{_TOPIC}-{number:06d}" for number in range(options.topics)]
    with sends(broker.address, work.shape, Messages(topics, options.size)) as load:
        return run(load, pace, [broker.pid])


def start(variant: Variant, directory: Path, works: list[Work], stack: ExitStack) -> dict[Setting, OurBroker]:
    """Start the brokers of a variant that these works need."""
    namesrv = stack.enter_context(NameServer(directory, variant.python))
    found = {}
    for setting in {work.setting for work in works}:
        flush = _FLUSHES[setting]
        settings = {"flushDiskType": flush, "brokerName": f"bench-{flush.lower()}"}
        broker = OurBroker(directory / flush, namesrv.address, settings, variant.environment, variant.python)
        found[setting] = stack.enter_context(broker)
    if any(work.is_pull for work in works):
        fill(found[Setting.ASYNC], _TO_PULL)
    return found


def _line(name: str, runs: list[Figures], base: list[Figures]) -> str:
    def median(of: list[Figures], what: str) -> float:
        return statistics.median(float(getattr(one, what)) for one in of)

    rate, cpu, p99 = (median(runs, what) / max(median(base, what), 1e-9) for what in ("rate", "cpu", "p99_ms"))
    least = min(one.cpu for one in runs)
    return (
        f"  {name:<10} {median(runs, 'rate'):>10,.0f}/s  CPU/M {median(runs, 'cpu'):>7.2f} (least {least:>6.2f})"
        f"  p50 {median(runs, 'p50_ms'):>7.3f}  p99 {median(runs, 'p99_ms'):>7.3f} ms"
        f"  neighbours {median(runs, 'neighbours'):.2f}  ratio {rate:.2f} / {cpu:.2f} / {p99:.2f}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--variant", action="append", type=Variant.of, help="NAME[:KEY=VALUE,…]")
    parser.add_argument("--shapes", default=_SHAPES, help="%(default)s")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--size", type=int, default=1024, help="bytes of a body")
    parser.add_argument("--topics", type=int, default=1, help="send to so many in turn")
    parser.add_argument("--tag", default="bench", help="that pulls subscribe to; * for all")
    parser.add_argument("--no-commit", action="store_true", help="pull without the commit flag")
    parser.add_argument("--heartbeat", action="store_true", help="subscribe by heartbeat, not with each pull")
    parser.add_argument("--rate", type=float, default=0.0, help="requests a second instead of as fast as possible")
    parser.add_argument("--json", type=Path, help="write all rounds to this file")
    options = parser.parse_args()
    variants = options.variant or [Variant.of("default"), Variant.of("plain:PYROMQ_LANE=plain")]
    works = [known(text) for text in options.shapes.split(",")]
    pace = Pace(options.seconds, 0.4, options.rate)
    found: dict[tuple[str, str], list[Figures]] = {}
    with tempfile.TemporaryDirectory(prefix="pyromq-lanes-") as directory, ExitStack() as stack:
        try:
            brokers = {one.name: start(one, Path(directory) / one.name, works, stack) for one in variants}
        except Missing as error:
            print(f"skipped: {error}")
            return 0
        for work in works:
            for number in range(options.rounds + 1):
                for variant in variants if number % 2 else reversed(variants):
                    figures = measure(brokers[variant.name][work.setting], work, pace, options)
                    if number:
                        found.setdefault((str(work), variant.name), []).append(figures)
            print(f"{work}: median of {options.rounds} rounds; ratio of rate / CPU / p99 to {variants[0].name}")
            base = found[str(work), variants[0].name]
            for variant in variants:
                print(_line(variant.name, found[str(work), variant.name], base), flush=True)
    if options.json:
        rounds = {f"{work} {name}": [one.as_json() for one in runs] for (work, name), runs in found.items()}
        options.json.write_text(json.dumps(rounds, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
