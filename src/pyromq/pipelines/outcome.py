"""What a pipeline reports while it runs, and its result."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct, field


class Stopped(Exception):
    """The caller wants a run to end: finish the current batch, and return how far it came."""


class Progress(Protocol):
    """Receives the progress of a run; commands draw a bar, tests and notebooks may ignore it."""

    def reached(self, done: int, total: int | None, doing: str = "") -> None:
        """Report that `done` of `total` messages are processed; `total` is None if unknown.

        May raise Stopped.
        """


class Silent:
    """Progress that is ignored."""

    def reached(self, done: int, total: int | None, doing: str = "") -> None:
        """Do nothing."""


class Outcome(Struct, kw_only=True):
    """How many messages a run has read, written, and dropped by reason."""

    read: int
    written: int
    dropped: dict[str, int] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    """Sentences for the user: where the result is, what to do next."""
