"""Saver: saves a small table without stopping the loop: the disk is waited for in a thread."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from pyromq.errors import StoreError

T = TypeVar("T")
logger = logging.getLogger(__name__)


class SmallFile(Protocol):
    """A file that is replaced whole."""

    @property
    def path(self) -> Path:
        """Where it is."""

    def save(self, text: bytes) -> None:
        """Replace it; it blocks on the disk."""


class Saver(Generic[T]):
    """Saves a table in a thread: one write at a time, always of the newest state, and one for many changes."""

    def __init__(
        self,
        file: SmallFile,
        snapshot: Callable[[], T],
        encode: Callable[[T], bytes],
        executor: Executor | None = None,
    ) -> None:
        self._file = file
        self._snapshot = snapshot
        self._encode = encode
        self._executor = executor
        self._running: asyncio.Task[None] | None = None
        self._wanted = False
        self._is_failing = False

    @property
    def pending(self) -> bool:
        """Whether a change is not on disk yet: it is being written, or could not be."""
        return self._running is not None or self._wanted

    def request(self) -> None:
        """Have the present state saved soon."""
        self._wanted = True
        if self._running is None:
            self._running = asyncio.get_running_loop().create_task(self._run())

    def retry(self) -> None:
        """Try again if the last save failed."""
        if self._wanted:
            self.request()

    async def finish(self) -> bool:
        """Wait until nothing is being written; return True if all is saved."""
        while self._running is not None:
            await self._running
        return not self._wanted

    async def _run(self) -> None:
        while self._wanted:
            self._wanted = False
            if not await self._save_once():
                self._wanted = True
                break
        self._running = None

    async def _save_once(self) -> bool:
        state = self._snapshot()
        try:
            save = asyncio.get_running_loop().run_in_executor
            await save(self._executor, lambda: self._file.save(self._encode(state)))
        except Exception as error:  # whatever it is, the next change tries again
            self._note_failure(error)
            return False
        self._is_failing = False
        return True

    def _note_failure(self, error: Exception) -> None:
        if not self._is_failing:  # one line, not one for every attempt
            expected = isinstance(error, OSError | StoreError)
            logger.error("table not saved file=%s reason=%s", self._file.path, error, exc_info=not expected)
        self._is_failing = True
