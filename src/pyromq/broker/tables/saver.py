"""Saving a table without stopping the loop: the disk is waited for in a thread."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Generic, TypeVar

from pyromq.errors import StoreError
from pyromq.store.small_files.json_file import JsonFile

T = TypeVar("T")
WhenSaved = Callable[[bool], None]
"""What is done once a table is saved (True) or could not be (False)."""

logger = logging.getLogger(__name__)


class Saver(Generic[T]):
    """Saves a table in a thread: one write at a time, always of the newest state, and one for many changes."""

    def __init__(self, file: JsonFile, snapshot: Callable[[], T], encode: Callable[[T], bytes]) -> None:
        self.requested = self.saved = 0
        """The number of the last change, and of the last one that is on disk."""
        self._file = file
        self._snapshot = snapshot
        self._encode = encode
        self._running: asyncio.Task[None] | None = None
        self._is_failing = False
        self._listeners: list[tuple[int, WhenSaved]] = []

    @property
    def pending(self) -> bool:
        """Whether a change is not on disk yet: it is being written, or could not be."""
        return self.saved < self.requested

    def request(self) -> int:
        """Have the present state saved soon; return the number of this change."""
        self.requested += 1
        self._start()
        return self.requested

    def retry(self) -> None:
        """Try again if the last save failed."""
        if self.pending:
            self._start()

    def when_saved(self, listener: WhenSaved) -> None:
        """Call `listener` once all changes up to now are saved (True), or could not be (False)."""
        if self._running is None:
            listener(not self.pending)
        else:
            self._listeners.append((self.requested, listener))

    async def finish(self) -> bool:
        """Wait until nothing is being written; return True if all is saved."""
        while self._running is not None:
            await self._running
        return not self.pending

    def _start(self) -> None:
        if self._running is None:
            self._running = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        while self.pending and await self._save_once():
            self._tell()
        self._running = None
        self._tell()

    async def _save_once(self) -> bool:
        number, state = self.requested, self._snapshot()
        try:
            await asyncio.to_thread(lambda: self._file.save(self._encode(state)))
        except Exception as error:  # whatever it is: answers wait for this, and must not wait for ever
            self._note_failure(error)
            return False
        self._is_failing = False
        self.saved = number
        return True

    def _tell(self) -> None:
        """Tell those whose changes are saved, and the others too if nothing more is tried."""
        listeners, self._listeners = self._listeners, []
        for number, listener in listeners:
            if number > self.saved and self._running is not None:
                self._listeners.append((number, listener))
                continue
            try:
                listener(number <= self.saved)
            except Exception:  # the others must hear it all the same
                logger.exception("a listener failed when a table was saved file=%s", self._file.path)

    def _note_failure(self, error: Exception) -> None:
        if not self._is_failing:  # one line, not one for every attempt
            expected = isinstance(error, OSError | StoreError)
            logger.error("table not saved file=%s reason=%s", self._file.path, error, exc_info=not expected)
        self._is_failing = True
