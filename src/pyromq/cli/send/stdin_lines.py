"""The lines of standard input, as they arrive."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import suppress

from pyromq.errors import ClientError

LONGEST_LINE = 16 << 20  # no broker takes a larger message
_CHUNK = 64 * 1024


async def stdin_lines() -> AsyncIterator[bytes]:
    """Yield each line without its end, as soon as it is complete; raise ClientError if one is too long."""
    if sys.stdin is None:
        raise ClientError("standard input is closed")
    descriptor, rest, number = sys.stdin.fileno(), bytearray(), 1
    while chunk := await _read(descriptor):
        *lines, last = chunk.split(b"\n")
        for line in lines:
            yield bytes(rest + line).removesuffix(b"\r")
            rest.clear()
            number += 1
        rest += last
        if len(rest) > LONGEST_LINE:
            raise ClientError(f"line {number} is longer than {LONGEST_LINE} bytes")
    if rest:
        yield bytes(rest)


async def _read(descriptor: int) -> bytes:
    """Read what is there. A thread waits for it, and is left behind if we are cancelled: nothing can wake it."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[bytes] = loop.create_future()

    def finish(data: bytes, error: OSError | None) -> None:
        if done.cancelled():
            return
        if error is None:
            done.set_result(data)
        else:
            done.set_exception(error)

    def read() -> None:
        data, failure = b"", None
        try:
            data = os.read(descriptor, _CHUNK)
        except OSError as error:
            failure = error
        with suppress(RuntimeError):  # the loop is closed: we were left behind
            loop.call_soon_threadsafe(finish, data, failure)

    threading.Thread(target=read, name="pyromq stdin", daemon=True).start()
    return await done
