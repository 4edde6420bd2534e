"""Reading without waiting for the disk: an event loop reads what is in memory, and threads fetch the rest for it.

    with store.disk.memory_only():         reads raise NotInMemory, which names the missing bytes, instead of waiting
    plan = store.disk.plan(error.missing)  what to read for that: more, if somebody reads on (read_ahead.py)
    store.disk.fetch(*plan)                in a thread: reads it, so that the system has it in memory
    with store.disk.memory_only(fetched):  the same read again

Nothing is shared with the thread: it opens the files for itself. What it has fetched may be gone again before the
second attempt. That one then waits, else it could be sent away for ever.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from itertools import groupby
from types import TracebackType
from typing import Final, TypeVar

from pyromq.store.files import OsFiles
from pyromq.store.read.disk.read_ahead import Plan, ReadAhead
from pyromq.store.segments import DescriptorPool, FileRange, NotInMemory

logger = logging.getLogger(__name__)

T = TypeVar("T")

_PIECE: Final = 256 << 10
_ASKED: Final = 512 << 10  # bytes that Linux reads ahead at one request, on most disks; the rest would be left out


class DiskAccess:
    """Whether and how reads of a store's files wait for the disk."""

    def __init__(self, pool: DescriptorPool, files: OsFiles) -> None:
        self._pool = pool
        self._files = files
        self._ahead = ReadAhead()
        self._ask: Callable[[FileRange], object] | None = None
        pool.reached = self._reached

    def keep_open(self, files: int) -> None:
        """Keep at most so many files of queues open from now on: opening one again for each message takes 60 µs."""
        self._pool.resize(files)

    def memory_only(self, fetched: Collection[FileRange] = ()) -> MemoryOnly:
        """Return what, while it is entered, makes reads raise NotInMemory instead of waiting for the disk.

        They may wait for what was fetched.
        """
        return MemoryOnly(self._pool, fetched)

    def plan(self, missing: Iterable[FileRange]) -> Plan:
        """Return what fetch() is to read for a reader who misses bytes, and what it is to ask the system for."""
        return self._ahead.missed(missing)

    def read_ahead(self, ask: Callable[[FileRange], object]) -> None:
        """Call a function with the bytes that the system should be asked for whenever readers come near to them.

        It is called on the readers' thread and must not wait: it has a thread call fetch().
        """
        self._ask = ask

    def _reached(self, path: str, position: int) -> bool:
        is_coming, ahead = self._ahead.reached(path, position)
        if ahead is not None and self._ask is not None:
            self._ask(ahead)
        return is_coming

    def fetch(self, parts: Iterable[FileRange], ahead: Iterable[FileRange] = ()) -> None:
        """Have the system read bytes into its memory, and ask it for what comes next; any thread may call this.

        It raises nothing: whoever reads the bytes then is told what is wrong with them.
        """
        wanted = [(part.path, False, part) for part in parts] + [(part.path, True, part) for part in ahead]
        for path, found in groupby(sorted(set(wanted)), key=lambda each: each[0]):
            try:
                _fetch_from(self._files, path, [(part, is_ahead) for _, is_ahead, part in found])
            except OSError as error:
                logger.debug("cannot fetch bytes of file=%s: %s", path, error)


class MemoryOnly:
    """While it is entered, reads through a pool raise NotInMemory where they would wait for the disk."""

    __slots__ = ("_fetched", "_pool")

    def __init__(self, pool: DescriptorPool, fetched: Collection[FileRange] = ()) -> None:
        self._pool = pool
        self._fetched = fetched

    def __enter__(self) -> None:
        self._pool.may_wait = False
        self._pool.fetched = self._fetched

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._pool.may_wait = True
        self._pool.fetched = ()


def read_all(read: Callable[[int], T], offsets: Iterable[int]) -> list[T]:
    """Call a reader for each of some offsets; raise NotInMemory for all that is missing, not only for the first."""
    found: list[T] = []
    missing: list[FileRange] = []
    for offset in offsets:
        try:
            found.append(read(offset))
        except NotInMemory as error:
            missing += error.missing
    if missing:
        raise NotInMemory(missing)
    return found


def need_all(read: Callable[[int], bytes | None], offsets: Iterable[int], limit: int) -> None:
    """Raise NotInMemory for what is missing of some records, whose first `limit` bytes are looked at, and keep none."""
    missing: list[FileRange] = []
    for offset in offsets:
        try:
            limit -= len(read(offset) or b"")
        except NotInMemory as error:
            missing += error.missing
            limit -= sum(part.length for part in error.missing)
        if limit < 0:
            break
    if missing:
        raise NotInMemory(missing)


def _fetch_from(files: OsFiles, path: str, parts: list[tuple[FileRange, bool]]) -> None:
    descriptor = files.open(path)
    try:
        for (_, position, length), _ in parts:  # all of them first, so that the disk is never idle
            for start in range(position, position + length, _ASKED):
                files.will_need(descriptor, min(_ASKED, position + length - start), start)
        for (_, position, length), is_ahead in parts:
            if is_ahead:
                continue
            for start in range(position, position + length, _PIECE):
                files.pread(descriptor, min(_PIECE, position + length - start), start)
    finally:
        files.close(descriptor)
