"""What `bench send` and `bench consume` ask of a broker, and how processes share it.

A load is a value, so it can be passed to another process. With several processes each runs a part of the connections.
All begin at the same moment, and only the first one looks at the broker's CPU time.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Sequence
from multiprocessing.pool import AsyncResult, Pool
from multiprocessing.synchronize import Barrier
from threading import BrokenBarrierError

from msgspec import Struct
from msgspec.structs import replace

from pyromq.cli.bench.load_generator import drive, slot_groups
from pyromq.cli.bench.load_slots import PullSlot, SendSlot, SignedPullSlot, SignedSendSlot, Slot
from pyromq.cli.bench.measurement import Measurement, PartResult, show_rate_during
from pyromq.errors import ClientError
from pyromq.protocol.acl import Credentials
from pyromq.remoting.loop import run

_STARTING_TIME = 60.0  # seconds for all processes to be there

_barrier: Barrier | None = None


class Load(Struct, kw_only=True):
    """Requests of one kind, over some connections to the brokers of a topic."""

    addresses: Sequence[tuple[str, int]]
    topic: str
    connections: int
    in_flight: int
    duration: float
    warm_up: float
    count: int = 0
    rate: float = 0.0
    """Requests a second of all connections together; 0: as fast as they are answered."""
    account: Credentials | None = None
    broker_pids: Sequence[int] = ()
    number: int = 0
    """Which of the processes has it."""

    def slot(self, index: int) -> Slot:
        """Return the slot with this number over all connections of this process."""
        raise NotImplementedError

    def shared(self, processes: int) -> list[Load]:
        """Divide it among processes, as evenly as the connections allow."""
        parts: list[Load] = []
        begin = 0
        for number in range(processes):
            connections = self.connections // processes + (number < self.connections % processes)
            end = begin + connections
            count = self.count * end // self.connections - self.count * begin // self.connections
            rate = self.rate * connections / self.connections
            part = replace(self, connections=connections, number=number, rate=rate, count=count)
            begin = end
            parts.append(part if number == 0 else replace(part, broker_pids=()))
        return parts


class SendLoad(Load, kw_only=True):
    """Sends of messages of one size."""

    queues: int
    size: int
    tag: str
    seed: str

    def slot(self, index: int) -> Slot:
        body = os.urandom((self.size + 1) // 2).hex()[: self.size].encode()
        own = self.number << 16 | index  # so that no two processes make the same id
        given = own, self.topic, index % self.queues, body, self.seed, "pyromq-bench", self.tag
        return SendSlot(*given) if self.account is None else SignedSendSlot(self.account, *given)


class PullLoad(Load, kw_only=True):
    """Pulls of the messages that are there."""

    ranges: Sequence[tuple[int, int, int]]
    batch: int

    def slot(self, index: int) -> Slot:
        queue_id, low, high = self.ranges[index % len(self.ranges)]
        given = self.number << 16 | index, self.topic, queue_id, low, high, self.batch, "TOOLS_CONSUMER"
        return PullSlot(*given) if self.account is None else SignedPullSlot(self.account, *given)


def run_load(load: Load, processes: int) -> list[PartResult]:
    """Run a load in so many processes, at most one for each connection; return what each of them measured."""
    processes = min(processes, load.connections)
    if processes == 1:
        return [_run_part(load, live=True)]
    context = multiprocessing.get_context("spawn")  # a fork would share the loop and its sockets
    barrier = context.Barrier(processes)
    with context.Pool(processes, _set_barrier, (barrier,)) as pool:
        return _results(pool, [pool.apply_async(_run_together, (part,)) for part in load.shared(processes)])


def _results(pool: Pool, running: Sequence[AsyncResult[PartResult]]) -> list[PartResult]:
    try:
        return [part.get() for part in running]
    except BrokenBarrierError:
        raise ClientError(f"the processes were not ready within {_STARTING_TIME:g} s") from None


def _set_barrier(barrier: Barrier) -> None:
    global _barrier
    _barrier = barrier


def _run_together(load: Load) -> PartResult:
    assert _barrier is not None
    _barrier.wait(_STARTING_TIME)
    return _run_part(load, live=False)


def _run_part(load: Load, *, live: bool) -> PartResult:
    measure = Measurement(load.duration, load.warm_up, load.count, load.broker_pids)

    async def work() -> None:
        slots = slot_groups(load.connections, load.in_flight, load.slot)
        driving = drive(load.addresses, slots, measure.counts, measure.budget, load.rate)
        await (show_rate_during(driving, measure.counts) if live else driving)

    run(work())
    return measure.result()
