"""PullPass: the pulls of one pass of the loop, in C only.

The first pulls of a pass are served as `pull_serving.py` says. If nothing else is served in that pass, the reads that
follow need not be looked at in Python: a PullPass cuts them into frames, answers them and notes what they have
consumed, all in one call for each read. Whatever it leaves alone is served as usual, and ends the pass. So there is no
plain form of it: without one everything is served as usual, and that says what is right (`tests/lane/` compares).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, cast

from pyromq.lane import native
from pyromq.lane.pull_serving import KnownPull, LogPlace, PullSource


class OffsetTable(Protocol):
    """Committed offsets, by `topic@group` and queue."""

    table: dict[str, dict[int, int]]


class ChangedRows(Protocol):
    """The changes of a table since it was last saved."""

    rows: dict[str, Any]


class OffsetSaver(Protocol):
    """Saves a table."""

    @property
    def changes(self) -> ChangedRows:
        """What it has to save."""


class ChangeLog(Protocol):
    """Tells slaves which rows have changed."""

    def note(self, key: str) -> None:
        """Note that a row has changed."""


class GetCount(Protocol):
    """What a group got of a topic."""

    messages: int
    bytes: int
    calls: int
    read_ms: float


class GetStats(Protocol):
    """What all groups got."""

    longest_get_ms: float


class QuickNote(NamedTuple):
    """Where to note the pulls of a shape, if their commits are mere steps forward."""

    offsets: OffsetTable
    saver: OffsetSaver
    changed: ChangeLog
    fresh: set[str]
    """Rows of which slaves need not be told again."""
    key: str
    queue_id: int
    commits: bool
    is_forward: bool
    """Whether a commit ahead of its queue belongs to a topic that was deleted, and is none."""
    stats: GetStats
    gets: GetCount


class PlaceOwner(Protocol):
    """The log, which knows where it was read last."""

    place: LogPlace | None


class PullPass(Protocol):
    """Answers pulls of known shapes, read by read."""

    def feed(self, data: bytes, /) -> tuple[int, memoryview]:
        """Answer the first pulls of a read; return how many of its bytes they are, and the answers.

        What is left begins with a frame that must be served as usual, or is not complete.
        """

    def end(self) -> tuple[int, int]:
        """Answer no more; return how many pulls were answered, and with how many bytes of the buffer."""


class NewPullPass(Protocol):
    """Makes a PullPass."""

    def __call__(
        self,
        known: Mapping[bytes, KnownPull],
        source: PullSource,
        log: PlaceOwner,
        scratch: memoryview,
        budget: int,
        /,
    ) -> PullPass:
        """Answer pulls into a buffer, for so many bytes; each answer counts as some kilobytes more."""


def new_pull_pass() -> NewPullPass | None:
    """Return what makes a pass; None where the lane is plain."""
    module = native("pulls")
    return None if module is None else cast(NewPullPass, module.NativePullPass)
