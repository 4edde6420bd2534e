"""Pulls that found nothing and wait for a message to arrive.

They are parked by (topic, queue id), without a task or a timer each: an arrival looks up its queue, and one timer
for all sweeps what has waited long enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from msgspec import Struct

from pyromq.clock import Clock, TimerHandle
from pyromq.errors import ServiceNotAvailable, SystemBusy
from pyromq.figures import BoundFigures, Figure, Kind
from pyromq.protocol.command import RemotingCommand
from pyromq.remoting.connection import Connection
from pyromq.store.results import Arrival

SWEEP_PERIOD = 1.0
PASSED_OVER_LIMIT = 5.0  # RocketMQ looks every 5 s whether a held pull's offset can move on


class HeldPull(Struct, eq=False):
    """One pull that waits: who asked, for which tags (None: all), until when, and how to look for what it wants."""

    request: RemotingCommand
    connection: Connection
    key: tuple[str, int]
    offset: int
    codes: frozenset[int] | None
    deadline: float
    look: Callable[[int], tuple[bool, int]] | None = None
    """For filters that need more than the tag: tells of the messages from an offset on whether one is wanted, and
    where to look next time."""

    def wants(self, arrival: Arrival) -> bool:
        """Tell whether a message, or one that came with it, is what this pull waits for."""
        if self.look is None:
            return self.codes is None or arrival.tags_code in self.codes
        found, self.offset = self.look(self.offset)
        return found


class LongPolling:
    """Holds pulls and gives them to `resume` when a message arrives or their time is up."""

    def __init__(self, clock: Clock, limit: int, resume: Callable[[HeldPull], None]) -> None:
        self._clock = clock
        self._limit = limit
        self._resume = resume
        self._by_queue: dict[tuple[str, int], dict[HeldPull, None]] = {}
        self._by_connection: dict[Connection, set[HeldPull]] = {}
        self._count = 0
        self._timer: TimerHandle | None = None
        self._closed = False

    def __len__(self) -> int:
        return self._count

    def figures(self) -> BoundFigures[LongPolling]:
        """Return the figures of the held pulls."""
        return BoundFigures(_FIGURES, lambda: self)

    def hold(self, pull: HeldPull) -> None:
        """Park a pull; raise SystemBusy when too many wait already, ServiceNotAvailable once this is closed."""
        if self._closed:
            raise ServiceNotAvailable("this broker is stopping")
        if self._count >= self._limit:
            # Answering "nothing new" would make the client ask again at once; after an error it waits a second.
            raise SystemBusy(f"{self._count} pulls are waiting already, the most that this broker holds")
        self._by_queue.setdefault(pull.key, {})[pull] = None
        self._by_connection.setdefault(pull.connection, set()).add(pull)
        self._count += 1
        if self._timer is None:
            self._timer = self._clock.call_later(SWEEP_PERIOD, self._sweep)

    def on_arrival(self, arrivals: Iterable[Arrival]) -> None:
        """Resume the pulls that wait for these messages; the store calls it after each commit."""
        if not self._count:
            return
        for arrival in arrivals:
            waiting = self._by_queue.get((arrival.topic, arrival.queue_id))
            if waiting:
                self._offer(waiting, arrival)

    def drop(self, connection: Connection) -> None:
        """Forget the pulls of a connection that has closed."""
        for pull in self._by_connection.pop(connection, ()):
            self._leave_queue(pull)

    def close(self) -> None:
        """Resume everything held, and hold nothing more.

        Java's clients do not notice that a connection has ended while they wait for an answer on it: a pull that got
        none would keep its queue from being read for 30 s.
        """
        self._closed = True
        for pull in [pull for waiting in self._by_queue.values() for pull in waiting]:
            self._release(pull)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _offer(self, waiting: dict[HeldPull, None], arrival: Arrival) -> None:
        for pull in tuple(waiting):
            if arrival.queue_offset < pull.offset:
                continue  # it asked for what lies ahead
            if pull.wants(arrival):
                self._release(pull)
            else:
                # Let its offset move on soon, or the consumer seems to lag behind messages it does not want.
                pull.deadline = min(pull.deadline, self._clock.now() + PASSED_OVER_LIMIT)

    def _sweep(self) -> None:
        self._timer = None
        now = self._clock.now()
        due = [pull for waiting in self._by_queue.values() for pull in waiting if pull.deadline <= now]
        for pull in due:
            self._release(pull)
        if self._count and self._timer is None:
            self._timer = self._clock.call_later(SWEEP_PERIOD, self._sweep)

    def _release(self, pull: HeldPull) -> None:
        mine = self._by_connection.get(pull.connection)
        if mine is None or pull not in mine:
            return
        mine.discard(pull)
        if not mine:
            del self._by_connection[pull.connection]
        self._leave_queue(pull)
        self._resume(pull)

    def _leave_queue(self, pull: HeldPull) -> None:
        waiting = self._by_queue[pull.key]
        del waiting[pull]
        if not waiting:
            del self._by_queue[pull.key]
        self._count -= 1


_FIGURES: Final[tuple[Figure[LongPolling], ...]] = (
    Figure("held_pulls", "Pulls that wait for a message.", Kind.GAUGE, lambda held: len(held)),
)
