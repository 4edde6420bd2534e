"""DiskReads: reads of what is not in memory, without stopping the loop.

    a handler reads        in memory, as nearly always: it answers within the read of its request, as any other
    something is missing   its request joins the line of its connection, and a thread fetches the bytes from the disk
    they are in memory     the handler runs again from the beginning

So a consumer that catches up on a slow disk waits for the disk, and nobody else does. A connection has one fetch at a
time: a consumer with a thousand queues cannot take all threads. Requests about one queue are answered in the order in
which they came on their connection; whoever asks about another queue is not held up.

For a consumer that catches up more is read than it misses, and the system asked for what comes next
(store/read/disk/read_ahead.py). What several consumers miss is read once.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Generator, KeysView, Sequence
from types import coroutine
from typing import Any, Final, NamedTuple, TypeVar

from pyromq.broker.pulls.thread_workers import ThreadWorkers
from pyromq.errors import ServiceNotAvailable, SystemBusy
from pyromq.figures import BoundFigures, Figure, Kind
from pyromq.protocol.command import RemotingCommand
from pyromq.remoting.connection import Connection
from pyromq.remoting.dispatch import error_answer, send_answer
from pyromq.remoting.requests import Answer, Handler, HandlerResult
from pyromq.store.read.readable import ReadableStore
from pyromq.store.segments import FileRange, NotInMemory

logger = logging.getLogger(__name__)

T = TypeVar("T")
Place = tuple[str | None, str | None]

THREADS: Final = 4
_MOST_IN_LINE: Final = 1024  # of one connection, as of handlers that run as tasks


class _WaitingRequest(NamedTuple):
    """A request that waits for the disk, and how to answer it when the bytes are there."""

    request: RemotingCommand
    handler: Handler
    place: Place
    missing: Sequence[FileRange]


class DiskReads:
    """Has bytes fetched from the disk for handlers and services that read on the loop."""

    def __init__(self, store: ReadableStore) -> None:
        self.workers = ThreadWorkers("pyromq-disk", THREADS)
        self.fetches = 0
        """How often a reader had to wait for the disk."""
        self._store = store
        self._lines: dict[Connection, deque[_WaitingRequest]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._reading: dict[FileRange, asyncio.Future[None]] = {}
        self._is_closed = False
        store.disk.read_ahead(self._ask)

    def figures(self) -> BoundFigures[DiskReads]:
        """Return the figures of reads from the disk."""
        return BoundFigures(_FIGURES, lambda: self)

    @property
    def waiting(self) -> int:
        """How many requests wait for the disk."""
        return sum(map(len, self._lines.values()))

    @property
    def waiting_connections(self) -> KeysView[Connection]:
        """The connections with requests that wait for the disk; what is returned shows changes."""
        return self._lines.keys()

    # --- requests

    def served(self, handler: Handler) -> Handler:
        """Return a handler that answers at once if all is in memory, else later.

        The handler must change nothing before its last read: it may run several times, and the last time counts.
        """

        def serve(request: RemotingCommand, connection: Connection) -> HandlerResult:
            missing: Sequence[FileRange] = ()
            if not self._lines or not self._is_behind(request, connection):
                try:
                    with self._store.disk.memory_only():
                        answer = handler(request, connection)
                    if answer is None or isinstance(answer, (bytes, RemotingCommand)):  # nearly always
                        return answer
                    if isinstance(answer, Generator):
                        return self._steps(answer, handler, request, connection)
                    return answer
                except NotInMemory as error:
                    missing = error.missing
            self.serve_later(handler, request, connection, missing)
            return None

        return serve

    def _steps(
        self, steps: Generator[None, None, Answer], handler: Handler, request: RemotingCommand, connection: Connection
    ) -> Generator[None, None, Answer]:
        """Serve in steps, as the handler does, until something is missing."""
        try:
            while True:
                with self._store.disk.memory_only():
                    next(steps)
                yield
        except StopIteration as end:
            answer: Answer = end.value
            return answer
        except NotInMemory as error:
            self.serve_later(handler, request, connection, error.missing)
            return None

    def serve_later(
        self, handler: Handler, request: RemotingCommand, connection: Connection, missing: Sequence[FileRange]
    ) -> None:
        """Answer a request when what is missing is in memory; raise SystemBusy if too many of its connection wait."""
        if self._is_closed:
            raise ServiceNotAvailable("this broker is stopping")
        line = self._lines.get(connection)
        if line is None:
            line = self._lines[connection] = deque()
            self._start(self._serve_line(connection, line))
        elif len(line) >= _MOST_IN_LINE:
            raise SystemBusy(f"{len(line)} requests of this connection wait for the disk")
        line.append(_WaitingRequest(request, handler, _place(request), missing))

    def _is_behind(self, request: RemotingCommand, connection: Connection) -> bool:
        """Return True if an earlier request of the connection about the same queue still waits."""
        line = self._lines.get(connection)
        return line is not None and _place(request) in [earlier.place for earlier in line]

    async def _serve_line(self, connection: Connection, line: deque[_WaitingRequest]) -> None:
        try:
            while line and not connection.closed:
                await self._serve_first(connection, line[0])
                line.popleft()
        finally:
            del self._lines[connection]

    async def _serve_first(self, connection: Connection, first: _WaitingRequest) -> None:
        request, handler, _, missing = first
        try:
            answer = await self._answer(lambda: handler(request, connection), missing, lambda: connection.closed)
            send_answer(answer, request, connection)
        except Exception as error:
            send_answer(error_answer(request, error, connection), request, connection)

    async def _answer(
        self, handle: Callable[[], HandlerResult], missing: Sequence[FileRange], is_given_up: Callable[[], bool]
    ) -> Answer:
        fetched: set[FileRange] = set()
        while True:
            await self._fetch(missing, fetched)
            if is_given_up() or self._is_closed:
                return None
            try:
                with self._store.disk.memory_only(fetched):
                    answer = handle()
                if isinstance(answer, Generator):
                    return await self._all_steps(answer, fetched)
                return await answer if isinstance(answer, Coroutine) else answer
            except NotInMemory as error:
                missing = error.missing

    async def _all_steps(self, steps: Generator[None, None, Answer], fetched: Collection[FileRange]) -> Answer:
        while True:
            try:
                with self._store.disk.memory_only(fetched):
                    next(steps)
            except StopIteration as end:
                answer: Answer = end.value
                return answer
            await _next_pass()

    # --- services

    async def read(self, read: Callable[[], T]) -> T:
        """Call a function that reads until all that it needs is in memory, and return what it returns.

        It may be called several times, so it changes nothing before its last read. Raises ServiceNotAvailable if the
        broker stops.
        """
        fetched: set[FileRange] = set()
        while not self._is_closed:
            try:
                with self._store.disk.memory_only(fetched):
                    return read()
            except NotInMemory as error:
                await self._fetch(error.missing, fetched)
        raise ServiceNotAvailable("this broker is stopping")

    def call(self, function: Callable[[], None]) -> None:
        """Call a function that reads, now and, if something was missing, again when that is in memory.

        It changes nothing before its last read. It is not called again if the broker stops.
        """
        try:
            with self._store.disk.memory_only():
                function()
        except NotInMemory:
            self._start(self.read(function))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, ServiceNotAvailable):
            logger.error("a read from the disk failed", exc_info=error)

    async def _fetch(self, missing: Sequence[FileRange], fetched: set[FileRange]) -> None:
        if missing:
            self.fetches += 1
            parts, ahead = self._store.disk.plan(missing)
            if (new := [part for part in parts if part not in self._reading]) or ahead:
                reading = self.workers.start(self._store.disk.fetch, new, ahead)
                self._reading.update(dict.fromkeys(new, reading))
                reading.add_done_callback(lambda _: self._has_read(new))
            await asyncio.wait({self._reading[part] for part in parts})
            fetched.update(missing)

    def _has_read(self, parts: Sequence[FileRange]) -> None:
        for part in parts:
            del self._reading[part]

    def _ask(self, ahead: FileRange) -> None:
        """Have the system asked for bytes; nobody waits for them yet."""
        if not self._is_closed:
            self.workers.start(self._store.disk.fetch, (), (ahead,))

    async def close(self) -> None:
        """Refuse what waits. A Java client that gets no answer would not read its queue for 30 s."""
        self._is_closed = True
        refused = ServiceNotAvailable("this broker is stopping")
        for connection, line in self._lines.items():
            for request, *_ in line:
                connection.send(error_answer(request, refused, connection).encode())
            line.clear()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.workers.close()


@coroutine
def _next_pass() -> Generator[None, None, None]:
    """Let everything else on the loop run before going on."""
    yield


def _place(request: RemotingCommand) -> Place:
    fields = request.ext_fields
    return fields.get("topic"), fields.get("queueId")


_FIGURES: Final[tuple[Figure[DiskReads], ...]] = (
    Figure("disk_fetches", "Reads that had to wait for the disk.", Kind.COUNTER, lambda reads: reads.fetches),
    Figure(
        "disk_waiting",
        "Requests that wait for the disk.",
        Kind.GAUGE,
        lambda reads: reads.waiting,
        runtime="pullThreadPoolQueueSize",
        exporter="rocketmq_brokeruntime_pull_threadpoolqueue_size",
    ),
)
