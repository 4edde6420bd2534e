"""/healthz for load balancers and /varz for people with curl."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route


def health_app(problems: Callable[[], dict[str, str]], varz: Callable[[], dict[str, Any]]) -> Starlette:
    """Build the pages: `problems` returns what is wrong (empty if nothing is), `varz` what /varz shows."""

    async def show_health(_: Request) -> JSONResponse:
        found = problems()
        return JSONResponse({"status": "unhealthy" if found else "ok", **found}, status_code=503 if found else 200)

    async def show_varz(_: Request) -> JSONResponse:
        return JSONResponse(varz())

    return Starlette(routes=[Route("/healthz", show_health), Route("/varz", show_varz)])


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
    """Bind at once, so that a port in use is reported before anything else starts."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise OSError(error.errno, f"cannot listen on {host}:{port}: {error.strerror}") from None
    return listener


@asynccontextmanager
async def serve(app: Starlette, host: str, port: int) -> AsyncIterator[str]:
    """Serve `app` while the block runs; yield its URL."""
    listener = bind(host, port)
    config = uvicorn.Config(app, log_level="warning", access_log=False, lifespan="off")
    server = _Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        await server.listening.wait()
        shown = f"[{host}]" if ":" in host else host
        yield f"http://{shown}:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        await serving
