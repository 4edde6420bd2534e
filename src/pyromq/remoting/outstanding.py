"""Requests that were sent on one connection and have no answer yet."""

from __future__ import annotations

import asyncio
import logging

from msgspec import Struct

from pyromq.errors import ConnectionLost, RemotingError, RequestTimeout
from pyromq.protocol.command import RemotingCommand
from pyromq.remoting.deadlines import Deadlines

logger = logging.getLogger(__name__)

OPAQUE_MASK = 0x7FFF_FFFF  # the wire has a signed 32-bit number; ours wraps before it turns negative


class _Request(Struct, gc=False):
    future: asyncio.Future[RemotingCommand]
    deadline: int
    code: int
    timeout: float


class Outstanding:
    """Pair answers with requests by opaque, bounded in number, each with a deadline."""

    def __init__(self, deadlines: Deadlines, limit: int) -> None:
        self.address = ""
        self.has_room = asyncio.Event()
        self.has_room.set()
        self._deadlines = deadlines
        self._limit = limit
        self._loop = asyncio.get_running_loop()
        self._requests: dict[int, _Request] = {}
        self._opaque = 0

    def __len__(self) -> int:
        return len(self._requests)

    def add(self, command: RemotingCommand, timeout: float) -> asyncio.Future[RemotingCommand]:
        """Return the future of the answer to `command`; raise RemotingError if too many wait already."""
        if not self.has_room.is_set():
            raise RemotingError(f"{len(self._requests)} requests to {self.address} are outstanding already")
        future: asyncio.Future[RemotingCommand] = self._loop.create_future()
        deadline = self._deadlines.after(self, timeout)
        self._requests[command.opaque] = _Request(future, deadline, command.code, timeout)
        if len(self._requests) >= self._limit:
            self.has_room.clear()
        return future

    def next_opaque(self) -> int:
        """Return the number that pairs the next request with its answer."""
        self._opaque = opaque = (self._opaque + 1) & OPAQUE_MASK
        return opaque

    def settle(self, answer: RemotingCommand) -> None:
        """Hand `answer` to whoever asked; too late or never asked for, it is dropped."""
        request = self._requests.pop(answer.opaque, None)
        if request is None:
            logger.debug("dropped an answer from %s that nobody waits for opaque=%d", self.address, answer.opaque)
        elif not request.future.done():
            request.future.set_result(answer)
        if not self.has_room.is_set():
            self._make_room()

    def expire(self, tick: int) -> bool:
        """Time out what was due by `tick`, forget what was cancelled; return whether anything is left."""
        over = [opaque for opaque, item in self._requests.items() if item.deadline <= tick or item.future.done()]
        for opaque in over:
            request = self._requests.pop(opaque)
            if not request.future.done():
                text = f"no answer from {self.address} within {request.timeout:g} s (request code {request.code})"
                request.future.set_exception(RequestTimeout(text))
        self._make_room()
        return bool(self._requests)

    def fail(self, reason: str) -> None:
        """End all requests with ConnectionLost."""
        requests, self._requests = self._requests, {}
        for request in requests.values():
            if not request.future.done():
                request.future.set_exception(ConnectionLost(reason))  # one each: raising adds its own traceback
        self._make_room()

    def _make_room(self) -> None:
        # Only at half: a crowd of waiting senders is woken once for many free places, not once for each.
        if len(self._requests) <= self._limit // 2:
            self.has_room.set()
