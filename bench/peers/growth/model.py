"""The capacity model: what a message costs by the sizes of things.

A cost is the CPU time of the broker for one message. Of each thing every other measured size, and the largest, make the
model: a straight line from one to the next, over the size of a message and the number of idle connections, and over the
logarithm of all other numbers. The sizes between check it, and so does a load in which several things are large at
once: its cost is that of the smallest load and what each thing adds. Memory is that of a broker in use and so much for
each thing.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from ..brokers.result import Result

_CASE = re.compile(r"(\w+) (\d+): (.+)")
_STRAIGHT = ("size", "connections")
TOGETHER = {"topics": 1_000, "size": 8_192, "connections": 1_000}
"""The load that has several things at once; its sizes are measured one by one, too."""
_USUAL_SIZE = 1_024
_HEARTBEAT_S = 30
_BUSY = 0.6
"""The part of a core that a broker should use; the rest is for peaks."""


class Point(NamedTuple):
    """A measured cost, and what the model says about it."""

    thing: str
    size: int
    what: str
    cost: float
    first: float
    """The cost at the smallest size."""
    predicted: float
    is_given: bool
    """Whether the model was made from this point, so that it predicts nothing."""

    @property
    def error(self) -> float:
        return self.predicted / self.cost - 1


def points(result: Result, peer: str) -> Iterator[Point]:
    """Yield all measured points, by thing and load, from the smallest size."""
    costs: dict[tuple[str, str], dict[int, float]] = {}
    for work in result.works():
        found, case = result.median(work, peer), _CASE.fullmatch(work)
        if found and case:
            costs.setdefault((case[1], case[3]), {})[int(case[2])] = found.cpu
    for (thing, what), line in costs.items():
        if thing == "together":
            yield from _together(costs, what, *line.items())
            continue
        given = _given(line)
        for size in sorted(line):
            yield Point(thing, size, what, line[size], line[min(line)], _between(thing, size, given), size in given)


def _given(line: Mapping[int, float]) -> dict[int, float]:
    """Return the points that the model is made of."""
    sizes = sorted(line)
    return {size: line[size] for size in [*sizes[:-1:2], sizes[-1]]}


def _together(
    costs: Mapping[tuple[str, str], Mapping[int, float]], what: str, measured: tuple[int, float]
) -> Iterator[Point]:
    """Yield the point at which several things are large, if each of them was measured alone."""
    first, added = [], 0.0
    for thing, size in TOGETHER.items():
        line = costs.get((thing, what), {})
        if len(line) < 2:
            return
        usual = min(line) if thing != "size" else _USUAL_SIZE
        first.append(line.get(usual, line[min(line)]))
        added += _between(thing, size, _given(line)) - _between(thing, usual, _given(line))
    base = statistics.median(first)  # the same load, measured with each thing
    yield Point("together", measured[0], what, measured[1], base, base + added, is_given=False)


def _between(thing: str, size: int, given: Mapping[int, float]) -> float:
    scale = float if thing in _STRAIGHT else math.log1p
    sizes = sorted(given)
    return float(np.interp(scale(size), [scale(one) for one in sizes], [given[one] for one in sizes]))


class Held(NamedTuple):
    """The memory of a broker that holds something: measured, and what the model says."""

    what: str
    mib: float
    each_kib: float | None
    """KiB for each, where this line is what the model is made of."""
    predicted: float | None = None


def held(memory: Mapping[str, float]) -> list[Held]:
    """Return the lines of the memory model: one more thing at a time; the last one checks it."""
    lines, each = [], {"connections": 0.0, "topics": 0.0, "queues": 0.0}
    before = {"connections": "after some sends", "topics": "empty"}
    in_use = memory.get("after some sends", 0.0) - memory.get("empty", 0.0)
    for what, mib in memory.items():
        if match := re.fullmatch(r"(\d+) (connections|topics)", what):
            each[match[2]] = (mib - memory[before[match[2]]]) * 1024 / int(match[1])
            lines.append(Held(what, mib, each[match[2]]))
        elif match := re.fullmatch(r"(\d+) topics with a queue in use", what):
            each["queues"] = (mib - memory[f"{match[1]} topics"] - in_use) * 1024 / int(match[1])
            lines.append(Held(what, mib, each["queues"]))
        elif match := re.fullmatch(r"(\d+) groups", what):
            lines.append(Held(what, mib, (mib - memory["before groups"]) * 1024 / int(match[1])))
        elif match := re.fullmatch(r"(\d+) connections, (\d+) topics with a queue in use", what):
            more = int(match[1]) * each["connections"] + int(match[2]) * (each["topics"] + each["queues"])
            lines.append(Held(what, mib, None, memory["after some sends"] + more / 1024))
        else:
            lines.append(Held(what, mib, None))
    return lines


class Prices(NamedTuple):
    """What the cluster on paper is made of: microseconds a message and a heartbeat, KiB a connection."""

    send: float
    pull: float
    heartbeat: float
    connection_kib: float


def prices(brokers: Result, growth: Result, peer: str) -> Prices | None:
    """Return the prices that these results have, or None if one is missing."""
    send, pull = brokers.median("send 8x32", peer), brokers.median("pull 8x1", peer)
    beat = next((point.cost for point in points(growth, peer) if point.thing == "heartbeats"), None)
    kib = next((line.each_kib for line in held(growth.memory) if line.what.endswith(" connections")), None)
    if send is None or pull is None or beat is None or kib is None:
        return None
    return Prices(send.cpu, pull.cpu, beat, kib)


def cluster(costs: Prices, rate: int, clients: int) -> list[tuple[str, str, str]]:
    """Return what a cluster needs for a rate of 1 KiB messages, each sent once and pulled once: what, how, how much.

    Every client is connected to every broker, which is the worst case, and says so every 30 seconds.
    """
    message = costs.send + costs.pull
    alive = clients / _HEARTBEAT_S * costs.heartbeat / 1e6
    brokers = math.ceil(rate * message / 1e6 / (_BUSY - alive))
    log = rate * 1.21 / 1e6
    return [
        (
            "CPU for messages",
            f"{rate:,} × ({costs.send:.1f} + {costs.pull:.1f}) µs",
            f"{rate * message / 1e6:.1f} cores",
        ),
        (
            "CPU for heartbeats, each broker",
            f"{clients:,} every {_HEARTBEAT_S} s × {costs.heartbeat:.0f} µs",
            f"{alive:.2f} of a core",
        ),
        ("brokers", f"one core each, {_BUSY:.0%} busy with both", f"{brokers}"),
        ("messages a broker", f"{rate:,} / {brokers}", f"{rate / brokers:,.0f}/s"),
        ("log a broker", f"1.21 KB a message, {log:.2f} GB/s in all", f"{log * 1000 / brokers:.0f} MB/s"),
        ("network a broker", "1.39 KB in, 1.21 KB out a message", f"{rate * 2.6 / 1e3 / brokers:.0f} MB/s"),
        (
            "memory for clients, each broker",
            f"{clients:,} connections × {costs.connection_kib:.1f} KiB",
            f"{clients * costs.connection_kib / 1024:,.0f} MiB",
        ),
    ]
