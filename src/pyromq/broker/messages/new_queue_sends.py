"""NewQueueSends: the first messages of a queue wait until a thread has made its file.

    the queue has a file     nearly always: the message is stored at once
    it has none              its requests form a line; a thread makes the files of all such queues, many at a time
    the file is there        the requests are served again, in the order in which they came

A thousand topics that come to life at once must not hold up the others: the file system may take long over each file.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from itertools import islice
from typing import Final

from pyromq.broker.pulls.thread_workers import ThreadWorkers
from pyromq.clock import Clock
from pyromq.errors import StoreError, SystemBusy
from pyromq.protocol.command import RemotingCommand
from pyromq.remoting.connection import Connection
from pyromq.store.consume_queue import ConsumeQueue
from pyromq.store.write.new_queues import NewQueues

logger = logging.getLogger(__name__)

_FILES_AT_A_TIME: Final = 64
_SENDS_AT_A_TIME: Final = 64
_MOST_HELD: Final = 10_000
_MOST_BYTES: Final = 64 << 20

_Key = tuple[str, int]
_Line = deque[tuple[RemotingCommand, Connection]]


class NewQueueSends:
    """Holds requests for queues without a file, and has them served again."""

    def __init__(self, queues: NewQueues, clock: Clock) -> None:
        self._queues = queues
        self._is_new = queues.has
        self._clock = clock
        self._workers = ThreadWorkers("pyromq-queues", 1)
        self._lines: dict[_Key, _Line] = {}
        self._serving: _Key | None = None
        self._count = self._bytes = 0
        self._task: asyncio.Task[None] | None = None

    @property
    def holds_any(self) -> bool:
        """Whether a request waits for the file of its queue."""
        return bool(self._lines)

    def must_wait(self, topic: str, queue_id: int) -> bool:
        """Return True if a send to a queue has to wait: for its file, or for those that came before it."""
        if not self._lines and not self._is_new(topic, queue_id):
            return False
        key = topic, queue_id
        return key != self._serving and (key in self._lines or self._is_new(topic, queue_id))

    def hold(self, request: RemotingCommand, connection: Connection, topic: str, queue_id: int) -> None:
        """Serve a request again when its queue has a file; raise SystemBusy if too many wait, or StoreError."""
        if self._count >= _MOST_HELD or self._bytes + len(request.body) > _MOST_BYTES:
            raise SystemBusy(f"{self._count} messages already wait for the files of new queues")
        self._queues.begin(topic, queue_id)
        self._count += 1
        self._bytes += len(request.body)
        self._lines.setdefault((topic, queue_id), deque()).append((request, connection))
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._work())

    async def drained(self) -> None:
        """Wait until no request is held any more."""
        if self._task is not None:
            await self._task
        self._workers.close()

    async def _work(self) -> None:
        try:
            while self._lines:
                await self._make_files(list(islice(self._lines, _FILES_AT_A_TIME)))
        finally:
            self._task = None

    async def _make_files(self, keys: list[_Key]) -> None:
        queues = [queue for key in keys if (queue := self._begin(key)) is not None]
        made = await self._workers.run(self._queues.make, queues)
        for queue, file in zip(queues, made, strict=True):
            self._queues.take_over(queue, file)
        served = 0
        for key in keys:
            while key in self._lines:
                self._serve_first(key)
                served += 1
                if served % _SENDS_AT_A_TIME == 0:
                    await self._clock.sleep(0)

    def _begin(self, key: _Key) -> ConsumeQueue | None:
        try:
            return self._queues.begin(*key)
        except StoreError:  # whoever puts a message there is told
            return None

    def _serve_first(self, key: _Key) -> None:
        """Serve the first of a line; one whose file could not be made is told why."""
        line = self._lines[key]
        request, connection = line.popleft()
        self._count -= 1
        self._bytes -= len(request.body)
        self._serving = key
        try:
            connection.serve_again(request)
        except Exception:
            logger.exception("a message that waited for the file of its queue could not be stored")
        finally:
            self._serving = None
        if not line:
            del self._lines[key]
