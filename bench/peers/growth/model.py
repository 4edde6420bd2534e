"""The capacity model: what a message costs by the sizes of things, from two measured points of each.

A cost is the CPU time of the broker for one message. It is a straight line over the size of a message and the number of
idle connections, and over the logarithm of all other numbers, through the smallest and the largest measured point.
The points between them check it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import NamedTuple

from ..brokers.result import Result

_CASE = re.compile(r"(\w+) (\d+): (.+)")
_STRAIGHT = ("size", "connections")
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
        ends = min(line), max(line)
        for size in sorted(line):
            guess = _between(thing, size, ends, (line[ends[0]], line[ends[1]]))
            yield Point(thing, size, what, line[size], line[ends[0]], guess, size in ends)


def _between(thing: str, size: int, ends: tuple[int, int], costs: tuple[float, float]) -> float:
    scale = float if thing in _STRAIGHT else math.log1p
    low, here, high = (scale(one) for one in (ends[0], size, ends[1]))
    return costs[0] + (costs[1] - costs[0]) * (here - low) / (high - low) if high > low else costs[0]


class Prices(NamedTuple):
    """What the cluster on paper is made of: microseconds a message, KiB a connection."""

    send: float
    pull: float
    connection_kib: float


def prices(brokers: Result, growth: Result, peer: str) -> Prices | None:
    """Return the prices that these results have, or None if one is missing."""
    send, pull = brokers.median("send 8x32", peer), brokers.median("pull 8x1", peer)
    with_connections = next((name for name in growth.memory if name.endswith(" connections")), None)
    if send is None or pull is None or with_connections is None:
        return None
    kib = (growth.memory[with_connections] - growth.memory["empty"]) * 1024 / int(with_connections.split()[0])
    return Prices(send.cpu, pull.cpu, kib)


def cluster(costs: Prices, rate: int, clients: int) -> list[tuple[str, str, str]]:
    """Return what a cluster needs for a rate of 1 KiB messages, each sent once and pulled once: what, how, how much."""
    cores = rate * (costs.send + costs.pull) / 1e6
    brokers = math.ceil(cores / _BUSY)
    log = rate * 1.21 / 1e6
    return [
        ("CPU", f"{rate:,} × ({costs.send:.1f} + {costs.pull:.1f}) µs", f"{cores:.1f} cores"),
        ("brokers", f"one core each, {_BUSY:.0%} busy", f"{brokers}"),
        ("messages a broker", f"{rate:,} / {brokers}", f"{rate / brokers:,.0f}/s"),
        ("log a broker", f"1.21 KB a message, {log:.2f} GB/s in all", f"{log * 1000 / brokers:.0f} MB/s"),
        ("network a broker", "1.39 KB in, 1.21 KB out a message", f"{rate * 2.6 / 1e3 / brokers:.0f} MB/s"),
        (
            "memory for clients",
            f"{clients:,} connections to each × {costs.connection_kib:.1f} KiB",
            f"{clients * costs.connection_kib / 1024:,.0f} MiB",
        ),
    ]
