"""LongPolling: pulls that found nothing and wait for a message to arrive.

They are kept by topic and queue id, without a task or a timer for each. An arrival looks up its queue, and one timer
for all of them ends those that have waited long enough.
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
PASSED_OVER_LIMIT = 5.0  # RocketMQ checks every 5 s if the offset of a held pull can move on


class HeldPull(Struct, eq=False):
    """One held pull: who asked, for which tags (None for all), until when, and how to look for what it wants."""

    request: RemotingCommand
    connection: Connection
    key: tuple[str, int]
    offset: int
    codes: frozenset[int] | None
    deadline: float
    look: Callable[[int], tuple[bool, int]] | None = None
    """For filters that need more than the tag: returns whether a message from an offset on is wanted, and where to look
    next time."""

    def wants(self, arrival: Arrival) -> bool:
        """Return True if this pull waits for the message, or for one that came with it."""
        if self.look is None:
            return self.codes is None or arrival.tags_code in self.codes
        found, self.offset = self.look(self.offset)
        return found


class LongPolling:
    """Holds pulls and passes them to `resume` when a message arrives or their time is up."""

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
        """Hold a pull; raise SystemBusy if too many are held, ServiceNotAvailable if this is closed."""
        if self._closed:
            raise ServiceNotAvailable("this broker is stopping")
        if self._count >= self._limit:
            # Answering "nothing new" would make the client ask again at once; after an error it waits a second.
            raise SystemBusy(f"{self._count} pulls are already held, the most that this broker allows")
        self._by_queue.setdefault(pull.key, {})[pull] = None
        self._by_connection.setdefault(pull.connection, set()).add(pull)
        self._count += 1
        if self._timer is None:
            self._timer = self._clock.call_later(SWEEP_PERIOD, self._sweep)

    def on_arrival(self, arrivals: Iterable[Arrival]) -> None:
        """Resume the pulls that wait for these messages; called after each commit of the store."""
        if not self._count:
            return
        for arrival in arrivals:
            waiting = self._by_queue.get((arrival.topic, arrival.queue_id))
            if waiting:
                self._offer(waiting, arrival)

    def drop(self, connection: Connection) -> None:
        """Drop the pulls of a closed connection."""
        for pull in self._by_connection.pop(connection, ()):
            self._leave_queue(pull)

    def close(self) -> None:
        """Resume all held pulls and refuse new ones.

        A Java client does not notice that a connection has closed while it waits for an answer on it. Without an answer
        it would not read this queue for 30 s.
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
                continue  # it asked for a later offset
            if pull.wants(arrival):
                self._release(pull)
            else:
                # Let its offset move on soon, else the consumer seems to lag behind messages that it does not want.
                pull.deadline = min(pull.deadline, self._clock.monotonic() + PASSED_OVER_LIMIT)

    def _sweep(self) -> None:
        self._timer = None
        now = self._clock.monotonic()
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
