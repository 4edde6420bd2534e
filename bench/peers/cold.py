"""A backlog that is on disk only, read once by consumers, while producers send at a fixed rate.

    python -m bench.peers cold                                    # PyroMQ and Apache RocketMQ, a million messages each
    python -m bench.peers cold --messages 200000 --rounds 1       # says that it works

In every round each broker first gets sends at a fixed rate alone, and the time of each counts from the moment at which
it was due. Then its files are dropped from memory (as root, page_cache.py), and consumers read the whole backlog once
(8 connections, pulls of 32 with a tag and the commit flag) beside the same sends. Wanted: as many messages a second as
Apache's broker, and at most twice the p99 that the sends had alone.
"""

from __future__ import annotations

import argparse
import json
import shlex
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from interop.toolkit import Missing

from .brokers.comparison import PEERS
from .brokers.machine import machine_facts
from .brokers.peer import send_until
from .brokers.rocketmq import RocketMq
from .brokers.work import Setting
from .load.build import build
from .load.generator import Figures, Pace, Shape, run, running
from .page_cache import forget

NAMES = ("pyromq", "plain", "apache")
_SENDS, _PULLS, _FILL = Shape(32, 1), Shape(8, 1), Shape(8, 32)
_MOST_SECONDS = 120.0
_BACKLOG = ("commitlog", "consumequeue")


class Cold(NamedTuple):
    """One broker in one round."""

    alone: Figures
    beside: Figures
    pulled: Figures
    left_mib: float
    """How much of the files was still in memory at the beginning."""

    @property
    def p99_ratio(self) -> float:
        return self.beside.p99_ms / self.alone.p99_ms

    def as_json(self) -> dict[str, Any]:
        """Return all figures."""
        parts = {"alone": self.alone, "beside": self.beside, "pulled": self.pulled}
        return {**{name: figures.as_json() for name, figures in parts.items()}, "left_mib": round(self.left_mib, 1)}


def measure(peer: RocketMq, store: Path, options: argparse.Namespace) -> Cold:
    """Run one round on a broker."""
    pace = Pace(options.seconds, 0.3, options.rate)
    with peer.sends(_SENDS, options.size) as sends:
        alone = run(sends, pace, peer.pids)
    with peer.pulls(_PULLS, once=True) as pulls, peer.sends(_SENDS, options.size) as sends:
        left = forget((path for part in _BACKLOG for path in (store / part).rglob("0*")), peer.pids)
        with running(sends, pace._replace(seconds=_MOST_SECONDS), peer.pids) as meanwhile:
            meanwhile.wait_until_warm()
            pulled = run(pulls, Pace(_MOST_SECONDS, 0.0, once=True), peer.pids)
            meanwhile.end()
            return Cold(alone, meanwhile.figures(), pulled, left)


def start(name: str, directory: Path, options: argparse.Namespace, stack: ExitStack) -> RocketMq:
    """Start a broker and give it its backlog; Java's runs a while at what it will do."""
    peer = PEERS[name](Setting.ASYNC, directory, stack)
    assert isinstance(peer, RocketMq)
    with peer.filling(_FILL, options.size) as load:
        send_until(peer, load, options.messages)
    if peer.is_java and options.java_warm_up:
        with peer.sends(_SENDS, options.size) as sends:
            run(sends, Pace(options.java_warm_up, 0.0), peer.pids)
        with peer.pulls(_PULLS) as pulls:
            run(pulls, Pace(options.java_warm_up, 0.0), peer.pids)
    return peer


def from_json(found: Mapping[str, Any]) -> Cold:
    """Read what `as_json` made."""
    alone, beside, pulled = (
        Figures(**{name: found[part][name] for name in Figures._fields}) for part in ("alone", "beside", "pulled")
    )
    return Cold(alone, beside, pulled, found["left_mib"])


class Middle(NamedTuple):
    """The rounds of a broker, condensed to medians."""

    rate: float
    rates: tuple[float, float]
    alone_ms: float
    beside_ms: float
    ratio: float
    cpu: float

    @classmethod
    def of(cls, rounds: Sequence[Cold]) -> Middle:
        rates = [one.pulled.rate for one in rounds]
        middle = statistics.median
        return cls(
            middle(rates), (min(rates), max(rates)), middle(one.alone.p99_ms for one in rounds),
            middle(one.beside.p99_ms for one in rounds), middle(one.p99_ratio for one in rounds),
            middle(one.pulled.cpu for one in rounds),
        )  # fmt: skip


def told(name: str, rounds: Sequence[Cold], base: Sequence[Cold]) -> str:
    """Return a line about a broker: medians, and the rate in that of the last one."""
    own, other = Middle.of(rounds), Middle.of(base)
    low, high = own.rates
    return (
        f"  {name:<8} {own.rate:>9,.0f}/s ({low:,.0f}–{high:,.0f})  × {own.rate / other.rate:.2f}  "
        f"p99 of sends {own.alone_ms:.2f} → {own.beside_ms:.2f} ms (× {own.ratio:.2f})  "
        f"CPU/M {own.cpu:.2f} with the sends  left in memory at first {max(one.left_mib for one in rounds):.0f} MiB"
    )


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.peers cold", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peers", default="pyromq,apache", help=f"of {', '.join(NAMES)}; ratios are to the last")
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--size", type=int, default=1024, help="bytes of a body")
    parser.add_argument("--rate", type=float, default=2_000.0, help="messages sent in a second")
    parser.add_argument("--seconds", type=float, default=3.0, help="of the sends alone")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--java-warm-up", type=float, default=12.0, help="seconds of sends, and of pulls")
    parser.add_argument("--json", type=Path, help="write all rounds to this file")
    options = parser.parse_args(words)
    names = options.peers.split(",")
    if unknown := set(names) - {*NAMES}:
        parser.error(f"no such peer here: {', '.join(unknown)}")
    found: dict[str, list[Cold]] = {name: [] for name in names}
    with tempfile.TemporaryDirectory(prefix="pyromq-cold-") as directory, ExitStack() as stack:
        try:
            build()
            peers = {name: start(name, Path(directory) / name, options, stack) for name in names}
        except Missing as reason:
            print(f"bench-peers cold skipped: {reason}")
            return 0
        for number in range(options.rounds):
            for name in names if number % 2 else reversed(names):
                store = next((Path(directory) / name).rglob("commitlog")).parent
                found[name].append(measure(peers[name], store, options))
    print(
        f"cold backlog of {options.messages:,} messages, sends at {options.rate:,.0f}/s; medians, ratios to {names[-1]}"
    )
    for name in names:
        print(told(name, found[name], found[names[-1]]))
    if options.json:
        rounds = {name: [one.as_json() for one in runs] for name, runs in found.items()}
        told_words = [word for word in words if word not in ("--json", str(options.json))]
        command = shlex.join(["python", "-m", "bench.peers", "cold", *told_words])
        result = {"machine": machine_facts(), "command": command, "cold": rounds}
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
