"""RemotingServer: listens on a port and answers requests."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from types import TracebackType
from typing import Self

from pyromq.clock import Clock
from pyromq.errors import CannotListen, ConfigError
from pyromq.remoting.connection import Connection
from pyromq.remoting.dispatch import Dispatcher, QuickAnswers
from pyromq.remoting.endpoint import ConnectionCallback, Endpoint
from pyromq.remoting.held_bytes import PROCESS_ANSWERS, PROCESS_REQUESTS, HeldBytes
from pyromq.remoting.idle_watch import IdleWatch
from pyromq.remoting.limits import DEFAULT_PORT_LIMITS, PROCESS_ROOM, ConnectionRoom, Limits, PortLimits, Tally
from pyromq.remoting.requests import Handler
from pyromq.remoting.round import PlainLane, Round
from pyromq.remoting.tls.server_tls import ServerTls
from pyromq.remoting.tls.tls_port import TlsPort

logger = logging.getLogger(__name__)

BACKLOG = 1024


def is_loopback(host: str) -> bool:
    """Return True if only this machine reaches an address."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


class RemotingServer:
    """Answer requests with `handlers`; an async context manager that listens while it is open.

    Servers that share a `round` answer together, as the broker's two ports do. On close it stops accepting, refuses new
    requests with SERVICE_NOT_AVAILABLE, waits `close_timeout` for handlers that run as tasks, sends what is queued
    and closes. With `answer_unknown=False` unknown codes get no answer, as from RocketMQ's name server.
    """

    def __init__(
        self,
        handlers: Mapping[int, Handler],
        *,
        host: str,
        port: int,
        clock: Clock,
        round: Round | None = None,
        answer_unknown: bool = True,
        port_limits: PortLimits = DEFAULT_PORT_LIMITS,
        limits: Limits | None = None,
        idle_timeout: float = 120.0,
        close_timeout: float = 5.0,
        on_connect: ConnectionCallback | None = None,
        on_disconnect: ConnectionCallback | None = None,
        room: ConnectionRoom = PROCESS_ROOM,
        held: HeldBytes = PROCESS_REQUESTS,
        unsent: HeldBytes = PROCESS_ANSWERS,
        refusals: Counter[int] | None = None,
        tally: Tally | None = None,
        guard: Handler | None = None,
        lanes: Mapping[Handler, PlainLane] | None = None,
        tls: ServerTls | None = None,
        quick: QuickAnswers | None = None,
    ) -> None:
        """`refusals` counts refused requests by response code, and `tally` what met a limit, where servers share them.
        `limits` are those of `port_limits` unless given.

        `guard` is asked about each request first: it returns None to let it in, else the answer. With `tls`, which the
        caller opens and closes, connections may be encrypted. `quick` answers what it can. `lanes` has what takes plain
        messages in the place of a handler. Both let in what `guard` would, and no more.
        """
        if not 0 <= port <= 65535:  # uvloop would take another one, 34463 for 99999
            raise ConfigError(f"{port} is not a port: it must be between 0 and 65535")
        self.handlers = handlers
        self.host = host
        self.port = port
        self._clock = clock
        self._round = round
        self._answer_unknown = answer_unknown
        self._port_limits = port_limits
        self._limits = limits or port_limits.of_connection
        self._idle_timeout = idle_timeout
        self._close_timeout = close_timeout
        self._on_connect = on_connect
        self._on_disconnect = on_disconnect
        self._room = room
        self._held = held
        self._unsent = unsent
        self.refusals: Counter[int] = Counter() if refusals is None else refusals
        self.tally = tally or Tally()
        self._guard = guard
        self._lanes: Mapping[Handler, PlainLane] = {} if lanes is None else lanes
        self._tls = tls
        self._quick = quick
        self._tls_port: TlsPort | None = None

    @property
    def connections(self) -> Collection[Connection]:
        """The open connections."""
        return self._endpoint.connections

    async def __aenter__(self) -> Self:
        """Listen; raise CannotListen if the port cannot be had."""
        await self.bind()
        await self.start()
        return self

    async def bind(self) -> None:
        """Take the port without accepting connections yet; raise CannotListen if it cannot be had."""
        self._endpoint = self._new_endpoint()
        self._set_budgets()
        new_protocol: Callable[[], asyncio.BaseProtocol] = self._endpoint.new_connection
        if self._tls is not None:
            new_protocol = self._tls_port = TlsPort(self._tls, self._endpoint.new_connection, self._clock)
        try:
            self._listener = await asyncio.get_running_loop().create_server(
                new_protocol, self.host, self.port, backlog=BACKLOG, start_serving=False
            )
        except OSError as error:
            raise CannotListen(self.host, self.port, error) from error
        self.port = self._listener.sockets[0].getsockname()[1]
        if self._guard is None and not is_loopback(self.host):
            logger.warning(
                "port %d is open to everybody who reaches %s, without accounts: set aclEnable=true (docs/security.md)",
                *(self.port, self.host or "this machine"),
            )

    async def start(self) -> None:
        """Accept connections from now on, at the port that `bind` took."""
        try:
            await self._listener.start_serving()
        except OSError as error:  # another process bound the port at the same time
            raise CannotListen(self.host, self.port, error) from error

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Release the port and close all connections, as described above."""
        self._listener.close()
        if self._tls_port is not None:
            self._tls_port.close()
        await self._endpoint.close(self._close_timeout)
        await self._listener.wait_closed()

    def _new_endpoint(self) -> Endpoint:
        return Endpoint(
            clock=self._clock,
            round=self._round or Round(asyncio.get_running_loop()),
            dispatcher=Dispatcher(
                self.handlers, answer_unknown=self._answer_unknown, guard=self._guard, lanes=self._lanes
            ),
            watch=self._new_watch(),
            limits=self._limits,
            throttles=True,
            max_connections=self._port_limits.max_connections,
            max_per_address=self._port_limits.max_connections_per_address,
            on_connect=self._on_connect,
            on_disconnect=self._on_disconnect,
            room=self._room,
            held=self._held,
            unsent=self._unsent,
            refusals=self.refusals,
            tally=self.tally,
            quick=self._quick,
        )

    def _set_budgets(self) -> None:
        """Set what all servers of this process share, if that was configured."""
        limits, usual = self._port_limits, DEFAULT_PORT_LIMITS
        if limits.max_unfinished_bytes != usual.max_unfinished_bytes:
            self._held.budget = limits.max_unfinished_bytes
        if limits.max_unsent_bytes != usual.max_unsent_bytes:
            self._unsent.budget = limits.max_unsent_bytes

    def _new_watch(self) -> IdleWatch:
        """Return what closes connections; with a guard, also those from which it has let nothing in."""
        limits = self._port_limits
        unproven = None if self._guard is None else limits.unsigned_timeout
        return IdleWatch(self._clock, self._idle_timeout, limits.frame_timeout, unproven)
