"""The event loop: uvloop if it is there, else asyncio's own (12-20 % slower under load); and writes that go past it.

A transport keeps what it is given until the loop turns, and its book-keeping costs as much as a small write. Most
answers fit into the socket's buffer at once, so they are written there, where the transport has nothing of its own to
send before. What does not fit is the transport's to send, as is all that is encrypted.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias, TypeVar

try:
    import uvloop
except ImportError:
    new_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop
else:
    new_loop = uvloop.new_event_loop

T = TypeVar("T")
Write: TypeAlias = Callable[[bytes | memoryview], bool]
"""Writes bytes, which are the caller's again when it returns; False if not all of them were sent."""


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run `main` to its end on a new loop. The first Ctrl-C cancels it."""
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(main)


def writer_of(transport: asyncio.Transport) -> Write:
    """Return what writes to a transport as long as that is not closing."""
    socket: Any = transport.get_extra_info("socket")
    if socket is None or transport.get_extra_info("ssl_object") is not None or os.name != "posix":
        return lambda data: _write_later(transport, data, 0)
    descriptor: int = socket.fileno()
    unsent, write_now = transport.get_write_buffer_size, os.write

    def write(data: bytes | memoryview) -> bool:
        if unsent():
            return _write_later(transport, data, 0)
        try:
            sent = write_now(descriptor, data)
        except OSError:
            sent = 0  # it is full or gone: the transport knows what to do
        return sent == len(data) or _write_later(transport, data, sent)

    return write


def _write_later(transport: asyncio.Transport, data: bytes | memoryview, sent: int) -> bool:
    transport.write(data if isinstance(data, bytes) and not sent else bytes(memoryview(data)[sent:]))
    return not transport.get_write_buffer_size()
