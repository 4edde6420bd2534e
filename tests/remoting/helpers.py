"""A clock that stands still, a peer made of plain bytes, and handlers to talk to."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable, Mapping
from socket import SO_RCVBUF, SO_SNDBUF, SOL_SOCKET
from typing import Any, ClassVar

from pyromq.protocol.command import RemotingCommand, decode, request, response
from pyromq.remoting.connection import Connection
from pyromq.remoting.requests import Handler
from pyromq.remoting.server import RemotingServer

ECHO, FAIL, SLOW, NEVER = 9001, 9002, 9003, 9004


class FakeTimer:
    """A callback of `FakeClock`."""

    def __init__(self, callback: Callable[[], object]) -> None:
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class FakeClock:
    """Stand still until `advance`, then fire what is due, in order."""

    def __init__(self) -> None:
        self.time = 1_000.0
        self.wall = 1_600_000_000.0
        self._order = itertools.count()
        self._timers: list[tuple[float, int, FakeTimer]] = []
        self._timer_was_set = asyncio.Event()

    def now(self) -> float:
        return self.wall + self.time

    def now_ms(self) -> int:
        return int(self.now() * 1000)

    def monotonic(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        slept = asyncio.Event()
        self.call_later(seconds, slept.set)
        await slept.wait()

    def call_later(self, seconds: float, callback: Callable[..., object], *args: Any) -> FakeTimer:
        timer = FakeTimer(lambda: callback(*args))
        heapq.heappush(self._timers, (self.time + seconds, next(self._order), timer))
        self._timer_was_set.set()
        return timer

    async def next_timer(self) -> None:
        """Wait until somebody waits for this clock who did not before."""
        self._timer_was_set.clear()
        await asyncio.wait_for(self._timer_was_set.wait(), 10)

    @property
    def waiting(self) -> int:
        """Return how many timers are set."""
        return sum(not timer.cancelled for _, _, timer in self._timers)

    def advance(self, seconds: float) -> None:
        """Let `seconds` pass."""
        end = self.time + seconds
        while self._timers and self._timers[0][0] <= end:
            self.time, _, timer = heapq.heappop(self._timers)
            if not timer.cancelled:
                timer.callback()
        self.time = end


class RawPeer:
    """The other end of a socket, without any of the code under test but the codec."""

    opened: ClassVar[list[RawPeer]] = []

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.opened.append(self)

    @classmethod
    async def connect(cls, port: int, limit: int = 1 << 16) -> RawPeer:
        return cls(*await asyncio.open_connection("127.0.0.1", port, limit=limit))

    def send(self, *commands: RemotingCommand) -> None:
        self.writer.write(b"".join(command.encode() for command in commands))

    async def receive(self) -> RemotingCommand:
        length = int.from_bytes(await self.reader.readexactly(4), "big")
        return decode(await self.reader.readexactly(length))

    async def ask(self, command: RemotingCommand) -> RemotingCommand:
        self.send(command)
        return await self.receive()

    def close(self) -> None:
        """Leave at once, read or unread."""
        self.writer.transport.abort()

    async def is_closed(self) -> bool:
        """Wait for the other side to close, dropping what still comes."""
        try:
            while await self.reader.read(65536):
                pass
        except ConnectionError:
            pass
        return True


def numbered(code: int, opaque: int, body: bytes = b"", *, oneway: bool = False) -> RemotingCommand:
    """Return a request with its opaque set."""
    command = request(code, body=body, oneway=oneway)
    command.opaque = opaque
    return command


def echo(command: RemotingCommand, connection: Connection) -> RemotingCommand:
    """Answer with the body that was sent."""
    return response(command, body=command.body)


def fail(command: RemotingCommand, connection: Connection) -> bytes:
    """Break as a handler should not."""
    raise ValueError("the reason,\n  on two lines")


def never(command: RemotingCommand, connection: Connection) -> None:
    """Leave the request unanswered."""


async def echo_slowly(command: RemotingCommand, connection: Connection) -> RemotingCommand:
    """Answer from a task."""
    await asyncio.sleep(0)
    return response(command, body=command.body)


HANDLERS: Mapping[int, Handler] = {ECHO: echo, FAIL: fail, SLOW: echo_slowly, NEVER: never}


def serve(clock: FakeClock, handlers: Mapping[int, Handler] = HANDLERS, **options: Any) -> RemotingServer:
    """Return a server on a free port of the loopback address."""
    return RemotingServer(handlers, host="127.0.0.1", port=0, clock=clock, **options)


async def let_loop_run() -> None:
    """Let the event loop come round often enough for whatever is scheduled to happen."""
    for _ in range(10):
        await asyncio.sleep(0)


def shrink_buffers(socket: Any) -> None:
    """Let the kernel hold little for this socket, and for those that a listening one accepts."""
    socket.setsockopt(SOL_SOCKET, SO_RCVBUF, 32 * 1024)
    socket.setsockopt(SOL_SOCKET, SO_SNDBUF, 32 * 1024)
