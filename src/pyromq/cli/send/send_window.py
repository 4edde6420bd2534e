"""Several sends in flight, with results in order."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import NamedTuple

from rich.progress import Progress

from pyromq.admin.views.message_view import send_result_fields
from pyromq.cli.show.console import is_terminal
from pyromq.cli.show.lines import json_line, report_line
from pyromq.cli.show.progress import progress
from pyromq.client.send_result import SendResult
from pyromq.errors import ClientError, PyroMQError
from pyromq.protocol.messages.message import Message

SendOne = Callable[..., Awaitable[SendResult]]


class Numbered(NamedTuple):
    """A message, and the number of the line that it was read from."""

    line: int | None
    message: Message


class SendWindow:
    """Sends messages as they arrive, at most `window` at a time, and prints their results in order.

    After a failure or Ctrl-C it sends nothing more, and waits for what is in flight: every stored message is reported.
    """

    def __init__(self, send_one: Callable[[Message], Awaitable[SendResult]], window: int, as_json: bool) -> None:
        self._send_one = send_one
        self._free = asyncio.Semaphore(window)
        self._in_flight: asyncio.Queue[tuple[int | None, asyncio.Task[SendResult]] | None] = asyncio.Queue()
        self._show = _as_json if as_json else _as_line
        self._sent = 0
        self._failure = ""
        self._failed = 0

    async def run(self, messages: AsyncIterator[Numbered]) -> None:
        """Send all; raise ClientError that names the first failure."""
        feeding = asyncio.create_task(self._feed(messages))
        reporting = asyncio.create_task(self._report(feeding))
        try:
            await asyncio.shield(reporting)
        except asyncio.CancelledError:
            feeding.cancel()
            await reporting
            raise
        if self._failure:
            raise ClientError(self._summary())
        await feeding  # the input may have failed

    async def _feed(self, messages: AsyncIterator[Numbered]) -> None:
        """Start a send for each message; the end of the queue is None."""
        try:
            async for line, message in messages:
                await self._free.acquire()
                task = asyncio.create_task(self._send(message))
                self._in_flight.put_nowait((line, task))
        finally:
            self._in_flight.put_nowait(None)

    async def _send(self, message: Message) -> SendResult:
        try:
            return await self._send_one(message)
        finally:
            self._free.release()

    async def _report(self, feeding: asyncio.Task[None]) -> None:
        """Print the results in order; the first failure ends the input."""
        with _progress() as bar:
            task = bar.add_task("sending", total=None)
            while (sending := await self._in_flight.get()) is not None:
                await self._finish(*sending)
                bar.update(task, completed=self._sent)
                if self._failure:
                    feeding.cancel()

    async def _finish(self, line: int | None, sending: asyncio.Task[SendResult]) -> None:
        try:
            result = await sending
        except PyroMQError as error:
            self._failed += 1
            self._failure = self._failure or (f"line {line}: {error}" if line is not None else str(error))
        else:
            self._sent += 1
            report_line(self._show(result), flush=self._in_flight.empty())

    def _summary(self) -> str:
        others = f", and {self._failed - 1} more" if self._failed > 1 else ""
        stored = f"; {self._sent} message{'s were' if self._sent > 1 else ' was'} sent" if self._sent else ""
        return f"{self._failure}{others}{stored}"


def _progress() -> Progress:
    """Return a progress bar on stderr; it is drawn only if a person looks at it and stdout goes elsewhere."""
    return progress(shown=not is_terminal(sys.stdout))


def _as_json(result: SendResult) -> str:
    return json_line(send_result_fields(result))


def _as_line(result: SendResult) -> str:
    queue = result.queue
    return f"{result.status} {result.message_id} {queue.broker_name}:{queue.queue_id}:{result.queue_offset}"
