"""TableSaver: makes the changes of a large table durable without stopping the loop.

A change is saved when its record is flushed to the table's journal. The whole table is printed and written only now and
then, in another thread, while changes go on to the journal: when the journal has grown large, after a minute, after a
failed write, and at the end. See store/small_files/table_journal.py.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from typing import Any, Final, Generic, TypeVar

import msgspec
from msgspec import Struct, field

from pyromq.broker.tables.save_progress import SaveProgress, WhenSaved
from pyromq.errors import StoreError
from pyromq.protocol.bodies import DataVersion
from pyromq.store.small_files.table_file import TableFile
from pyromq.store.small_files.table_journal import JournalRecord

R = TypeVar("R")
logger = logging.getLogger(__name__)

PrintTable = Callable[[], bytes]
"""Prints a state of a table; called in a thread."""

_ROWS_OF_A_RECORD: Final = 200
_TICKS_TO_WHOLE: Final = 12  # a minute
_LARGE: Final = 8 << 20  # bytes of a journal, or four times its table


class TableChanges(Struct, Generic[R]):
    """What changed since the last record: rows that are gone, then rows that are new or different."""

    removed: dict[str, None] = field(default_factory=dict)
    rows: dict[str, R] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.rows or self.removed)

    def put(self, name: str, row: R) -> None:
        """Note a new or changed row."""
        self.rows[name] = row

    def remove(self, name: str) -> None:
        """Note that a row is gone."""
        self.rows.pop(name, None)
        self.removed[name] = None

    def followed_by(self, later: TableChanges[R]) -> TableChanges[R]:
        """Return these changes and later ones as one; a row that is a dict holds only what changed in it."""
        rows: dict[str, Any] = {name: row for name, row in self.rows.items() if name not in later.removed}
        for name, row in later.rows.items():
            rows[name] = {**rows.get(name, {}), **row} if isinstance(row, dict) else row
        return TableChanges(self.removed | later.removed, rows)

    @property
    def record_count(self) -> int:
        """How many records it takes to write them."""
        return max(-(-len(self.rows) // _ROWS_OF_A_RECORD), 1)

    def records(self, number: int, version: DataVersion | None) -> Iterator[tuple[int, bytes]]:
        """Yield the records with their numbers, from a number on."""
        names, removed = list(self.rows), list(self.removed)
        for start in range(0, max(len(names), 1), _ROWS_OF_A_RECORD):
            rows = {name: self.rows[name] for name in names[start : start + _ROWS_OF_A_RECORD]}
            record = JournalRecord(number=number, removed=removed, rows=rows, version=version)
            yield number, msgspec.json.encode(record)
            number, removed = number + 1, []


class TableSaver(Generic[R]):
    """Saves what is noted in `changes`; it lives on the loop and waits for the disk in threads."""

    def __init__(
        self,
        file: TableFile[Any, R],
        whole: Callable[[], PrintTable],
        version: Callable[[], DataVersion | None] = lambda: None,
        executor: Executor | None = None,
    ) -> None:
        """`whole` takes hold of the present state and returns what prints it."""
        self.changes: TableChanges[R] = TableChanges()
        """What is not on its way to the disk yet; a table adds to it before it calls request()."""
        self._file = file
        self._whole = whole
        self._version = version
        self._executor = executor
        self._progress = SaveProgress()
        self._number = 0
        self._journal_turn = asyncio.Lock()
        self._table_turn = asyncio.Lock()
        self._running: asyncio.Task[None] | None = None
        self._rewriting: asyncio.Task[bool] | None = None
        self._ticks = 0
        self.is_failing = False
        """Whether the last attempt to save failed."""

    @property
    def saved(self) -> int:
        """The number of the last change that a crash does not take away."""
        return self._progress.saved

    @property
    def pending(self) -> bool:
        """Whether a change is not on disk yet: it is being written, or could not be."""
        return self._progress.pending

    def begin(self) -> None:
        """Have the table rewritten if nothing can be appended otherwise; called after it was loaded."""
        if self._file.needs_rewrite:
            self.rewrite_soon()

    def request(self) -> int:
        """Have what changed saved soon; return the number of this change."""
        self._progress.requested += 1
        self._start()
        return self._progress.requested

    def retry(self) -> None:
        """Try again if the last save failed."""
        if self.pending:
            self._start()

    def when_saved(self, listener: WhenSaved) -> None:
        """Call `listener` once all changes up to now are saved (True), or could not be (False)."""
        if self._running is None:
            listener(not self.pending)
        else:
            self._progress.listen(listener)

    async def finish(self) -> bool:
        """Wait until all changes up to now are saved, or could not be; return whether they are."""
        finished: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self.when_saved(lambda saved: None if finished.done() else finished.set_result(saved))
        return await finished

    def tick(self) -> None:
        """Try again what failed, and rewrite the table if its journal is old; called every few seconds."""
        self.retry()
        self._ticks = self._ticks + 1 if self._file.journal_size else 0
        if self._ticks >= _TICKS_TO_WHOLE:
            self.rewrite_soon()

    def rewrite_soon(self) -> None:
        """Have the whole table written, and its journal emptied."""
        self._ticks = 0
        if self._rewriting is None or self._rewriting.done():
            self._rewriting = asyncio.get_running_loop().create_task(self._save_whole())

    async def close(self) -> None:
        """Save everything, leaving a table without a journal."""
        while self._running is not None:
            await self._running
        if self._rewriting is not None:
            await self._rewriting
        if self.pending or self._file.journal_size or self._file.has_old_journal:
            await self._save_whole()
        await self._in_thread(self._file.close)

    # --- the journal

    def _start(self) -> None:
        if self._running is None:
            self._running = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        while self.pending:
            if not await (self._save_whole() if self._file.needs_whole else self._append()):
                break
        self._running = None
        self._progress.give_up()  # nobody waits if all is saved

    async def _append(self) -> bool:
        """Write the changes to the journal; return False if that failed and there is nothing else to try."""
        changes, self.changes = self.changes, TableChanges()
        requested, version = self._progress.requested, self._version()
        number = self._last_number() + 1
        self._number += changes.record_count
        try:
            async with self._journal_turn:
                await self._in_thread(lambda: self._file.append(list(changes.records(number, version))))
        except Exception as error:  # whatever it is: answers wait for this, and must not wait for ever
            self._failed(changes, error)
            return self._file.needs_whole
        self._succeeded(requested)
        if self._file.journal_size > max(_LARGE, 4 * self._file.size):
            self.rewrite_soon()
        return True

    # --- the table

    async def _save_whole(self) -> bool:
        """Write the whole table; return True if that worked. Changes go on to the journal meanwhile."""
        async with self._table_turn:
            changes: TableChanges[R] = TableChanges()
            if self._file.needs_whole:
                changes, self.changes = self.changes, changes
            requested, number, text = self._progress.requested, self._last_number(), self._whole()
            try:
                await self._in_thread(lambda: self._file.save(text(), number))
            except Exception as error:
                self._failed(changes, error)
                return False
            self._succeeded(requested)
            await self._cut(number)
        return True

    async def _cut(self, number: int) -> None:
        try:
            async with self._journal_turn:
                await self._in_thread(lambda: self._file.cut(number))
        except OSError as error:  # what it has too much does no harm
            logger.warning("a journal could not be cut file=%s reason=%s", self._file.path, error)

    # --- both

    def _last_number(self) -> int:
        self._number = max(self._number, self._file.number)
        return self._number

    async def _in_thread(self, work: Callable[[], None]) -> None:
        await asyncio.get_running_loop().run_in_executor(self._executor, work)

    def _succeeded(self, requested: int) -> None:
        self.is_failing = False
        self._progress.advance(requested)

    def _failed(self, changes: TableChanges[R], error: Exception) -> None:
        self.changes = changes.followed_by(self.changes)
        if not self.is_failing:  # one line, not one for every attempt
            expected = isinstance(error, OSError | StoreError)
            logger.error("table not saved file=%s reason=%s", self._file.path, error, exc_info=not expected)
        self.is_failing = True
