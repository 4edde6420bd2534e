"""OwnCommits: what clients committed at a slave, and its master does not know yet.

    {"rows": {"orders@billing": "5f0c9a17d2e4"}}      pyromq.own_commits, beside the log

While the slave follows, its master is told within a second. Otherwise such offsets count when the two meet, if they are
greater and the group was not reset meanwhile: each row has the id of the last reset that this broker has heard of
(broker/tables/reset_ids.py). A slave that is restarted before that remembers which rows of consumerOffset.json they
are: else the master, when it returns, would take these groups back.
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
from pyromq.store.files import OsFiles
from pyromq.store.small_files.sealed_file import read_sealed, replace_sealed

logger = logging.getLogger(__name__)

OWN_COMMITS_NAME: Final = "pyromq.own_commits"


class _Content(Struct, frozen=True):
    rows: dict[str, str]


class OwnCommits:
    """Rows of committed offsets, as `topic@group`, that no master knows of yet."""

    def __init__(
        self,
        offsets: ConsumerOffsets,
        followers: TableFollowers,
        root: Path,
        files: OsFiles | None = None,
    ) -> None:
        self._offsets = offsets
        self._followers = followers
        self._files = files or OsFiles()
        self._path = str(root / OWN_COMMITS_NAME)
        self._told = offsets.changed_keys.mark
        """What was committed here up to this mark, a master knows."""
        self._before: dict[str, str] = {}
        self._on_disk: dict[str, str] | None = None

    @property
    def mark(self) -> int:
        """The mark of now, for `told`."""
        return self._offsets.changed_keys.mark

    @property
    def rows(self) -> dict[str, str]:
        """The rows, each with the last reset of which this broker knew when a client committed.

        What slaves took over from here when this broker was master is no news.
        """
        since = max(self._told, self._followers.offsets_of_all)
        changed = [key for key in self._offsets.changed_keys.since(since) if not is_progress(key)]
        return {key: self._offsets.resets.of(key) for key in changed} | self._before

    def load(self) -> None:
        """Read what a run before left, once; raises OSError."""
        if self._on_disk is None:
            found = read_sealed(self._files, self._path, _Content) or _Content({})
            self._before = self._on_disk = found.rows

    def told(self, mark: int) -> None:
        """A master knows all that was committed here up to a mark, or what it has counts."""
        self._told = mark
        self._before = {}

    async def save(self) -> None:
        """Write the rows down, if they are others than before; a disk that is full is survived."""
        rows = self.rows
        if rows == (self._on_disk or {}):
            return
        try:
            await asyncio.to_thread(replace_sealed, self._files, self._path, _Content(rows))
        except OSError as error:
            logger.error("commits of clients may not count after a restart file=%s: %s", self._path, error)
        else:
            self._on_disk = rows
