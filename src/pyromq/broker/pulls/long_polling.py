"""LongPolling: pulls that found nothing and wait for a message to arrive.

They are kept by queue, and within a queue by the tags that they want, without a task or a timer for each. A commit
looks at each kind of tags once, however many messages it brings and however many pulls wait for other tags. One timer
for all of them ends those that have waited long enough.

    hold → waiting in its queue → wanted, passed over for 5 s, or out of time → ready → resume

A message that thousands wait for makes them all ready at once. They are resumed in slices, one for each pass of the
loop, so that everything else goes on meanwhile.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from time import perf_counter
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
SLICE: Final = 0.005
"""Seconds of work for held pulls in one pass of the loop; a single pull may take longer."""

Look = Callable[[int], tuple[bool, int]]
_Found = dict[tuple[object, tuple[str, int], int], tuple[bool, int]]


class HeldPull(Struct, eq=False):
    """One held pull: who asked, for which tags (None for all), until when, and how to look for what it wants."""

    request: RemotingCommand
    connection: Connection
    key: tuple[str, int]
    offset: int
    codes: frozenset[int] | None
    deadline: float
    look: Look | None = None
    """For filters that need more than the tag: returns whether a message from an offset on is wanted, and where to look
    next time."""
    look_key: object = None
    """Pulls of one queue that have the same key find the same."""
    waits: bool = False
    """Whether it is in its queue; set by LongPolling."""
    due: int = 0
    """The second in which its time is up; set by LongPolling."""


class _FilteredPulls:
    """The pulls of one queue that want some of its messages."""

    __slots__ = ("by_codes", "fresh", "looking")

    def __init__(self) -> None:
        self.by_codes: dict[frozenset[int], dict[HeldPull, None]] = {}
        self.fresh: dict[HeldPull, None] = {}
        """Those in `by_codes` that no message has passed over yet."""
        self.looking: dict[HeldPull, None] = {}
        """Those whose filter needs more than the tag."""

    def __bool__(self) -> bool:
        return bool(self.by_codes or self.looking)

    def add(self, pull: HeldPull) -> None:
        """Let a pull wait here."""
        if pull.look is not None or pull.codes is None:
            self.looking[pull] = None
        else:
            self.by_codes.setdefault(pull.codes, {})[pull] = None
            self.fresh[pull] = None

    def remove(self, pull: HeldPull) -> None:
        """Take a pull out."""
        if pull.look is not None or pull.codes is None:
            del self.looking[pull]
            return
        alike = self.by_codes[pull.codes]
        del alike[pull]
        if not alike:
            del self.by_codes[pull.codes]
        self.fresh.pop(pull, None)

    def wanting(self, newest: dict[int, int]) -> Iterator[HeldPull]:
        """Yield the pulls for tags that want one of these; `newest` has the highest offset for each tags code."""
        for codes, alike in self.by_codes.items():
            if arrived := codes & newest.keys():
                last = max(newest[code] for code in arrived)
                yield from (pull for pull in alike if pull.offset <= last)

    def take_passed_over(self, highest: int) -> list[HeldPull]:
        """Return the pulls that a message up to this offset has passed over, each only once."""
        passed_over = [pull for pull in self.fresh if pull.offset <= highest]
        for pull in passed_over:
            del self.fresh[pull]
        return passed_over


class LongPolling:
    """Holds pulls and passes them to `resume` when a message arrives or their time is up."""

    def __init__(
        self,
        clock: Clock,
        limit: int,
        resume: Callable[[HeldPull], None],
        *,
        seconds: Callable[[], float] = perf_counter,
    ) -> None:
        """Hold up to `limit` pulls; `seconds` measures how long a slice of work takes."""
        self._clock = clock
        self._limit = limit
        self._resume = resume
        self._seconds = seconds
        self._plain: dict[tuple[str, int], dict[HeldPull, None]] = {}
        self._filtered: dict[tuple[str, int], _FilteredPulls] = {}
        self._by_connection: dict[Connection, set[HeldPull]] = {}
        self._by_second: dict[int, dict[HeldPull, None]] = {}
        """When their time is up, so that the sweep looks at no others."""
        self._ready: deque[HeldPull] = deque()
        self._to_look: OrderedDict[HeldPull, None] = OrderedDict()
        self._next_slice: asyncio.Handle | None = None
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
        self._join_queue(pull)
        self._by_connection.setdefault(pull.connection, set()).add(pull)
        self._note_deadline(pull)
        self._count += 1
        if self._timer is None:
            self._timer = self._clock.call_later(SWEEP_PERIOD, self._sweep)

    def on_arrival(self, arrivals: Iterable[Arrival]) -> None:
        """Resume the pulls that wait for these messages; called after each commit of the store."""
        if not self._count:
            return
        newest: dict[tuple[str, int], dict[int, int]] = {}
        for topic, queue_id, queue_offset, tags_code in arrivals:
            key = (topic, queue_id)
            if key in newest:
                newest[key][tags_code] = queue_offset  # offsets of a queue rise
            elif key in self._plain or key in self._filtered:
                newest[key] = {tags_code: queue_offset}
        for key, of_queue in newest.items():
            self._offer(key, of_queue)
        if newest:
            self._work()

    def resume_topic(self, topic: str) -> None:
        """Resume the pulls of a topic, which was deleted: its consumers must know before it is created again."""
        for pull in [pull for mine in self._by_connection.values() for pull in mine if pull.key[0] == topic]:
            if pull.waits:
                self._make_ready(pull)
        self._work()

    def drop(self, connection: Connection) -> None:
        """Drop the pulls of a closed connection."""
        for pull in self._by_connection.pop(connection, ()):
            self._count -= 1
            self._forget_deadline(pull)
            if pull.waits:
                self._leave_queue(pull)

    def close(self) -> None:
        """Resume all held pulls and refuse new ones.

        A Java client does not notice that a connection has closed while it waits for an answer on it. Without an answer
        it would not read this queue for 30 s.
        """
        self._closed = True
        for pull in [pull for mine in self._by_connection.values() for pull in mine]:
            if pull.waits:
                self._make_ready(pull)
        while self._ready:
            self._resume_next()
        for handle in (self._timer, self._next_slice):
            if handle is not None:
                handle.cancel()
        self._timer = self._next_slice = None

    def _offer(self, key: tuple[str, int], newest: dict[int, int]) -> None:
        highest = max(newest.values())
        plain = self._plain.get(key)
        if plain is not None:
            for pull in [pull for pull in plain if pull.offset <= highest]:
                pull.waits = False
                del plain[pull]
                self._ready.append(pull)
            if not plain:
                del self._plain[key]
        filtered = self._filtered.get(key)
        if filtered is not None:
            self._offer_filtered(filtered, newest, highest)

    def _offer_filtered(self, waiting: _FilteredPulls, newest: dict[int, int], highest: int) -> None:
        for pull in list(waiting.wanting(newest)):
            self._make_ready(pull)
        self._pass_over(waiting.take_passed_over(highest))
        self._to_look.update((pull, None) for pull in waiting.looking if pull.offset <= highest)

    def _pass_over(self, pulls: Iterable[HeldPull]) -> None:
        """Let their offsets move on soon, else consumers seem to lag behind messages that they do not want."""
        deadline = self._clock.monotonic() + PASSED_OVER_LIMIT
        for pull in pulls:
            if deadline < pull.deadline:
                self._forget_deadline(pull)
                pull.deadline = deadline
                self._note_deadline(pull)

    def _note_deadline(self, pull: HeldPull) -> None:
        pull.due = int(pull.deadline)
        self._by_second.setdefault(pull.due, {})[pull] = None

    def _forget_deadline(self, pull: HeldPull) -> None:
        same = self._by_second[pull.due]
        del same[pull]
        if not same:
            del self._by_second[pull.due]

    def _sweep(self) -> None:
        self._timer = None
        now = self._clock.monotonic()
        for second in sorted(second for second in self._by_second if second <= now):
            for pull in self._by_second[second]:
                if pull.deadline <= now and pull.waits:
                    self._make_ready(pull)
        self._work()
        if self._count and self._timer is None:
            self._timer = self._clock.call_later(SWEEP_PERIOD, self._sweep)

    def _make_ready(self, pull: HeldPull) -> None:
        self._leave_queue(pull)
        self._ready.append(pull)

    def _join_queue(self, pull: HeldPull) -> None:
        pull.waits = True
        if pull.codes is None and pull.look is None:
            self._plain.setdefault(pull.key, {})[pull] = None
            return
        filtered = self._filtered.get(pull.key)
        if filtered is None:
            filtered = self._filtered[pull.key] = _FilteredPulls()
        filtered.add(pull)

    def _leave_queue(self, pull: HeldPull) -> None:
        pull.waits = False
        if pull.codes is None and pull.look is None:
            plain = self._plain[pull.key]
            del plain[pull]
            if not plain:
                del self._plain[pull.key]
            return
        filtered = self._filtered[pull.key]
        filtered.remove(pull)
        if not filtered:
            del self._filtered[pull.key]
        self._to_look.pop(pull, None)

    # --- the work, in slices

    def _work(self) -> None:
        """Resume what is ready and look for those whose filter asks for it, as much as one pass of the loop may."""
        if self._next_slice is not None:
            return  # the rest of earlier work comes first
        seconds = self._seconds
        end = seconds() + SLICE
        found: _Found = {}
        while self._ready or self._to_look:
            if self._ready:
                self._resume_next()
            else:
                self._look(found)
            if seconds() >= end:
                break
        if self._ready or self._to_look:
            self._next_slice = asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        self._next_slice = None
        self._work()

    def _resume_next(self) -> None:
        pull = self._ready.popleft()
        mine = self._by_connection.get(pull.connection)
        if mine is None or pull not in mine:
            return  # its connection has closed
        mine.discard(pull)
        if not mine:
            del self._by_connection[pull.connection]
        self._forget_deadline(pull)
        self._count -= 1
        self._resume(pull)

    def _look(self, found: _Found) -> None:
        """Let a pull look at what has arrived; `found` is what others like it have seen in this slice."""
        pull, _ = self._to_look.popitem(last=False)
        assert pull.look is not None
        key = (pull.look_key or pull, pull.key, pull.offset)
        seen = found.get(key)
        if seen is None:
            seen = found[key] = pull.look(pull.offset)
        is_wanted, pull.offset = seen
        if is_wanted:
            self._make_ready(pull)
        else:
            self._pass_over((pull,))


_FIGURES: Final[tuple[Figure[LongPolling], ...]] = (
    Figure("held_pulls", "Pulls that wait for a message.", Kind.GAUGE, lambda held: len(held)),
)
