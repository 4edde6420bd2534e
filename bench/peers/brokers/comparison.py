"""Sends and pulls on several brokers, interleaved, in one run.

    python -m bench.peers brokers                                     # all peers and shapes: most of an hour
    python -m bench.peers brokers --quick                             # short rounds: says that it works, not how fast
    python -m bench.peers brokers --peers pyromq,apache --works 'send 64x1, pull 8x8' --json FILE
    python -m bench.peers brokers --peers pyromq,apache,apache-again  # A against A: what noise leaves

Every peer gets the same body, key, tag, number of queues, requests in flight and promise; what a peer cannot promise or
do is said and left out. In each round each peer runs once, in alternating order. A run during which other processes
used more than 0.3 of a core is repeated, at most twice; all runs are kept. Java's brokers run each shape for a while
before the first round. CPU time is that of the broker's processes; a name server is not counted.
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import groupby
from pathlib import Path

from interop.toolkit import Missing
from interop.toolkit import prepare as apache_toolkit

from ..load.build import build
from ..load.generator import Figures, Pace, run
from .kafka import start_kafka
from .machine import machine_facts
from .nats import start_nats
from .peer import Peer
from .rabbitmq import start_rabbitmq
from .redis import start_redis
from .result import QUIET, Result, Round
from .rocketmq import start_apache, start_ours
from .work import Setting, Work

WORKS = (
    "send 1x1, send 64x1, send 256x1, send 8x32, send 32x32, pull 8x1, pull 64x1, pull 8x8, "
    "sync 1x1, sync 64x1, sync 8x32, pair 64x1, pair 8x32, acl 64x1, acl 8x32"
)
_AGAIN = "-again"
_TOLD = 300
Start = Callable[[Setting, Path, ExitStack], Peer]

PEERS: dict[str, Start] = {
    "pyromq": start_ours,
    "plain": lambda setting, directory, stack: start_ours(setting, directory, stack, {"PYROMQ_LANE": "plain"}),
    "apache": lambda setting, directory, stack: start_apache(apache_toolkit(), setting, directory, stack),
    "kafka": start_kafka,
    "redis": start_redis,
    "nats": start_nats,
    "rabbitmq": start_rabbitmq,
}


class Comparison:
    """The peers of one run, and what was found."""

    def __init__(self, options: argparse.Namespace, result: Result) -> None:
        self._options = options
        self._result = result
        self._pace = Pace(options.seconds, options.warm_up)

    def measure_all(self, works: Sequence[Work]) -> None:
        """Measure works by the setting of the servers, so that only those of one setting run at a time."""
        for setting, group in groupby(sorted(works, key=lambda work: list(Setting).index(work.setting)), _setting_of):
            with tempfile.TemporaryDirectory(prefix="pyromq-peers-") as directory, ExitStack() as stack:
                own = list(group)
                pulled = any(work.is_pull for work in own)
                peers = dict(self._started(setting, Path(directory), stack, pulled))
                for name, peer in peers.items():
                    self._result.peers[f"{name} {setting.name}"] = peer.about
                for work in own:
                    self._measure(work, peers)
                    self._result.save()

    def _started(self, setting: Setting, directory: Path, stack: ExitStack, pulled: bool) -> Iterator[tuple[str, Peer]]:
        """Start the peers; one that is missing or does not start is told and left out, the others go on."""
        for name in self._options.peers:
            try:
                peer = PEERS[name.removesuffix(_AGAIN)](setting, directory / name, stack)
                if pulled and peer.can_pull:
                    peer.fill()
            except (Missing, RuntimeError, AssertionError) as reason:
                self._result.missing[f"{name} {setting.name}"] = str(reason)[:_TOLD]
                print(f"{name}, {setting.name}: left out: {reason}", flush=True)
                continue
            yield name, peer

    def _measure(self, work: Work, peers: dict[str, Peer]) -> None:
        able = {name: peer for name, peer in peers.items() if peer.can_pull or not work.is_pull}
        for name, peer in able.items():
            if peer.is_java and self._options.java_warm_up:
                self._tried(work, name, peer, "warm-up", Pace(self._options.java_warm_up, 0.0))
        print(f"\n{work}: {work.setting.value}")
        for number in range(1, self._options.rounds + 1):
            for name in able if number % 2 else reversed(able):
                self._round(work, name, able[name], number)
        print(self._result.summary(work), flush=True)

    def _round(self, work: Work, name: str, peer: Peer, number: int) -> None:
        for attempt in range(1 + self._options.repeats):
            figures = self._tried(work, name, peer, f"round {number}", self._pace)
            if figures is None:
                return
            self._result.rounds.append(Round(str(work), name, number, attempt, peer.memory_mib(), figures))
            if figures.neighbours <= QUIET:
                return

    def _tried(self, work: Work, name: str, peer: Peer, when: str, pace: Pace) -> Figures | None:
        """Run a load once. A run with an error is told and does not count."""
        try:
            with peer.pulls(work.shape) if work.is_pull else peer.sends(work.shape, self._options.size) as load:
                figures = run(load, pace, peer.pids)
        except RuntimeError as error:
            self._result.missing[f"{name} {work}, {when}"] = str(error)
            print(f"{name}, {work}, {when}: not counted: {error}", flush=True)
            return None
        peer.tidy()
        return figures


def _setting_of(work: Work) -> Setting:
    return work.setting


def _options(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.peers brokers", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peers", type=_names, default=list(PEERS), help=f"of {', '.join(PEERS)}; NAME{_AGAIN} too")
    parser.add_argument("--works", default=WORKS, help="%(default)s")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--warm-up", type=float, default=0.5, help="seconds before each run that are not counted")
    parser.add_argument("--java-warm-up", type=float, default=25.0, help="seconds of each shape before the first round")
    parser.add_argument("--repeats", type=int, default=2, help="of a run beside which others used the machine")
    parser.add_argument("--size", type=int, default=1024, help="bytes of a body")
    parser.add_argument("--cores", type=_cores, help="such as 0,1: everything runs on these")
    parser.add_argument("--quick", action="store_true", help="two rounds of a second, little warm-up, no repeats")
    parser.add_argument("--json", type=Path, help="write all rounds to this file")
    options = parser.parse_args(words)
    if options.quick:
        options.rounds, options.seconds, options.java_warm_up, options.repeats = 2, 1.0, 3.0, 0
    return options


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    if unknown := [name for name in names if name.removesuffix(_AGAIN) not in PEERS]:
        raise argparse.ArgumentTypeError(f"no such peer: {', '.join(unknown)}")
    return names


def _cores(text: str) -> set[int]:
    return {int(core) for core in text.split(",")}


def main(words: Sequence[str]) -> int:
    options = _options(words)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # unwinds, so that everything is stopped
    if options.cores:
        os.sched_setaffinity(0, options.cores)  # and of all that is started
    try:
        build()
    except Missing as reason:
        print(f"bench-peers brokers skipped: {reason}")
        return 0
    told = [word for word in words if word not in ("--json", str(options.json))]
    result = Result(machine_facts(), shlex.join(["python", "-m", "bench.peers", "brokers", *told]), path=options.json)
    Comparison(options, result).measure_all([Work.of(text) for text in options.works.split(",")])
    result.save()
    return 0
