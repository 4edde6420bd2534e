"""Console: all parts of a console, from its port to its client of the cluster.

The port is there before the cluster is: until `connect`, pages say that the servers are starting.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from starlette.applications import Starlette
from starlette.routing import BaseRoute

from pyromq.admin.admin_client import AdminClient
from pyromq.clock import Clock
from pyromq.console.audit import AuditLog
from pyromq.console.bodies.schema_store import SchemaStore
from pyromq.console.jobs import Jobs
from pyromq.console.live.hub import LiveHub
from pyromq.console.live.tails import Tails
from pyromq.console.login.accounts import AccountClients
from pyromq.console.login.sign_in import SignIn
from pyromq.console.reading.history import FigureHistory
from pyromq.console.reading.queue_rates import QueueRates
from pyromq.console.reading.reader import SnapshotReader
from pyromq.console.reading.recorder import Recorder
from pyromq.console.route_table import ROUTES
from pyromq.console.web.app import ConsoleApp, console_app
from pyromq.console.web.parts import ConsoleParts
from pyromq.console.web.settings import ConsoleSettings
from pyromq.errors import ClientError
from pyromq.pipelines.jobs.jobs import PipelineJobs
from pyromq.protocol.acl import Credentials
from pyromq.remoting.tls.client_tls import Tls


class Console:
    """A console of one cluster; an async context manager."""

    def __init__(self, settings: ConsoleSettings, clock: Clock) -> None:
        self._client: AdminClient | None = None
        self._namesrv: str | Sequence[str] = ""
        self._tls: bool | Tls | None = None
        self._pipelines: PipelineJobs | None = None
        self._settings = settings
        self._recording: asyncio.Task[None] | None = None
        reader = SnapshotReader(self._admin, clock)
        history = FigureHistory(settings.file("history.bin"))
        self.parts = ConsoleParts(
            settings=settings,
            clock=clock,
            admin=self._admin,
            reader=reader,
            history=history,
            queue_rates=QueueRates(clock),
            hub=LiveHub(reader, clock),
            tails=Tails(clock),
            sign_in=SignIn(settings.console_file, AccountClients(self._admin, self._client_of), clock),
            audit=AuditLog(settings.file("audit.jsonl")),
            jobs=Jobs(clock),
            schemas=SchemaStore(settings.file("schemas.json")),
            pipelines=self._pipeline_jobs,
        )
        self.recorder = Recorder(reader, history, clock)

    def load(self) -> str:
        """Read the files of the console; return the first password if one was just made. Raise ConfigError."""
        self.parts.history.load()
        self.parts.audit.load()
        self.parts.schemas.load()
        return self.parts.sign_in.load(login=self.parts.settings.login)

    def app(self, more: Sequence[BaseRoute] = ()) -> Starlette:
        """Return the web application, with other routes before its own."""
        return console_app(ConsoleApp(self.parts, ROUTES), more)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.disconnect()

    async def connect(
        self, namesrv: str | Sequence[str], credentials: Credentials | None = None, tls: bool | Tls | None = None
    ) -> None:
        """Show this cluster from now on, and record its history."""
        client = AdminClient(namesrv, credentials=credentials, tls=tls, clock=self.parts.clock)
        await client.start()
        self._client, self._namesrv, self._tls = client, namesrv, tls
        directory = self._settings.file("jobs") or Path(tempfile.gettempdir(), f"pyromq-jobs-{os.getuid()}")
        addresses = namesrv if isinstance(namesrv, str) else ";".join(namesrv)
        self._pipelines = PipelineJobs(directory, addresses, credentials)
        self._recording = asyncio.create_task(self.recorder.run())

    async def disconnect(self) -> None:
        """End all work and close all connections; what was recorded is saved."""
        async with AsyncExitStack() as stack:
            if self._client is not None:
                stack.push_async_callback(self._client.close)
                self._client = None
            stack.push_async_callback(self.parts.sign_in.accounts.close)
            stack.push_async_callback(self.parts.reader.close)
            stack.push_async_callback(self.parts.jobs.close)
            stack.push_async_callback(self.parts.tails.close)
            stack.push_async_callback(self.parts.hub.close)
            if self._recording is not None:
                self._recording.cancel()
                await asyncio.gather(self._recording, return_exceptions=True)
                self._recording = None

    def _pipeline_jobs(self) -> PipelineJobs:
        if self._pipelines is None:
            raise ClientError("the servers are starting or stopping")
        return self._pipelines

    def _client_of(self, account: Credentials) -> AdminClient:
        return AdminClient(self._namesrv, credentials=account, tls=self._tls, clock=self.parts.clock)

    def _admin(self) -> AdminClient:
        if self._client is None:
            raise ClientError("the servers are starting or stopping")
        return self._client
