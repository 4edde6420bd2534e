"""OwnCommits: what clients committed at a slave while it followed no master.

    {"rows": ["orders@billing"], "at_ms": 1789000000000}      pyromq.own_commits, beside the log

Such offsets count when the slave meets its master, if they are greater, and the slave tells the master. A slave that is
restarted before that remembers which rows of consumerOffset.json they are: else the master, when it returns, would take
these groups back. After an hour they count no more: the master may have forgotten by then that it reset a group.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Final

from msgspec import Struct

from pyromq.broker.replication.tables.held_progress import is_progress
from pyromq.broker.tables.consumer_offsets import ConsumerOffsets
from pyromq.broker.tables.table_followers import TableFollowers
from pyromq.clock import Clock
from pyromq.store.files import OsFiles
from pyromq.store.small_files.sealed_file import read_sealed, replace_sealed

logger = logging.getLogger(__name__)

OWN_COMMITS_NAME: Final = "pyromq.own_commits"
_COUNT_FOR_MS: Final = 3_600_000


class _Content(Struct, frozen=True):
    rows: list[str]
    at_ms: int
    """When the broker was there last, as far as it wrote that down."""


class OwnCommits:
    """Rows of committed offsets, as `topic@group`, that no master knows of yet."""

    def __init__(
        self,
        offsets: ConsumerOffsets,
        followers: TableFollowers,
        root: Path,
        clock: Clock,
        files: OsFiles | None = None,
    ) -> None:
        self._offsets = offsets
        self._clock = clock
        self._followers = followers
        self._files = files or OsFiles()
        self._path = str(root / OWN_COMMITS_NAME)
        self._told = offsets.changed_keys.mark
        """What was committed here up to this mark, a master knows."""
        self._before: frozenset[str] = frozenset()
        self._on_disk: frozenset[str] | None = None

    @property
    def mark(self) -> int:
        """The mark of now, for `told`."""
        return self._offsets.changed_keys.mark

    @property
    def keys(self) -> frozenset[str]:
        """The rows; what slaves took over from here when this broker was master is no news."""
        since = max(self._told, self._followers.offsets_of_all)
        changed = self._offsets.changed_keys.since(since)
        return self._before | {key for key in changed if not is_progress(key)}

    def load(self) -> None:
        """Read what a run before left, once; raises OSError."""
        if self._on_disk is None:
            found = read_sealed(self._files, self._path, _Content) or _Content([], 0)
            self._on_disk = frozenset(found.rows)
            is_old = self._clock.now_ms() - found.at_ms > _COUNT_FOR_MS
            self._before = frozenset() if is_old else self._on_disk

    def told(self, mark: int) -> None:
        """A master knows all that was committed here up to a mark, or what it has counts."""
        self._told = mark
        self._before = frozenset()

    async def save(self) -> None:
        """Write the rows down, if they are others than before; a disk that is full is survived."""
        keys = self.keys
        if keys == (self._on_disk or frozenset()):
            return
        try:
            content = _Content(sorted(keys), self._clock.now_ms())
            await asyncio.to_thread(replace_sealed, self._files, self._path, content)
        except OSError as error:
            logger.error("commits of clients may not count after a restart file=%s: %s", self._path, error)
        else:
            self._on_disk = keys
