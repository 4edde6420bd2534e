"""Serving pages inside the process and the event loop of a server: the socket, and Uvicorn around it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final

import uvicorn
from msgspec.structs import replace
from starlette.applications import Starlette
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from pyromq.clock import SystemClock
from pyromq.errors import CannotListen
from pyromq.remoting.tls.server_tls import ServerTls, TlsRules
from pyromq.remoting.tls.tls_port import TlsPort

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


class _TlsProtocols:
    """Makes the protocols of Uvicorn's connections behind a port that takes TLS."""

    def __init__(self, certificate: ServerTls) -> None:
        self._certificate = certificate
        self._port: TlsPort | None = None

    def __call__(self, **given: Any) -> asyncio.Protocol:
        if self._port is None:  # what is given is the same for every connection
            self._port = TlsPort(self._certificate, lambda: AutoHTTPProtocol(**given), SystemClock())
        return self._port()

    def close(self) -> None:
        """Close connections that have not said yet what they are."""
        if self._port is not None:
            self._port.close()


@asynccontextmanager
async def serve(app: Starlette, listener: socket.socket, tls: TlsRules | None = None) -> AsyncIterator[str]:
    """Serve `app` on a bound socket while the block runs; yield its URL.

    With `tls` the port takes TLS, as those of brokers do; clients need no certificate. Raise ConfigError if one of its
    files is unreadable or wrong.
    """
    async with AsyncExitStack() as stack:
        scheme, protocols = "http", None
        if tls is not None and tls.is_on:
            rules = replace(tls, client_auth="none", trust=None)
            scheme = "https"
            protocols = _TlsProtocols(await stack.enter_async_context(ServerTls(rules, SystemClock())))
            stack.callback(protocols.close)
        config = uvicorn.Config(
            app,
            http=protocols or "auto",  # type: ignore[arg-type]  # Uvicorn calls it, and asks for nothing more
            log_level="warning",
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=GRACE,
        )
        server = _Server(config)
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            await _until_listening(server, serving)
            host, port = listener.getsockname()[:2]
            yield f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
        finally:
            server.should_exit = True
            await serving
