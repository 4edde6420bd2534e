"""QuickPass: whole reads answered in one call each, as long as nothing else is served in a pass of the loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias


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
