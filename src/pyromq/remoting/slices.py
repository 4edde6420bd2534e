"""SliceQueue: long requests, served a little in each pass of the loop.

A handler whose work may take long returns a generator that yields every few hundred microseconds and returns its
answer. All such requests of a server share one slice of each pass, whatever their number, so they delay others by that
slice at most. Connections take turns; the requests of one connection are served in their order.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Generator
from time import perf_counter
from typing import NamedTuple, TypeAlias, TypeVar, cast

from pyromq.clock import Clock
from pyromq.protocol.command import RemotingCommand
from pyromq.remoting.connection import Connection
from pyromq.remoting.requests import Answer
from pyromq.remoting.round import Serving

SLICE = 0.002  # seconds

T = TypeVar("T")
Steps: TypeAlias = Generator[None, None, T]
"""Work in small steps: it yields between them and returns its result."""

AnswerSteps: TypeAlias = Steps[RemotingCommand]
"""What a handler returns whose work may take long."""

Settle: TypeAlias = Callable[[Answer | Exception, RemotingCommand, Connection], None]
"""Takes the answer to a request, or what its handler raised."""


async def in_turns(steps: Steps[T], clock: Clock) -> T:
    """Do such work in a coroutine, which lets others have their turn after each step."""
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            return cast(T, stop.value)
        await clock.sleep(0)


class _Job(NamedTuple):
    steps: Steps[Answer]
    command: RemotingCommand


class SliceQueue:
    """Serve requests in steps; `settle` is called with the answer or the exception of each."""

    def __init__(self, settle: Settle) -> None:
        self._settle = settle
        self._jobs: OrderedDict[Connection, deque[_Job]] = OrderedDict()
        self._empty = asyncio.Event()
        self._empty.set()

    def add(self, steps: Steps[Answer], command: RemotingCommand, connection: Connection) -> None:
        """Serve a request: at once if it is short and no other waits, else in slices."""
        if not self._jobs and self._advance(_Job(steps, command), connection, perf_counter() + SLICE):
            return
        connection.running += 1
        connection.note_held(len(command.body))
        self._jobs.setdefault(connection, deque()).append(_Job(steps, command))
        if self._empty.is_set():
            self._empty.clear()
            self._continue_later()

    @property
    def is_empty(self) -> bool:
        """Whether no request is left."""
        return self._empty.is_set()

    async def drained(self) -> None:
        """Wait until no request is left."""
        await self._empty.wait()

    def drop_all(self) -> None:
        """Stop serving what is left."""
        for connection in list(self._jobs):
            self._drop(connection)

    def _continue_later(self) -> None:
        asyncio.get_running_loop().call_soon(self._continue)

    def _continue(self) -> None:
        end = perf_counter() + SLICE
        while self._jobs:
            connection = next(iter(self._jobs))
            if connection.closed:
                self._drop(connection)
            else:
                self._serve(connection, end)
            if perf_counter() >= end:
                break
        Serving.peer = ""
        if self._jobs:
            self._continue_later()
        else:
            self._empty.set()

    def _serve(self, connection: Connection, end: float) -> None:
        """Continue the first request of a connection, which then stands behind all others."""
        jobs = self._jobs[connection]
        job = jobs[0]
        Serving.peer = connection.peer
        if self._advance(job, connection, end):
            jobs.popleft()
            connection.running -= 1
            connection.note_held(-len(job.command.body))
        if jobs:
            self._jobs.move_to_end(connection)
        else:
            del self._jobs[connection]

    def _advance(self, job: _Job, connection: Connection, end: float) -> bool:
        """Work until `end`; return True if the request was answered."""
        try:
            while True:
                next(job.steps)
                if perf_counter() >= end:
                    return False
        except StopIteration as stop:
            answer = stop.value
        except Exception as error:
            self._settle(error, job.command, connection)
            return True
        # Outside of the handler: an error in here would be logged with the whole answer as its context.
        self._settle(answer, job.command, connection)
        return True

    def _drop(self, connection: Connection) -> None:
        for job in self._jobs.pop(connection):
            job.steps.close()
            connection.running -= 1
            connection.note_held(-len(job.command.body))
