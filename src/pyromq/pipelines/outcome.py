"""What a pipeline tells while it runs, and what it has done at the end."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct, field


class Stopped(Exception):
    """Whoever watches a run wants it to end: finish what is in hand, and say how far it came."""


class Progress(Protocol):
    """Is told how far a run has come; commands draw a bar from it, tests and notebooks may ignore it."""

    def reached(self, done: int, total: int | None, doing: str = "") -> None:
        """Take note that `done` of `total` messages are behind us (None: nobody knows how many there are).

        May raise Stopped.
        """


class Silent:
    """Progress that nobody watches."""

    def reached(self, done: int, total: int | None, doing: str = "") -> None:
        """Say nothing."""


class Outcome(Struct, kw_only=True):
    """What a run has read and written, and what it has dropped, by reason."""

    read: int
    written: int
    dropped: dict[str, int] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    """Whole sentences for the user: where the result lies, what to do next."""
