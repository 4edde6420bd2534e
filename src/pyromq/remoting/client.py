"""RemotingClient: sends requests over one connection for each address."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import sys
from collections.abc import Mapping
from functools import cached_property
from types import MappingProxyType, TracebackType
from typing import Self

from pyromq.clock import Clock, wait_for
from pyromq.errors import ConnectFailed
from pyromq.protocol.acl import Credentials
from pyromq.protocol.command import RemotingCommand
from pyromq.remoting.connection import Connection
from pyromq.remoting.dispatch import Dispatcher
from pyromq.remoting.endpoint import ConnectionCallback, Endpoint
from pyromq.remoting.idle_watch import IdleWatch
from pyromq.remoting.limits import CLIENT_LIMITS, Limits
from pyromq.remoting.requests import Handler
from pyromq.remoting.round import Round
from pyromq.remoting.tls.client_tls import Tls, tls_problem

NO_HANDLERS: Mapping[int, Handler] = MappingProxyType({})
IDLE_TIMEOUT = 110.0  # below a server's 120 s, so that no request meets a connection that is being closed
FRAME_TIMEOUT = 60.0
CLOSE_TIMEOUT = 3.0


class RemotingClient:
    """Send requests to addresses (`host:port`). The next call reconnects a lost connection.

    A request that times out closes its connection if nothing was read since it was sent, as Java's clients do: a peer
    that vanished without a word would otherwise fail every request for the minutes until the system gives up.
    `handlers` serve the requests that servers send over these connections. With `credentials` all requests are signed,
    with `tls` all connections encrypted.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        handlers: Mapping[int, Handler] = NO_HANDLERS,
        connect_timeout: float = 3.0,
        round: Round | None = None,
        limits: Limits = CLIENT_LIMITS,
        idle_timeout: float = IDLE_TIMEOUT,
        on_disconnect: ConnectionCallback | None = None,
        credentials: Credentials | None = None,
        tls: Tls | None = None,
    ) -> None:
        self.handlers = handlers
        self.credentials = credentials
        self.tls = tls
        self.closed = False
        """True as soon as it begins to close."""
        self.on_disconnect = on_disconnect
        self.clock = clock
        self._connect_timeout = connect_timeout
        self._round = round
        self._limits = limits
        self._idle_timeout = idle_timeout
        self._connections: dict[str, Connection] = {}
        self._attempts: dict[str, asyncio.Task[Connection]] = {}

    async def request(self, address: str, command: RemotingCommand, timeout: float = 3.0) -> RemotingCommand:
        """Send a request and return its answer, whatever its code. Connecting counts towards `timeout`.

        Raise ConnectFailed if nothing was sent, RequestTimeout or ConnectionLost if the outcome is unknown.
        """
        connection = self._connections.get(address)
        if connection is None or connection.closed:
            started = self.clock.monotonic()
            connection = await self._connect_within(address, timeout)
            timeout -= min(max(self.clock.monotonic() - started, 0.0), timeout)
        if connection.writable:
            return await connection.request_future(command, timeout)  # saves a coroutine for each message
        return await connection.request(command, timeout)

    def ready(self, address: str | None) -> Connection | None:
        """Return the connection to `address` if it can take a request at once, else None."""
        connection = self._connections.get(address) if address else None
        return connection if connection is not None and connection.writable and not connection.closed else None

    async def oneway(self, address: str, command: RemotingCommand) -> None:
        """Send a request without an answer; return when it is queued and the connection can take more."""
        connection = await self.connection(address)
        connection.oneway(command)
        if not connection.writable:
            await connection.drain()

    async def connection(self, address: str) -> Connection:
        """Return the connection to `address`; connect if there is none. Raise ConnectFailed."""
        connection = self._connections.get(address)
        if connection is not None and not connection.closed:
            return connection
        if self.closed:
            raise ConnectFailed(f"cannot connect to {address}: this client is closed")
        attempt = self._attempts.get(address)
        if attempt is None:
            attempt = asyncio.get_running_loop().create_task(self._connect(address))
            self._attempts[address] = attempt
            attempt.add_done_callback(lambda done: self._attempt_ended(address, done))
        try:
            return await asyncio.shield(attempt)  # a caller that gives up must not cancel it for the others
        except asyncio.CancelledError:
            if self.closed and attempt.cancelled():
                raise ConnectFailed(f"cannot connect to {address}: this client is closed") from None
            raise

    def on_new_connections(self) -> RemotingClient:
        """Return a client with the same settings and connections of its own, for looks that must not trust these."""
        return RemotingClient(
            self.clock,
            connect_timeout=self._connect_timeout,
            limits=self._limits,
            credentials=self.credentials,
            tls=self.tls,
        )

    async def close(self) -> None:
        """Send what is queued and close all connections; outstanding requests end with ConnectionLost."""
        self.closed = True
        for attempt in list(self._attempts.values()):
            attempt.cancel()
        await self._endpoint.close(CLOSE_TIMEOUT)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    @cached_property
    def _endpoint(self) -> Endpoint:
        """Create the endpoint on first use, so that a client can be built before its loop runs."""
        return Endpoint(
            clock=self.clock,
            round=self._round or Round(asyncio.get_running_loop()),
            dispatcher=Dispatcher(self.handlers),
            watch=IdleWatch(self.clock, self._idle_timeout, FRAME_TIMEOUT),
            limits=self._limits,
            throttles=False,
            max_connections=sys.maxsize,
            on_connect=None,
            on_disconnect=self._disconnected,
            credentials=self.credentials,
            drops_silent=True,
        )

    async def _connect_within(self, address: str, timeout: float) -> Connection:
        if timeout >= self._connect_timeout:
            return await self.connection(address)
        try:
            return await wait_for(self.clock, self.connection(address), timeout)
        except TimeoutError:
            raise ConnectFailed(f"cannot connect to {address}: not within {timeout:g} s") from None

    async def _connect(self, address: str) -> Connection:
        host, port = _split(address)
        loop = asyncio.get_running_loop()
        context = None if self.tls is None else self.tls.context()
        making = loop.create_connection(lambda: self._endpoint.new_connection(address), host, port, ssl=context)
        try:
            _, connection = await wait_for(self.clock, making, self._connect_timeout)
        except TimeoutError:
            raise ConnectFailed(f"cannot connect to {address}: not within {self._connect_timeout:g} s") from None
        except OSError as error:
            raise ConnectFailed(f"cannot connect to {address}: {_reason(error, self.tls)}") from error
        self._connections[address] = connection
        return connection

    def _attempt_ended(self, address: str, attempt: asyncio.Task[Connection]) -> None:
        del self._attempts[address]
        if not attempt.cancelled():
            attempt.exception()  # retrieve it: perhaps nobody waits any more, and asyncio would log it

    def _disconnected(self, connection: Connection) -> None:
        if self._connections.get(connection.address) is connection:
            del self._connections[connection.address]
        if self.on_disconnect:
            self.on_disconnect(connection)


def _split(address: str) -> tuple[str, int]:
    host, colon, port = address.rpartition(":")
    if not (host and colon and port.isdecimal() and int(port) < 65536):
        raise ConnectFailed(f"cannot connect to {address!r}: an address must be host:port")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _reason(error: OSError, tls: Tls | None) -> str:
    if isinstance(error, socket.gaierror):
        return "the host name is not known"
    if isinstance(error, ssl.SSLError):
        return tls_problem(error)
    if tls is not None and isinstance(error, ConnectionResetError | ConnectionAbortedError):
        return "it closed the connection during the TLS handshake; perhaps it does not speak TLS"
    return os.strerror(error.errno).lower() if error.errno else str(error)
