"""Requests that were sent and have no answer yet, and the deadlines of all of them, swept by one timer.

A timer for each request costs 4 µs of the client's 14 µs a message (measured with 32 in flight).
"""

from __future__ import annotations

import asyncio
import logging
import math
from typing import Protocol

from msgspec import Struct

from pyromq.clock import Clock
from pyromq.errors import ConnectionLost, RemotingError, RequestTimeout
from pyromq.protocol.command import RemotingCommand
from pyromq.remoting.ticker import Ticker

TICK = 0.05


class Expirable(Protocol):
    """Someone with outstanding requests."""

    def expire(self, tick: int) -> bool:
        """End the requests whose deadline is `tick` or earlier; return whether any request is still outstanding."""


class Deadlines:
    """Tell each waiting connection when to give up: never early, and late by at most two ticks."""

    def __init__(self, clock: Clock) -> None:
        self._waiting: set[Expirable] = set()
        self._ticker = Ticker(clock, TICK, self._sweep)

    def watch(self, waiting: Expirable) -> None:
        """Let `waiting` hear of every tick, until it says that it has nothing outstanding."""
        self._waiting.add(waiting)
        self._ticker.start()

    def after(self, timeout: float) -> int:
        """Return the tick at which `timeout` seconds have surely passed."""
        return self._ticker.count + math.ceil(timeout / TICK) + 1

    def stop(self) -> None:
        """Sweep no more."""
        self._ticker.stop()
        self._waiting.clear()

    def _sweep(self) -> bool:
        tick = self._ticker.count
        self._waiting = {waiting for waiting in self._waiting if waiting.expire(tick)}
        return bool(self._waiting)


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
        self.full = False
        self.has_room = asyncio.Event()
        self.has_room.set()
        self._deadlines = deadlines
        self._limit = limit
        self._loop = asyncio.get_running_loop()
        self._requests: dict[int, _Request] = {}
        self._opaque = 0

    def __len__(self) -> int:
        return len(self._requests)

    def open(self, code: int, timeout: float) -> tuple[int, asyncio.Future[RemotingCommand]]:
        """Return the opaque of a new request and the future of its answer; raise RemotingError if too many wait."""
        requests = self._requests
        if self.full:
            raise RemotingError(f"{len(requests)} requests to {self.address} are outstanding already")
        if not requests:
            self._deadlines.watch(self)
        self._opaque = opaque = (self._opaque + 1) & OPAQUE_MASK
        future: asyncio.Future[RemotingCommand] = self._loop.create_future()
        requests[opaque] = _Request(future, self._deadlines.after(timeout), code, timeout)
        if len(requests) >= self._limit:
            self.full = True
            self.has_room.clear()
        return opaque, future

    def forget(self, opaque: int) -> None:
        """Take back a request that was not sent."""
        del self._requests[opaque]
        self._make_room()

    def next_opaque(self) -> int:
        """Return a number for a request that is not answered."""
        self._opaque = opaque = (self._opaque + 1) & OPAQUE_MASK
        return opaque

    def settle(self, answer: RemotingCommand) -> None:
        """Hand `answer` to whoever asked; too late or never asked for, it is dropped."""
        request = self._requests.pop(answer.opaque, None)
        if request is None:
            logger.debug("dropped an answer from %s that nobody waits for opaque=%d", self.address, answer.opaque)
        elif not request.future.done():
            request.future.set_result(answer)
        if self.full:
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
            self.full = False
            self.has_room.set()
