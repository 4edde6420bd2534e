"""Recorder: adds the state of the cluster to the history, every ten seconds, whether somebody looks or not."""

from __future__ import annotations

import asyncio
import logging
from time import thread_time
from typing import Final

from pyromq.clock import Clock
from pyromq.console.reading.history import FINE_STEP, FigureHistory
from pyromq.console.reading.reader import SnapshotReader
from pyromq.console.reading.snapshot import Snapshot

logger = logging.getLogger(__name__)

SAVE_EVERY: Final = 300.0
MOST_SHARE: Final = 0.02
"""Of the time, at most so much is spent on snapshots that nobody looks at."""
_FIRST_PAUSE: Final = 6.0


class Recorder:
    """Runs while the console is open."""

    def __init__(self, reader: SnapshotReader, history: FigureHistory, clock: Clock) -> None:
        self._reader = reader
        self._history = history
        self._clock = clock
        self.cpu = 0.0
        """Seconds of CPU that adding points took, for the figures of the console."""
        self._is_readable = True

    async def run(self) -> None:
        """Record until cancelled; save what there is then, and every few minutes."""
        saved = self._clock.monotonic()
        try:
            self._tell(await self._reader.get())
            await self._clock.sleep(_FIRST_PAUSE)  # rates are known from the second snapshot on
            while True:
                snapshot = await self._reader.get(FINE_STEP / 2)
                self._tell(snapshot)
                if not snapshot.failure:
                    began = thread_time()
                    self._history.add(snapshot.at, values(snapshot))
                    self.cpu += thread_time() - began
                if self._clock.monotonic() - saved >= SAVE_EVERY:
                    saved = self._clock.monotonic()
                    await asyncio.to_thread(self._save)
                await self._clock.sleep(max(FINE_STEP, snapshot.cost / MOST_SHARE))
        finally:
            self._save()

    def _tell(self, snapshot: Snapshot) -> None:
        """Say once in the log that the cluster cannot be read, and once that it can again."""
        if snapshot.failure and self._is_readable:
            logger.warning("the cluster cannot be read, the console tries again: %s", snapshot.failure)
        elif not snapshot.failure and not self._is_readable:
            logger.info("the cluster can be read again")
        self._is_readable = not snapshot.failure

    def _save(self) -> None:
        try:
            self._history.save()
        except OSError as error:
            logger.warning("the history of the console cannot be saved: %s", error)


def values(snapshot: Snapshot) -> dict[str, float]:
    """Return the points of one moment."""
    found: dict[str, float] = {"in": snapshot.in_rate, "out": snapshot.out_rate, "lag": snapshot.lag}
    for load in snapshot.loads.values():
        if load.disk_percent is not None:
            found[f"broker/{load.name}/disk"] = load.disk_percent
        found[f"broker/{load.name}/in"] = load.put_rate
        found[f"broker/{load.name}/out"] = load.get_rate
    for topic in snapshot.topics.values():
        if topic.rate is not None:
            found[f"topic/{topic.topic}/in"] = topic.rate
    for group in snapshot.groups.values():
        found[f"group/{group.group}/lag"] = group.lag
        found[f"group/{group.group}/behind"] = group.behind or 0.0
        found[f"group/{group.group}/out"] = group.rate
    return found
