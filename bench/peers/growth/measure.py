"""The same load at several sizes of one thing, interleaved: what a message costs as the thing grows.

    python -m bench.peers growth                                    # all but the largest backlogs: about 15 minutes
    python -m bench.peers growth --quick                            # short rounds: says that it works, not how fast
    python -m bench.peers growth --only topics,size --rounds 3 --json growth.json
    python -m bench.peers growth --only backlog --backlogs 100000,1000000,10000000,100000000   # 14 GiB of disk

Every line is CPU time of the broker per message, and its ratio to that of the first size of the same thing. Messages of
a backlog that lie further back than two fifths of the machine's memory are read by the way for old messages. "Together"
is several of these things at once, which the model predicts from the costs of each.
"""

from __future__ import annotations

import argparse
import shlex
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from interop.toolkit import Missing

from pyromq.protocol.codes import RequestCode

from ..brokers.machine import machine_facts
from ..brokers.ours import NameServer, OurBroker, version
from ..brokers.peer import anonymous_kib, cpu_seconds
from ..brokers.result import QUIET, Result, Round
from ..load.build import build
from ..load.generator import Load, Pace, Ring, Shape, connected, run
from ..load.rocketmq import Backlog, Messages, ask, heartbeats, pulls, ranges, sends
from .backlog import QUEUES, TOPIC, write_backlog, write_topics
from .model import TOGETHER

OURS = "pyromq"
TOPICS, QUEUE_COUNTS = (1, 64, 1_000, 10_000), (4, 64, 1_024)
SIZES = (128, 512, 1_024, 2_048, 4_096, 8_192, 16_384, 32_768, 65_536)  # a byte is dearer where no cache holds a pass
CONNECTIONS, GROUPS, BACKLOGS = (0, 1_000, 4_000), (1, 100, 1_000), (100_000, 1_000_000, 10_000_000)
THINGS = ("topics", "queues", "size", "connections", "groups", "heartbeats", "together", "memory", "backlog")
_SEND, _WINDOW, _PULL = Shape(64, 1), Shape(8, 32), Shape(8, 1)
_PULLED, _TO_PULL, _NEAR = "growth-pulled", 100_000, 50_000
_GROUP = "growth-group-%04d"
_SOME = 2_000


class Case(NamedTuple):
    """One size of one thing: a load on a broker."""

    thing: str
    size: int
    what: str
    broker: OurBroker
    load: Callable[[], AbstractContextManager[Load]]

    def __str__(self) -> str:
        return f"{self.thing} {self.size}: {self.what}"


def spread(broker: OurBroker) -> Iterator[Case]:
    """Yield the cases of one broker that has everything: topics, queues, connections, groups, sizes."""

    def send(shape: Shape, messages: Messages) -> Callable[[], AbstractContextManager[Load]]:
        return lambda: sends(broker.address, shape, messages)

    for shape in (_SEND, _WINDOW):
        for count in TOPICS:
            yield Case("topics", count, f"send {shape}", broker, send(shape, Messages(_topics(count), queues=1)))
        for queues in QUEUE_COUNTS:
            name = _queued(queues)
            yield Case("queues", queues, f"send {shape}", broker, send(shape, Messages([name], queues=queues)))
        for size in SIZES:
            yield Case("size", size, f"send {shape}", broker, send(shape, Messages(_topics(1), size, queues=1)))
    one = Messages(_topics(1), queues=1)
    for idle in CONNECTIONS:
        yield Case("connections", idle, f"send {_SEND}", broker, lambda idle=idle: _beside(broker, idle, one))  # type: ignore[misc]
    alive = Backlog(_PULLED, [])
    yield Case("heartbeats", 1, f"heartbeat {_SEND}", broker, lambda: heartbeats(broker.address, _SEND, alive))
    many = Messages(_topics(TOGETHER["topics"]), TOGETHER["size"], queues=1)
    yield Case(
        "together", sum(TOGETHER.values()), f"send {_SEND}", broker,
        lambda: _beside(broker, TOGETHER["connections"], many),
    )  # fmt: skip
    for groups in GROUPS:
        yield Case("groups", groups, f"pull {_PULL}", broker, lambda groups=groups: _by_groups(broker, groups))  # type: ignore[misc]


def fill(broker: OurBroker, messages: Messages, enough: int) -> None:
    """Send at least so many messages."""
    sent = 0
    with sends(broker.address, _WINDOW, messages) as load:
        while sent < enough:
            sent += run(load, Pace(0.5, 0.0), [broker.pid]).messages


def _topics(count: int) -> list[str]:
    return [f"growth-{number:06d}" for number in range(count)]


def _queued(queues: int) -> str:
    return f"growth-queues-{queues}"


@contextmanager
def _beside(broker: OurBroker, idle: int, messages: Messages) -> Iterator[Load]:
    """Send while other connections do nothing."""
    with connected(broker.address, idle), sends(broker.address, _SEND, messages) as load:
        yield load


@contextmanager
def _by_groups(broker: OurBroker, groups: int) -> Iterator[Load]:
    """Pull, each request for another group."""
    there = ranges(broker.address, _PULLED, 1)
    with pulls(broker.address, _PULL, Backlog(_PULLED, there, group=_GROUP % 0)) as load:
        rings = [[_for_groups(ring, number, groups) for ring in slots] for number, slots in enumerate(load.rings)]
        yield load._replace(rings=rings)


def _for_groups(ring: Ring, connection: int, groups: int) -> Ring:
    numbers = ((connection + at * _PULL.connections) % groups for at in range(len(ring)))
    first = (_GROUP % 0).encode()
    return [request.replace(first, (_GROUP % number).encode()) for request, number in zip(ring, numbers, strict=True)]


def behind(broker: OurBroker, messages: int) -> Iterator[Case]:
    """Yield the cases of a broker with a backlog: a send, and pulls at its oldest and its newest end."""

    def near(first: bool) -> AbstractContextManager[Load]:
        there = [
            (queue, low if first else max(low, end - _NEAR), min(end, low + _NEAR) if first else end)
            for queue, low, end in ranges(broker.address, TOPIC, QUEUES)
        ]
        return pulls(broker.address, _PULL, Backlog(TOPIC, there))

    send = Messages(["beside-the-backlog"])
    yield Case("backlog", messages, f"send {_SEND}", broker, lambda: sends(broker.address, _SEND, send))
    yield Case("backlog", messages, f"pull {_PULL}, oldest", broker, lambda: near(True))
    yield Case("backlog", messages, f"pull {_PULL}, newest", broker, lambda: near(False))


def memory(directory: Path, namesrv: str) -> Iterator[tuple[str, float]]:
    """Yield the anonymous memory of a new broker in MiB, and with some thousand of one thing."""

    @contextmanager
    def fresh(name: str, topics: Mapping[str, int]) -> Iterator[OurBroker]:
        write_topics(directory / name / "store", topics)
        with OurBroker(directory / name, namesrv, {"brokerName": name}) as broker:
            yield broker

    def now(broker: OurBroker) -> float:
        return anonymous_kib(broker.pid) / 1024

    with fresh("empty", {_PULLED: 1}) as broker:
        yield "empty", now(broker)
        fill(broker, Messages([_PULLED], 128, queues=1), _TO_PULL)
        yield "after some sends", now(broker)
        with connected(broker.address, max(CONNECTIONS)) as sockets:
            for connection in sockets:
                ask(connection, RequestCode.GET_BROKER_RUNTIME_INFO, {})
            yield f"{max(CONNECTIONS)} connections", now(broker)
    with fresh("topics", dict.fromkeys(_topics(max(TOPICS)), 1)) as broker:
        yield f"{max(TOPICS)} topics", now(broker)
        fill(broker, Messages(_topics(max(TOPICS)), 128, queues=1), 2 * max(TOPICS))
        yield f"{max(TOPICS)} topics with a queue in use", now(broker)
    with fresh("groups", {_PULLED: 1}) as broker:
        fill(broker, Messages([_PULLED], queues=1), _TO_PULL)
        with _by_groups(broker, 1) as load:
            run(load, Pace(1.0, 0.0), [broker.pid])
        yield "before groups", now(broker)
        with _by_groups(broker, max(GROUPS)) as load:
            run(load, Pace(2.0, 0.0), [broker.pid])
        yield f"{max(GROUPS)} groups", now(broker)
    with fresh("together", dict.fromkeys(_topics(_SOME), 1)) as broker:
        fill(broker, Messages(_topics(_SOME), 128, queues=1), 2 * _SOME)
        with connected(broker.address, _SOME) as sockets:
            for connection in sockets:
                ask(connection, RequestCode.GET_BROKER_RUNTIME_INFO, {})
            yield f"{_SOME} connections, {_SOME} topics with a queue in use", now(broker)


class Growth:
    """Brokers of one run, and what was found."""

    def __init__(self, options: argparse.Namespace, result: Result) -> None:
        self._options, self._result = options, result
        self._stack = ExitStack()

    def run(self, directory: Path) -> None:
        """Measure what was asked for."""
        with self._stack:
            namesrv = self._stack.enter_context(NameServer(directory / "namesrv"))
            wanted = set(self._options.only)
            if wanted - {"backlog", "memory"}:
                broker = self._spread_broker(directory / "spread", namesrv.address)
                self._measure([case for case in spread(broker) if case.thing in wanted])
            if "memory" in wanted:
                self._result.memory = dict(memory(directory, namesrv.address))
                print("memory, MiB: " + ", ".join(f"{what} {mib:.1f}" for what, mib in self._result.memory.items()))
            if "backlog" in wanted:
                self._measure([case for broker in self._behind(directory, namesrv.address) for case in broker])

    def _spread_broker(self, home: Path, namesrv: str) -> OurBroker:
        queued = {_queued(queues): queues for queues in QUEUE_COUNTS}
        write_topics(home / "store", {**dict.fromkeys(_topics(max(TOPICS)), 1), **queued, _PULLED: 1})
        broker = self._start(home, namesrv)
        fill(broker, Messages([_PULLED], queues=1), _TO_PULL)
        fill(broker, Messages(_topics(max(TOPICS)), 128, queues=1), 2 * max(TOPICS))  # every queue has its file
        fill(broker, Messages([_queued(max(QUEUE_COUNTS))], 128, queues=max(QUEUE_COUNTS)), 2 * max(QUEUE_COUNTS))
        return broker

    def _start(self, home: Path, namesrv: str) -> OurBroker:
        settings = {"brokerName": f"growth-{home.name}", "flushDiskType": "ASYNC_FLUSH"}
        return self._stack.enter_context(OurBroker(home, namesrv, settings | dict(self._options.set)))

    def _behind(self, directory: Path, namesrv: str) -> Iterator[Iterator[Case]]:
        """Write the backlogs; start a broker on each, several times, for the time that takes; yield its cases."""
        for messages in self._options.backlogs:
            home = directory / f"backlog-{messages}"
            began = time.monotonic()
            write_backlog(home / "store", messages)
            print(f"{messages:,} messages written in {time.monotonic() - began:.0f} s", flush=True)
            starts = []
            for _ in range(self._options.rounds):
                began = time.monotonic()
                broker = OurBroker(home, namesrv, {"brokerName": f"growth-{messages}"})
                starts.append((time.monotonic() - began, cpu_seconds(broker.pid)))
                broker.stop()
            seconds, cpu = (", ".join(f"{one:.2f}" for one in values) for values in zip(*starts, strict=True))
            self._result.peers[f"start with {messages} messages"] = {"seconds": seconds, "cpu": cpu}
            print(f"started in {seconds} s; CPU {cpu} s", flush=True)
            yield behind(self._start(home, namesrv), messages)

    def _measure(self, cases: Sequence[Case]) -> None:
        """Run the cases of one thing and load in turn, round after round."""
        by_load = sorted(cases, key=lambda case: (THINGS.index(case.thing), case.what))
        for (thing, what), group in groupby(by_load, key=lambda case: (case.thing, case.what)):
            sizes = list(group)
            for number in range(self._options.rounds + 1):
                for case in sizes if number % 2 else reversed(sizes):
                    self._round(case, number)
            print(f"{thing}, {what}: " + ", ".join(self._told(case, sizes[0]) for case in sizes), flush=True)
            self._result.save()

    def _round(self, case: Case, number: int) -> None:
        pids = [case.broker.pid]
        for attempt in range(1 + self._options.repeats):
            with case.load() as load:
                figures = run(load, Pace(self._options.seconds, 0.4), pids)
                memory = anonymous_kib(pids[0]) / 1024
            if not number:  # opens files that are opened when needed
                return
            self._result.rounds.append(Round(str(case), OURS, number, attempt, memory, figures))
            if figures.neighbours <= QUIET:
                return

    def _told(self, case: Case, first: Case) -> str:
        own, base = (self._result.median(str(one), OURS) for one in (case, first))
        if own is None or base is None:
            return f"{case.size:,} not measured"
        return f"{case.size:,} {own.cpu:.2f} µs (× {own.cpu / base.cpu:.2f}, {own.memory_mib:.0f} MiB)"


def _setting(text: str) -> tuple[str, str]:
    key, _, value = text.partition("=")
    return key, value


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.peers growth", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", type=lambda text: text.split(","), default=THINGS, help=f"of {', '.join(THINGS)}")
    parser.add_argument("--backlogs", type=lambda text: [int(part) for part in text.split(",")], default=BACKLOGS)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--repeats", type=int, default=2, help="of a run beside which others used the machine")
    parser.add_argument("--quick", action="store_true", help="one round of half a second, small backlogs, no repeats")
    parser.add_argument("--directory", type=Path, help="where the stores are written; a temporary one otherwise")
    parser.add_argument("--set", type=_setting, action="append", default=[], help="KEY=VALUE for the brokers")
    parser.add_argument("--json", type=Path, help="write all rounds to this file")
    options = parser.parse_args(words)
    if options.quick:
        options.rounds, options.seconds, options.repeats, options.backlogs = 1, 0.5, 0, (10_000, 100_000)
    try:
        build()
    except Missing as reason:
        print(f"bench-peers growth skipped: {reason}")
        return 0
    told = [word for word in words if word not in ("--json", str(options.json), "--directory", str(options.directory))]
    result = Result(machine_facts(), shlex.join(["python", "-m", "bench.peers", "growth", *told]), path=options.json)
    result.peers[OURS] = {"version": version()}
    with tempfile.TemporaryDirectory(prefix="pyromq-growth-", dir=options.directory) as directory:
        Growth(options, result).run(Path(directory))
    result.save()
    return 0
