"""Group dead letters by cause: causes that differ only in numbers, ids or quoted values are one."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime

from msgspec import Struct

from pyromq.admin.letters.letter import Letter

MOST_IDS = 5
_PARTS = re.compile(
    r"""(?P<quoted>"[^"]*"|'[^']*')"""
    r"""|(?P<id>\b[0-9a-fA-F]{8,}(?:-[0-9a-fA-F]{4,})*\b)"""
    r"""|(?P<number>\d+(?:\.\d+)?)"""
)
_SHOWN = {"quoted": "'…'", "id": "#", "number": "#"}


class CauseGroup(Struct, frozen=True, kw_only=True):
    """Dead letters that failed alike."""

    cause: str | None
    """What their causes have in common, `KeyError: '…' (billing.py:#)`; None if it was not recorded."""
    count: int
    first: datetime
    """When the first of them was stored."""
    last: datetime
    topics: tuple[str, ...]
    """The topics that they were sent to."""
    example: str | None
    """The cause of the newest one, as it was recorded."""
    ids: tuple[str, ...]
    """Ids of some of them, the newest first."""


def common_cause(cause: str) -> str:
    """Return a cause without the parts that differ from message to message."""
    return _PARTS.sub(lambda found: _SHOWN[found.lastgroup or "number"], cause)


class CauseCount:
    """Counts letters by cause as they are read."""

    def __init__(self) -> None:
        self.count = 0
        self._groups: dict[str | None, list[Letter]] = {}
        self._counts: dict[str | None, int] = {}
        self._firsts: dict[str | None, Letter] = {}
        self._topics: dict[str | None, set[str]] = {}

    def add(self, letter: Letter) -> None:
        """Count a letter."""
        self.count += 1
        cause = None if letter.cause is None else common_cause(letter.cause)
        self._counts[cause] = self._counts.get(cause, 0) + 1
        first = self._firsts.setdefault(cause, letter)
        if _stored(letter) < _stored(first):
            self._firsts[cause] = letter
        newest = self._groups.setdefault(cause, [])
        newest.append(letter)
        newest.sort(key=_stored, reverse=True)
        del newest[MOST_IDS:]
        if letter.topic:
            self._topics.setdefault(cause, set()).add(letter.topic)

    def groups(self) -> list[CauseGroup]:
        """Return the groups, the largest first."""
        found = [self._group(cause) for cause in self._counts]
        return sorted(found, key=lambda group: (-group.count, group.cause or ""))

    def _group(self, cause: str | None) -> CauseGroup:
        newest = self._groups[cause]
        return CauseGroup(
            cause=cause,
            count=self._counts[cause],
            first=self._firsts[cause].message.stored_at,
            last=newest[0].message.stored_at,
            topics=tuple(sorted(self._topics.get(cause, ()))),
            example=newest[0].cause,
            ids=tuple(letter.message.message_id for letter in newest),
        )


def by_cause(letters: Iterable[Letter]) -> list[CauseGroup]:
    """Return letters grouped by cause, the largest group first."""
    count = CauseCount()
    for letter in letters:
        count.add(letter)
    return count.groups()


def _stored(letter: Letter) -> int:
    return letter.message.store_timestamp_ms
