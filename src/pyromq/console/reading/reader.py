"""SnapshotReader: takes snapshots of the cluster, one at a time, for everybody who looks.

A page gets the last snapshot if it is young, and waits for a new one if it is not. A hundred pages at once wait for the
same reading. Rates are those between two snapshots.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from pyromq.admin.admin_client import AdminClient
from pyromq.admin.health.overview import Overview
from pyromq.clock import Clock
from pyromq.console.reading.snapshot import Snapshot, make_snapshot
from pyromq.errors import PyroMQError

logger = logging.getLogger(__name__)

PERIOD: Final = 3.0
"""Seconds for which a snapshot is young."""
MOST_SHARE: Final = 0.1
"""Of the time, at most so much is spent on taking snapshots: in a large cluster they come less often."""
_LEAST_FOR_RATES: Final = 2.0  # seconds; rates over less jump about


class SnapshotReader:
    """Keeps the last snapshot."""

    def __init__(self, admin: Callable[[], AdminClient], clock: Clock) -> None:
        self._admin = admin
        self._clock = clock
        self._current: Snapshot | None = None
        self._base: Overview | None = None
        self._reading: asyncio.Task[Snapshot] | None = None
        self._expired = False
        self._is_fresh = True
        """Whether the reading under way began after the last change."""
        self.count = 0
        """How many were taken."""

    @property
    def period(self) -> float:
        """How often a new snapshot is taken while somebody looks."""
        cost = 0.0 if self._current is None else self._current.cost
        return max(PERIOD, cost / MOST_SHARE)

    @property
    def current(self) -> Snapshot | None:
        """The last snapshot, whatever its age."""
        return self._current

    def age(self, snapshot: Snapshot) -> float:
        """Return how old a snapshot is, in seconds."""
        return max(self._clock.monotonic() - snapshot.taken, 0.0)

    def expire(self) -> None:
        """Have the next page wait for a new snapshot: something was changed."""
        self._expired, self._is_fresh = True, False

    async def get(self, youngest: float | None = None) -> Snapshot:
        """Return a snapshot that is at most so old; by default, `period`."""
        limit = self.period if youngest is None else youngest
        if self._current is not None and not self._expired and self.age(self._current) <= limit:
            return self._current
        while self._reading is not None and not self._is_fresh:
            await asyncio.wait([self._reading])
        if self._reading is None:
            self._is_fresh = True
            self._reading = asyncio.create_task(self._read())
            self._reading.add_done_callback(self._done)
        return await asyncio.shield(self._reading)

    async def close(self) -> None:
        """Stop reading."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)

    def _done(self, task: asyncio.Task[Snapshot]) -> None:
        self._reading = None
        if not task.cancelled() and task.exception() is not None:
            logger.error("reading the cluster failed", exc_info=task.exception())

    async def _read(self) -> Snapshot:
        began = self._clock.monotonic()
        try:
            snapshot = await self._take()
        except (PyroMQError, OSError) as error:
            last = self._current or Snapshot(at=self._clock.now())
            snapshot = replace(last, failure=str(error))
        now = self._clock.monotonic()
        self._current = replace(snapshot, taken=now, cost=now - began)
        self.count += 1
        if self._is_fresh:
            self._expired = False
        return self._current

    async def _take(self) -> Snapshot:
        admin = self._admin()
        overview, topics, status = await asyncio.gather(admin.overview(), admin.topics.list(), admin.cluster_status())
        with_rates = overview if self._base is None else overview.since(self._base)
        if self._base is None or overview.taken - self._base.taken >= _LEAST_FOR_RATES:
            self._base = overview
        return make_snapshot(with_rates, topics, status)
