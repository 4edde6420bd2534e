"""WorkerProcesses: handlers that need a CPU of their own run in other processes; the parent acknowledges.

A process has one call at a time. If it dies, only that call fails: its message is redelivered, and another process
takes its place. The processes ignore SIGTERM and SIGINT, because the parent finishes what is in hand, and end when the
parent closes their pipe or dies.
"""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import pickle
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from pyromq.client.listener.listener_threads import ListenerThreads
from pyromq.client.listener.outcomes import cause_of
from pyromq.errors import ClientError

logger = logging.getLogger(__name__)

_END_PATIENCE = 2.0  # seconds: a process without a call ends at once


class WorkerDied(Exception):
    """The process that ran a handler died; the message is redelivered."""


class WorkerProcesses:
    """Some processes that call functions by name."""

    def __init__(self, count: int, threads: ListenerThreads) -> None:
        self._threads = threads
        self._idle: asyncio.LifoQueue[_Worker] = asyncio.LifoQueue()
        self._workers = [_Worker() for _ in range(count)]
        for worker in self._workers:
            self._idle.put_nowait(worker)

    async def call(self, function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
        """Return `function(**arguments)`, called in one of the processes; a cancelled call ends its process."""
        worker = await self._idle.get()
        try:
            answer: Any = await self._threads.run(worker.call, (function, dict(arguments)))
        except BaseException:
            worker.kill()  # its answer must not be taken for that of the next call
            raise
        finally:
            self._idle.put_nowait(worker)
        succeeded, outcome = answer
        if not succeeded:
            raise outcome
        return outcome

    def close(self) -> None:
        """End the processes."""
        for worker in self._workers:
            worker.close()


class _Worker:
    """A place for one process, which is started with its first call and after the one before died."""

    def __init__(self) -> None:
        self._process: _Process | None = None

    def call(self, work: tuple[Callable[..., Any], dict[str, Any]]) -> tuple[bool, Any]:
        """Run one call; raises WorkerDied. Runs on a thread, one call at a time."""
        data = pickle.dumps(work)
        process = self._process
        if process is None or not process.is_alive:
            process = self._process = _Process()
        try:
            return process.ask(data)
        except (EOFError, OSError):
            code = process.ended()
            raise WorkerDied(f"the process of the handler {work[0].__name__} died (exit code {code})") from None

    def kill(self) -> None:
        """End the process at once; the next call gets another one, also if the thread of this one still waits."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()

    def close(self) -> None:
        """Let the process end."""
        if self._process is not None:
            self._process.close()


class _Process:
    """A process that answers calls."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")  # a fork would copy sockets, threads and locks
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs,), name="pyromq handler", daemon=True)
        self._process.start()
        theirs.close()

    @property
    def is_alive(self) -> bool:
        """True if it runs."""
        return self._process.is_alive()

    def ask(self, data: bytes) -> tuple[bool, Any]:
        """Return the answer; raises EOFError or OSError if the process died."""
        self._pipe.send_bytes(data)
        answer: tuple[bool, Any] = pickle.loads(self._pipe.recv_bytes())  # noqa: S301 (from our own process)
        return answer

    def ended(self) -> int | None:
        """Return the exit code of the process that died."""
        self._process.join(_END_PATIENCE)
        logger.warning("a handler's process died pid=%s exit=%s", self._process.pid, self._process.exitcode)
        return self._process.exitcode

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()

    def close(self) -> None:
        """Let it end, which it does unless a call hangs."""
        self._pipe.close()
        self._process.join(_END_PATIENCE)
        self._process.kill()


def serve(pipe: Connection) -> None:
    """Answer calls until the parent closes the pipe; the main function of a process."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    with suppress(EOFError, OSError):
        while True:
            _answer(pipe)


def _answer(pipe: Connection) -> None:
    data = pipe.recv_bytes()
    try:
        function, arguments = pickle.loads(data)  # noqa: S301 (from the parent)
        answer = True, function(**arguments)
    except Exception as error:
        answer = False, error
    pipe.send_bytes(_pickled(answer))


def _pickled(answer: tuple[bool, Any]) -> bytes:
    try:
        data = pickle.dumps(answer)
        pickle.loads(data)  # noqa: S301 (our own; some exceptions can be written and not read)
    except Exception as error:
        cause = cause_of(answer[1]) if isinstance(answer[1], BaseException) else f"its result: {error}"
        return pickle.dumps((False, RuntimeError(f"the handler's process cannot send {cause}")))
    return data


def check_importable(function: Any) -> None:
    """Raise ClientError if another process cannot find a function by its name."""
    if "<" in getattr(function, "__qualname__", "<"):
        name = getattr(function, "__name__", function)
        raise ClientError(f"processes= needs a function at the top of a module: {name} is inside another one")
