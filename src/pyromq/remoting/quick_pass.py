"""Short ways from a read to its answers: what a server may have beside its handlers.

A QuickPass answers whole reads in one call each, as long as nothing else is served in a pass of the loop. A PlainLane
takes plain messages in the place of a handler.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeAlias


class QuickPass(Protocol):
    """Answers reads of one pass; lane/pull_passes.py has one for pulls."""

    def feed(self, data: bytes, /) -> tuple[int, memoryview]:
        """Answer the first frames of a read; return how many of its bytes they are, and the answers."""

    def end(self) -> tuple[int, int]:
        """Answer no more; return how many frames were answered, and with how many bytes of the buffer."""


BeginPass: TypeAlias = Callable[[memoryview, int], QuickPass | None]
"""Begins a pass with a buffer, and so many bytes that it may answer; None if there is nothing that could."""


class QuickDesk(Protocol):
    """What answers reads of a server's connections in such passes: QuickAnswers (dispatch.py)."""

    prefix: bytes
    """How the header of a request begins that it may answer."""

    def answer(self, data: bytes, connection: Any, /) -> bytes:
        """Answer the first frames of a read, by `send_ahead`; return the rest, which is to be served as usual, now."""

    def end_pass(self) -> None:
        """End the pass: something else is served."""


class PlainLane(NamedTuple):
    """Takes plain messages of connections before they are decoded (lane/sends.py)."""

    take: Callable[[list[bytes | memoryview], int, int, Any], int]
    """Takes messages from one of the frames on, at most so many; returns how many it has taken."""
    take_read: Callable[[bytes, Any], int] | None = None
    """Takes the first frames of a read, and returns how many bytes they are. For a round in which `take` has just taken
    something, and nothing else was served since."""
