"""Transfers: a slave's connection to its master, as the loop sees it.

What arrives is passed on within the same call. A stream in between would cost a slave three more passes of its loop for
each transfer, and its master waits for the report.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import cast

from pyromq.clock import Clock, wait_for
from pyromq.errors import RemoteProtocolError
from pyromq.protocol.ha import NOTE, Transfer, TransferDecoder


class Transfers(asyncio.Protocol):
    """What a master sends: notes while both introduce themselves, then everything for follow()."""

    def __init__(self, clock: Clock, patience: float) -> None:
        """Wait for `patience` seconds at most where nothing comes."""
        self._clock = clock
        self._patience = patience
        self._decoder = TransferDecoder()
        self._transport: asyncio.Transport | None = None
        self._ready: list[Transfer] = []
        self._take: Callable[[list[Transfer]], None] | None = None
        self._heard = clock.monotonic()
        self._has_ended = False
        self._error: Exception | None = None
        self._changed = asyncio.Event()

    # --- called by the loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, error: Exception | None) -> None:
        self._end(error)

    def data_received(self, data: bytes) -> None:
        self._heard = self._clock.monotonic()
        if self._has_ended:
            return
        try:
            self._ready += self._decoder.feed(data)
            self._pass_on()
        except Exception as error:  # whoever awaits raises it
            self._end(error)

    def _pass_on(self) -> None:
        if self._take is None:
            self._changed.set()
        elif self._ready:
            ready, self._ready = self._ready, []
            self._take(ready)

    def _end(self, error: Exception | None) -> None:
        if not self._has_ended:
            self._has_ended, self._error = True, error
            self._changed.set()

    # --- called by the follower

    @property
    def is_closing(self) -> bool:
        """Whether nothing can be sent any more."""
        return self._transport is None or self._transport.is_closing()

    def write(self, data: bytes) -> None:
        """Send bytes to the master."""
        if self._transport is not None:
            self._transport.write(data)

    def close(self) -> None:
        """End the connection."""
        if self._transport is not None:
            self._transport.close()

    async def note(self) -> bytes:
        """Return the next note; raises RemoteProtocolError for anything else, TimeoutError after a long silence."""
        while not self._ready and not self._has_ended:
            self._changed.clear()
            await wait_for(self._clock, self._changed.wait(), self._patience)
        self._raise_error()
        if not self._ready or self._ready[0].physical_offset != NOTE:
            raise RemoteProtocolError("the master closed the connection instead of an answer")
        return self._ready.pop(0).body

    async def follow(self, take: Callable[[list[Transfer]], None]) -> None:
        """Call `take` with what arrives, until the connection ends.

        Raises what `take` raises, OSError if the connection breaks, and TimeoutError after a long silence.
        """
        self._take = take
        try:
            if not self._has_ended:
                self._pass_on()
            while not self._has_ended:
                await self._quiet()
            self._raise_error()
        finally:
            self._take = None

    async def _quiet(self) -> None:
        """Wait until the connection ends, or for as long as a silence may last from what was heard last."""
        left = self._heard + self._patience - self._clock.monotonic()
        if left <= 0:
            raise TimeoutError
        self._changed.clear()
        with suppress(TimeoutError):
            await wait_for(self._clock, self._changed.wait(), left)

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error
