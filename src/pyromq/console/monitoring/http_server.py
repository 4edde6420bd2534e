"""Serving pages inside the process and the event loop of a server: the socket, and Uvicorn around it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Final

import uvicorn
from starlette.applications import Starlette

from pyromq.errors import CannotListen

GRACE: Final = 3
"""Seconds for answers that are being sent when the server stops."""


class _Server(uvicorn.Server):
    """Uvicorn inside our own process: it leaves signals to us and reports when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def bind(host: str, port: int) -> socket.socket:
    """Bind at once, so that a port in use is reported before anything else starts; raise CannotListen."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # Connections inherit it: an answer's body does not wait 40 ms for the acknowledgement of its head.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise CannotListen(host, port, error) from None
    return listener


async def _until_listening(server: _Server, serving: asyncio.Task[None]) -> None:
    listening = asyncio.create_task(server.listening.wait())
    await asyncio.wait((listening, serving), return_when=asyncio.FIRST_COMPLETED)
    listening.cancel()
    if serving.done():
        serving.result()  # raises why it could not


@asynccontextmanager
async def serve(app: Starlette, listener: socket.socket) -> AsyncIterator[str]:
    """Serve `app` on a bound socket while the block runs; yield its URL."""
    config = uvicorn.Config(app, log_level="warning", access_log=False, lifespan="off", timeout_graceful_shutdown=GRACE)
    server = _Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        await _until_listening(server, serving)
        host, port = listener.getsockname()[:2]
        yield f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    finally:
        server.should_exit = True
        await serving
