"""HeldBytes: the memory that all connections of a process take together, of one kind.

There are two kinds: requests that are not complete or wait for their turn, and answers that are not sent. Above its
`budget` a kind is crowded. Then large frames are read one after the other, a peer gets no further answer before it has
read the last, and whoever makes no progress is closed. Above `most` the one that holds most is closed, whatever it
does. An honest crowd is slowed down by this; only those who stand still lose their connection.
"""

from __future__ import annotations

import os
from typing import Final, NamedTuple, Protocol

from pyromq.figures import BoundFigures, Figure, Kind

LARGE: Final = 64 * 1024
"""Bytes that a connection holds below which they are not added up."""

SLOW: Final = 16 * 1024
"""Bytes that must move within a tick (a second) for a peer to count as making progress."""


class Holder(Protocol):
    """A connection, as far as its memory goes."""

    def abort(self, reason: str, *, cause: str = ...) -> None:
        """Drop it and what it holds."""

    def go_on(self) -> None:
        """Read again; it waited because all together held too much."""


class HeldBytes:
    """Adds up what connections hold."""

    def __init__(self, budget: int, most: int | None = None) -> None:
        """`most` is the budget itself unless given."""
        self.total = 0
        self.budget = budget
        self.most = budget if most is None else most
        self._held: dict[Holder, int] = {}
        self._waiting: dict[Holder, None] = {}

    @property
    def is_crowded(self) -> bool:
        """Whether all together hold more than the budget."""
        return self.total > self.budget

    def set(self, holder: Holder, size: int) -> None:
        """Note how much a connection holds now."""
        before = self._held.get(holder, 0)
        if size:
            self._held[holder] = size
        elif before:
            del self._held[holder]
        self.total += size - before
        while self.total > self.most:
            self._close_largest()
        if self._waiting and size < before:
            self._wake()

    def must_wait(self, holder: Holder) -> bool:
        """Return True if a connection has to wait with a large frame; `go_on` is called when it may go on.

        The one that has held bytes for the longest time never waits, so that somebody always gets on.
        """
        if not self.is_crowded or next(iter(self._held)) is holder:
            return False
        self._waiting[holder] = None
        return True

    def is_waiting(self, holder: Holder) -> bool:
        """Return True if a connection waits because this process told it to."""
        return holder in self._waiting

    def forget(self, holder: Holder) -> None:
        """Forget a connection that has closed."""
        self._waiting.pop(holder, None)
        self.set(holder, 0)

    def _wake(self) -> None:
        if not self.is_crowded:
            woken, self._waiting = self._waiting, {}
            for holder in woken:
                holder.go_on()
            return
        first = next(iter(self._held))
        if first in self._waiting:
            del self._waiting[first]
            first.go_on()

    def _close_largest(self) -> None:
        largest = max(self._held, key=self._held.__getitem__)
        size = self._held.pop(largest)
        self._waiting.pop(largest, None)
        self.total -= size
        largest.abort(
            f"it holds {size >> 20} MiB, and all connections together more than {self.most >> 20} MiB",
            cause="held_bytes",
        )


class Share:
    """How much one connection holds, as far as that is added up."""

    __slots__ = ("_all", "size")

    def __init__(self, everything: HeldBytes | None) -> None:
        """`everything` is None where nothing is added up."""
        self.size = 0
        self._all = everything

    @property
    def is_crowded(self) -> bool:
        """Whether all connections together hold too much."""
        return self._all is not None and self._all.is_crowded

    def note(self, holder: Holder, size: int) -> None:
        """Note how much the connection holds now."""
        size = size if size > LARGE else 0
        if self._all is not None and (abs(size - self.size) > LARGE or (self.size and not size)):
            self.size = size
            self._all.set(holder, size)

    def must_wait(self, holder: Holder) -> bool:
        """Return True if the connection has to wait with a large frame; see HeldBytes."""
        return self._all is not None and self._all.must_wait(holder)

    def forget(self, holder: Holder) -> None:
        """Hold nothing any more: the connection has closed."""
        if self._all is not None:
            self._all.forget(holder)
        self._all = None


def _most() -> int:
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        memory = 4 << 30
    return max(min(memory // 16, 512 << 20), 64 << 20)


PROCESS_REQUESTS: Final = HeldBytes(32 << 20, _most())
PROCESS_ANSWERS: Final = HeldBytes(16 << 20, _most())


class _Shared(NamedTuple):
    requests: HeldBytes
    answers: HeldBytes


def held_figures(requests: HeldBytes = PROCESS_REQUESTS, answers: HeldBytes = PROCESS_ANSWERS) -> BoundFigures[_Shared]:
    """Return how much all connections of this process hold."""
    return BoundFigures(_FIGURES, lambda: _Shared(requests, answers))


_FIGURES: Final[tuple[Figure[_Shared], ...]] = (
    Figure(
        "unfinished_bytes",
        "Bytes of large requests that are not complete or wait, of all connections of this process.",
        Kind.GAUGE,
        lambda shared: shared.requests.total,
    ),
    Figure(
        "unsent_bytes",
        "Bytes of answers that are not sent, of all connections of this process with much of it.",
        Kind.GAUGE,
        lambda shared: shared.answers.total,
    ),
)
