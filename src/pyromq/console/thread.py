"""ConsoleThread: a console on a thread and an event loop of its own, inside the process of a server.

Whatever a page costs, the loop of the broker goes on: it only shares the interpreter with this thread. Pages for
machines read the tables of the servers, so they are made on the servers' loop; this thread only sends them.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Coroutine, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from pyromq.clock import SystemClock
from pyromq.console.console import Console
from pyromq.console.monitoring.access import Access
from pyromq.console.monitoring.http_server import serve
from pyromq.console.monitoring.loop_lag import LoopLag
from pyromq.console.monitoring.metrics import Metrics
from pyromq.console.monitoring.pages import page_routes
from pyromq.console.monitoring.watched import Watched
from pyromq.console.web.settings import ConsoleSettings
from pyromq.protocol.acl import Credentials
from pyromq.remoting.loop import new_loop
from pyromq.remoting.tls.client_tls import Tls
from pyromq.remoting.tls.server_tls import TlsRules

T = TypeVar("T")


class ConsoleThread:
    """Serves the console and the pages for machines on one port; an async context manager of the server's loop."""

    def __init__(
        self,
        listener: socket.socket,
        settings: ConsoleSettings,
        token: str | None = None,
        tls: TlsRules | None = None,
    ) -> None:
        self.watched = Watched()
        """The servers of this process."""
        self.url = ""
        self._listener = listener
        self._tls = tls
        self._settings = settings
        self._access = Access(settings.host, token)
        self._lag = LoopLag()
        self._console = Console(settings, SystemClock())
        self._loop = new_loop()
        self._stopped = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="pyromq console", daemon=True)

    def load(self) -> str:
        """Read the files of the console; return the first password if one was just made. Raise ConfigError."""
        return self._console.load()

    async def __aenter__(self) -> Self:
        main = asyncio.get_running_loop()
        self._started: asyncio.Future[str] = main.create_future()
        self._ended = asyncio.Event()
        self._main = main
        self._routes = page_routes(self.watched, Metrics(self.watched, self._lag), self._access, main)
        self._thread.start()
        self.url = await self._started
        self._lag.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._lag.stop()
        self._loop.call_soon_threadsafe(self._stopped.set)
        await self._ended.wait()
        self._thread.join()

    async def connect(
        self, namesrv: str | Sequence[str], credentials: Credentials | None = None, tls: bool | Tls | None = None
    ) -> None:
        """Show a cluster from now on."""
        await self._there(self._console.connect(namesrv, credentials, tls))

    async def disconnect(self) -> None:
        """Show nothing any more: the servers are about to be closed."""
        await self._there(self._console.disconnect())

    async def _there(self, work: Coroutine[Any, Any, T]) -> T:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    # --- on the thread

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(self._serve())
        except BaseException as error:
            failure = error  # the name is gone when the callback runs
            self._main.call_soon_threadsafe(self._fail, failure)
        finally:
            self._main.call_soon_threadsafe(self._ended.set)

    async def _serve(self) -> None:
        async with self._console, serve(self._console.app(self._routes), self._listener, self._tls) as url:
            self._main.call_soon_threadsafe(self._started.set_result, url)
            await self._stopped.wait()
            await self._console.parts.hub.close()

    def _fail(self, error: BaseException) -> None:
        if not self._started.done():
            self._started.set_exception(error)
