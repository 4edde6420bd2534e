"""Ranges of the log that are damaged: `pyromq.fences` names them, so that every start walks around them.

    [[start, end], …]          in bytes of the log, in order

A fence hides nothing by itself: what lies in it is checked again when it is read, and fails. It keeps recovery from
taking old damage for the end of the log. Fences go when the log has moved past them.
"""

from __future__ import annotations

import logging
from bisect import insort
from pathlib import Path
from typing import Final, NamedTuple

from pyromq.store.files import OsFiles
from pyromq.store.small_files.sealed_file import read_sealed, replace_sealed

logger = logging.getLogger(__name__)

FENCES_NAME: Final = "pyromq.fences"

_MOST_TOLD: Final = 1_000
_MOST_REMEMBERED: Final = 100_000


class FencedRange(NamedTuple):
    """Damage from `start` up to the record at `end`."""

    start: int
    end: int


class Fences:
    """The damage that is known, and what reads have left out because of damage."""

    def __init__(self, root: Path, files: OsFiles) -> None:
        self.skipped = 0
        """How many messages reads have left out, each counted once."""
        self._files = files
        self._path = str(root / FENCES_NAME)
        self.known: list[FencedRange] = []
        """All of them, in order; read by every pull."""
        self._saved: list[FencedRange] = []
        self._told: set[tuple[str, int, int]] = set()

    def __len__(self) -> int:
        return len(self.known)

    def __bool__(self) -> bool:
        return bool(self.known)

    def load(self, log_start: int) -> None:
        """Read the file; what the log has moved past is left out."""
        self._saved = read_sealed(self._files, self._path, list[FencedRange]) or []
        self.known = [fence for fence in self._saved if fence.end > log_start]

    def ranges(self) -> list[FencedRange]:
        """Return all of them, in order."""
        return list(self.known)

    def end_at(self, position: int) -> int | None:
        """Return where the fence that holds a position ends; None if none does."""
        return next((fence.end for fence in self.known if fence.start <= position < fence.end), None)

    def add(self, start: int, end: int, path: str) -> None:
        """Fence a range, and say so; neighbours become one."""
        if any(fence.start <= start and end <= fence.end for fence in self.known):
            return
        logger.error("the log is damaged: fenced file=%s start=%d end=%d bytes=%d", path, start, end, end - start)
        touching = [fence for fence in self.known if fence.start <= end and start <= fence.end]
        for fence in touching:
            self.known.remove(fence)
            start, end = min(start, fence.start), max(end, fence.end)
        insort(self.known, FencedRange(start, end))

    def lift(self, start: int, end: int) -> None:
        """Take a range out of the fence that holds it: its bytes are sound again."""
        kept = []
        for fence in self.known:
            before, behind = (
                FencedRange(fence.start, min(fence.end, start)),
                FencedRange(max(fence.start, end), fence.end),
            )
            kept += [part for part in (before, behind) if part.start < part.end]
        self.known = sorted(set(kept))
        self._told.clear()  # should it be damaged again, that is told again

    def stay_within(self, log_end: int) -> None:
        """Follow a log that ends earlier now: what is written behind that is not what was damaged."""
        self.known = [FencedRange(one.start, min(one.end, log_end)) for one in self.known if one.start < log_end]

    def save(self) -> None:
        """Make them durable, if they changed; raises OSError."""
        if self.known != self._saved:
            replace_sealed(self._files, self._path, self.known)
            self._saved = list(self.known)

    def is_left_out(self, topic: str, queue_id: int, queue_offset: int) -> bool:
        """Tell whether a message is known to be damaged."""
        return (topic, queue_id, queue_offset) in self._told

    def left_out(self, topic: str, queue_id: int, queue_offset: int) -> None:
        """Note that a read went past a message that is damaged; told once for each, of the first thousand."""
        message = (topic, queue_id, queue_offset)
        self.skipped += 1
        if len(self._told) < _MOST_REMEMBERED:
            self._told.add(message)
        if self.skipped <= _MOST_TOLD:
            logger.warning("left out a damaged message topic=%s queue=%d offset=%d", *message)
        elif self.skipped == _MOST_TOLD + 1:
            logger.warning("left out more damaged messages, which are counted only")
