"""Linger: messages sent within a few milliseconds of each other travel as one batch."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from msgspec import Struct, field

from pyromq.client.send.prepare import MessagePreparer, PreparedElement, PreparedMessage, size_in_batch
from pyromq.client.send_result import SendResult, results_of_batch
from pyromq.clock import Clock, TimerHandle
from pyromq.protocol.messages.message import Message, MessageQueue

_MOST_BYTES = 256 * 1024
_MOST_MESSAGES = 1000

_Key = tuple[str, bool, MessageQueue | None]


class _OpenBatch(Struct, eq=False):
    first: Message
    timer: TimerHandle
    elements: list[PreparedElement] = field(default_factory=list)
    waiting: list[asyncio.Future[SendResult]] = field(default_factory=list)
    size: int = 0


class Linger:
    """Gathers the messages of a topic, or of a queue, for `seconds`, then sends them together."""

    def __init__(
        self,
        seconds: float,
        preparer: MessagePreparer,
        clock: Clock,
        send: Callable[[PreparedMessage, MessageQueue | None], Awaitable[SendResult]],
    ) -> None:
        self._seconds = seconds
        self._preparer = preparer
        self._clock = clock
        self._send = send
        self._open: dict[_Key, _OpenBatch] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def send(self, message: Message, queue: MessageQueue | None, order_key: str | None) -> SendResult:
        """Send a message with others; after a cancellation it may still be sent."""
        element = self._preparer.element(message, order_key)
        size = size_in_batch(element[1])
        key = (message.topic, message.wait, queue)
        batch = self._open.get(key)
        if batch is not None and batch.size + size > _MOST_BYTES:
            self._flush(key)
            batch = None
        if batch is None:
            timer = self._clock.call_later(self._seconds, self._flush, key)
            batch = self._open[key] = _OpenBatch(message, timer)
        future: asyncio.Future[SendResult] = asyncio.get_running_loop().create_future()
        batch.elements.append(element)
        batch.waiting.append(future)
        batch.size += size
        if len(batch.elements) >= _MOST_MESSAGES:
            self._flush(key)
        return await future

    def flush(self) -> None:
        """Send all waiting messages now."""
        for key in list(self._open):
            self._flush(key)

    def _flush(self, key: _Key) -> None:
        batch = self._open.pop(key)
        batch.timer.cancel()
        task = asyncio.create_task(self._deliver(batch, key[2]))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _deliver(self, batch: _OpenBatch, queue: MessageQueue | None) -> None:
        try:
            result = await self._send(self._preparer.batch(batch.first, batch.elements), queue)
        except BaseException as error:
            for future in batch.waiting:
                if not future.done():
                    future.set_exception(error)
            if not isinstance(error, Exception):
                raise
            return
        for future, part in zip(batch.waiting, results_of_batch(result), strict=True):
            if not future.done():
                future.set_result(part)
