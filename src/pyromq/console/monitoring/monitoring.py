"""Monitoring: the pages of one port, from before the servers of this process start until after they have stopped."""

from __future__ import annotations

import socket
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

from pyromq.console.monitoring.access import Access
from pyromq.console.monitoring.http_server import serve
from pyromq.console.monitoring.loop_lag import LoopLag
from pyromq.console.monitoring.metrics import Metrics
from pyromq.console.monitoring.pages import pages_app
from pyromq.console.monitoring.watched import Watched
from pyromq.remoting.tls.server_tls import TlsRules


class Monitoring:
    """Serves the pages on a bound socket; an async context manager that serves while it is open."""

    def __init__(
        self, listener: socket.socket, host: str, token: str | None = None, tls: TlsRules | None = None
    ) -> None:
        """`host` is where the socket is bound; elsewhere than on loopback most pages need the token."""
        self.watched = Watched()
        """What the pages tell about."""
        self.url = ""
        self._listener = listener
        self._tls = tls
        self._access = Access(host, token)
        self._lag = LoopLag()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            app = pages_app(self.watched, Metrics(self.watched, self._lag), self._access)
            self.url = await stack.enter_async_context(serve(app, self._listener, self._tls))
            self._lag.start()
            stack.callback(self._lag.stop)
            self._exit = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._exit.aclose()
