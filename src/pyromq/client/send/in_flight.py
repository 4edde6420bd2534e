"""InFlightLimit: a bound on the requests in flight. Callers beyond it wait, first come, first served."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

_SHARE: Final = 8


class InFlightLimit:
    """Allows `count` requests of `size` bytes together at a time; one that is larger than `size` goes alone."""

    def __init__(self, count: int, size: int) -> None:
        self.count = 0
        """Requests in flight."""
        self.most = count
        self._size_limit = size
        self._size = 0
        self._waiting: deque[tuple[asyncio.Future[None], int]] = deque()
        self._idle: asyncio.Future[None] | None = None

    @property
    def has_waiting(self) -> bool:
        """True if somebody waits for room."""
        return bool(self._waiting)

    def try_enter(self, size: int) -> bool:
        """Enter if there is room and nobody waits: the fast path. Return False if not."""
        count, total = self.count, self._size + size
        if self._waiting or (count and (count >= self.most or total > self._size_limit)):
            return False
        self.count = count + 1
        self._size = total
        return True

    def reserve(self, most: int, *, leave: int = 0) -> int:
        """Enter with up to `most` requests whose sizes are not known yet; return how many, 0 if there is no room.

        At most an eighth of the free places is reserved, and `leave` of them never, so that others find room too.
        """
        free = self.most - self.count - leave
        if self._waiting or free <= 0 or self._size >= self._size_limit:
            return 0
        reserved = min(most, free // _SHARE or 1)
        self.count += reserved
        return reserved

    def use_reserved(self, unused: int, size: int) -> None:
        """Give back the places that were not used, and count the bytes of the requests that took the others."""
        self._size += size
        self.count -= unused
        self._look()

    async def enter(self, size: int) -> None:
        """Enter, after waiting for room if necessary."""
        if self.try_enter(size):
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((turn, size))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.leave(size)  # admitted and cancelled in the same pass of the loop
            else:
                self._waiting.remove((turn, size))
                self._admit()
            raise

    async def room(self, size: int) -> None:
        """Wait until there is room, without entering: for one who starts another who enters."""
        if self._waiting or not self._fits(size):
            await self.enter(size)
            self.leave(size)

    def leave(self, size: int) -> None:
        """Leave, and admit those who wait if there is room for them."""
        self.count -= 1
        self._size -= size
        if self._waiting or self._idle is not None:
            self._look()

    def leave_together(self, count: int, size: int) -> None:
        """Leave with several requests of `size` bytes together."""
        self.count -= count
        self._size -= size
        self._look()

    def _look(self) -> None:
        """Tell those who wait."""
        if self._waiting:
            self._admit()
        elif self._idle is not None and self.count == 0 and not self._idle.done():
            self._idle.set_result(None)

    async def idle(self) -> None:
        """Wait until nothing is in flight."""
        if self.count:
            if self._idle is None or self._idle.done():
                self._idle = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._idle)

    def _fits(self, size: int) -> bool:
        return self.count == 0 or (self.count < self.most and self._size + size <= self._size_limit)

    def _admit(self) -> None:
        while self._waiting and self._fits(self._waiting[0][1]):
            turn, size = self._waiting.popleft()
            if not turn.done():
                self.count += 1
                self._size += size
                turn.set_result(None)
