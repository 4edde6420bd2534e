"""Ports: where a broker listens. Both ports share one table of handlers; the fast one leaves out pulls."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Protocol, Self

from pyromq.access.access_control import AccessControl
from pyromq.access.accounts import Accounts
from pyromq.access.open_access import OPEN, CallerRights
from pyromq.broker.config.broker_config import BrokerConfig
from pyromq.broker.config.public_address import (
    join_address,
    machine_host,
    refuse_hidden_loopback,
    resolve,
    split_address,
)
from pyromq.broker.messages.send import BORN_HOST
from pyromq.broker.pulls.disk_reads import DiskReads
from pyromq.broker.requests import CLIENT_BODIES, REQUESTS
from pyromq.broker.signals import Signal
from pyromq.clock import Clock
from pyromq.errors import LocalProtocolError
from pyromq.figures import BoundFigures
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.messages.hosts import IPV4_HOST_LENGTH, encode_host
from pyromq.remoting.audit.access_log import AccessLog, State
from pyromq.remoting.audit.audit_requests import AuditHandlers
from pyromq.remoting.audit.audit_trail import AuditTrail
from pyromq.remoting.connection import Connection
from pyromq.remoting.dispatch import AnswerQuickly, QuickAnswers
from pyromq.remoting.held_bytes import held_figures
from pyromq.remoting.limits import Tally
from pyromq.remoting.requests import Cost, Handler
from pyromq.remoting.round import BeginPass, PlainLane, Round
from pyromq.remoting.server import RemotingServer
from pyromq.store.segments import NotInMemory

_PULLS = frozenset(REQUESTS.codes(lambda row: row.cost is Cost.PULL))
_READS = frozenset(REQUESTS.codes(lambda row: row.reads))
_WRITES = frozenset(REQUESTS.codes(lambda row: row.writes))
_SHOWS_MESSAGES = frozenset(
    [
        *REQUESTS.codes(lambda row: row.reads and row.cost is Cost.PULL),
        RequestCode.QUERY_MESSAGE,
        RequestCode.VIEW_MESSAGE_BY_ID,
        RequestCode.QUERY_CONSUME_QUEUE,
        RequestCode.SEARCH_OFFSET_BY_TIMESTAMP,
        RequestCode.GET_MAX_OFFSET,
    ]
)
_OWN_SETTINGS = frozenset([RequestCode.UPDATE_BROKER_CONFIG])
"""What changes this broker alone, and not what its slaves copy."""
_GUARDED = (_WRITES | {RequestCode.UPDATE_CONSUMER_OFFSET}) - _OWN_SETTINGS


class Guard(Protocol):
    """What stands before all that changes what consumers get."""

    def guarded(self, handler: Handler) -> Handler:
        """Return a handler that may refuse."""

    def guarded_lane(self, lane: PlainLane) -> PlainLane:
        """Return a lane that takes nothing while such a handler refuses."""


class Ports:
    """Two ports with one table of handlers; an async context manager that holds them while it is open.

    They are bound at once, so that everything that is built knows the address under which clients reach it, and accept
    connections from `listen` on.
    """

    def __init__(
        self, config: BrokerConfig, clock: Clock, guard: Guard | None = None, *, is_read_only: bool = False
    ) -> None:
        """`guard` may refuse each request that changes what consumers get.

        With `is_read_only` the audit log is kept in memory only.
        """
        self.handlers: dict[int, Handler] = {}
        """What answers, by code; what changes here counts from the next request on."""
        self.lanes: dict[Handler, PlainLane] = {}
        """What takes plain messages in the place of a handler, unless something but the guard stands before that."""
        self.round = Round(asyncio.get_running_loop())
        """Both ports answer together, once in a pass of the loop."""
        self.disconnected: Signal[[Connection]] = Signal()
        """A connection has ended."""
        self.refusals: Counter[int] = Counter()
        """How often requests were refused, at both ports, by response code."""
        trail = AuditTrail(config.name, None if is_read_only else config.audit_path, clock)
        self._states: dict[int, State] = {}
        self.access_log = AccessLog(REQUESTS, NotInMemory, trail=trail, states=self._states)
        """Who changed what; it has the audit log behind it."""
        self.tally = Tally()
        """How often limits were met, at both ports."""
        rules = config.access_rules
        self._control = None if rules is None else AccessControl(rules, REQUESTS, clock, self.access_log)
        self.access: CallerRights = self._control or OPEN
        """What handlers ask about rights."""
        self.tls = config.server_tls(clock)
        """The certificate of all ports, that for slaves too; None if TLS is off."""
        self._config = config
        self._max_bodies = dict.fromkeys(CLIENT_BODIES, ("pyromqMaxClientBodyBytes", config.max_client_body))
        self._held_back: dict[int, Handler] = {}
        self._guard = guard
        self._own_lanes: Mapping[Handler, PlainLane] = {}
        self._writing: dict[int, Handler] = {}
        self._fast_handlers: dict[int, Handler] = {}
        self._quick = QuickAnswers(self.round)
        self._main = self._server(self.handlers, config.port, clock, self._quick)
        self._fast = self._server(self._fast_handlers, config.fast_port, clock)
        self._set(REQUESTS.handlers(AuditHandlers(trail)))

    def _server(
        self, handlers: dict[int, Handler], port: int, clock: Clock, quick: QuickAnswers | None = None
    ) -> RemotingServer:
        return RemotingServer(
            handlers,
            host=self._config.host,
            port=port,
            clock=clock,
            round=self.round,
            port_limits=self._config,
            idle_timeout=self._config.idle_timeout,
            on_connect=_connected,
            on_disconnect=self.disconnected,
            refusals=self.refusals,
            tally=self.tally,
            guard=None if self._control is None else self._control.guard,
            lanes=self.lanes,
            tls=self.tls,
            quick=quick,
        )

    async def __aenter__(self) -> Self:
        """Find the public address and take both ports; raise ConfigError or RemotingError."""
        self.host = self._config.public_host or machine_host()
        ip = await resolve(self.host, "brokerIP1")
        await refuse_hidden_loopback(self.host, self._config.namesrv)
        async with AsyncExitStack() as stack:
            if self._control is not None:
                await stack.enter_async_context(self._control)
            if self.tls is not None:
                await stack.enter_async_context(self.tls)
            for server in (self._main, self._fast):
                await server.bind()
                stack.push_async_callback(server.close)
            self.store_host = encode_host(ip, self.port)
            self._exit = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Release both ports and close their connections; a second call does nothing."""
        await self._exit.aclose()

    @property
    def port(self) -> int:
        """The port it listens on, also where any free one was asked for."""
        return self._main.port

    @property
    def fast_port(self) -> int:
        """The port that serves everything but pulls."""
        return self._fast.port

    @property
    def address(self) -> str:
        """Where clients reach it: `host:port`."""
        return join_address(self.host, self.port)

    def ha_address(self, port: int) -> str:
        """Return where slaves reach a port of this broker: `host:port`."""
        return join_address(self._config.ha_host or self.host, port)

    @property
    def connections(self) -> list[Connection]:
        """The connections that are open, at both ports."""
        return [*self._main.connections, *self._fast.connections]

    @property
    def accounts(self) -> Accounts | None:
        """The accounts, if there is access control."""
        return None if self._control is None else self._control.accounts

    def figures(self) -> list[BoundFigures[Any]]:
        """Return the figures of connections, and of access control if there is one."""
        control = [] if self._control is None else [self._control.figures()]
        return [self.tally.figures(), held_figures(), *control]

    async def listen(self) -> None:
        """Accept connections from now on."""
        await self._main.start()
        await self._fast.start()

    def answer(
        self, owners: Iterable[object], reads: DiskReads, lanes: Mapping[Handler, PlainLane] | None = None
    ) -> None:
        """Have requests answered by those methods of these objects that the table of requests names.

        What `refuse_writes` refused is answered again: administration too, once a slave is promoted. `lanes` has what
        takes plain messages in the place of some of these methods.
        """
        if lanes is not None:
            self._own_lanes = lanes
            self.lanes.clear()
            self.lanes.update(lanes)
        self._states.update(REQUESTS.states(*owners))
        answering = {
            code: reads.served(self.access_log.logged(code, handler)) if code in _READS else handler
            for code, handler in REQUESTS.handlers(*owners, max_bodies=self._max_bodies).items()
        }
        self._writing.update({code: handler for code, handler in answering.items() if code in _WRITES})
        self._set({**self._writing, **answering})

    def answer_quickly(self, answer: AnswerQuickly, begin_pass: BeginPass | None) -> None:
        """Ask `answer` about pulls first, as long as they are answered as they are now; it knows access control."""
        self._quick.start(RequestCode.PULL_MESSAGE, answer, self.handlers, asks_guard=True, begin_pass=begin_pass)

    def refuse_writes(self, refuse: Handler, *, but_settings: bool = False) -> None:
        """Have every request that writes refused; with `but_settings` not those that change the broker's settings."""
        refused = _WRITES - _OWN_SETTINGS if but_settings else _WRITES
        answered = {code: handler for code, handler in self._writing.items() if code not in refused}
        refusals = {code: self.access_log.logged(code, refuse) if code in _READS else refuse for code in refused}
        self._set(answered | refusals)

    def refuse_reads(self, refuse: Handler) -> None:
        """Have every request refused that shows messages, or where they end, until `allow_reads`."""
        if not self._held_back:
            self._held_back = {code: self.handlers[code] for code in _SHOWS_MESSAGES if code in self.handlers}
            self._set(dict.fromkeys(self._held_back, refuse))

    def allow_reads(self) -> None:
        """Have requests that show messages answered again."""
        held_back, self._held_back = self._held_back, {}
        self._set(held_back)

    def _set(self, handlers: Mapping[int, Handler]) -> None:
        guard = self._guard
        if guard is not None:
            handlers = {code: self._behind(guard, one) if code in _GUARDED else one for code, one in handlers.items()}
        # One that reads may answer later, from a thread's end; it has its log inside.
        logged = self.access_log.logged
        handlers = {code: one if code in _READS else logged(code, one) for code, one in handlers.items()}
        self.handlers.update(handlers)
        self._fast_handlers.update({code: handler for code, handler in handlers.items() if code not in _PULLS})

    def _behind(self, guard: Guard, handler: Handler) -> Handler:
        guarded = guard.guarded(handler)
        lane = self._own_lanes.get(handler)
        if lane is not None:
            self.lanes[guarded] = guard.guarded_lane(lane)
        return guarded


def _connected(connection: Connection) -> None:
    connection.attributes[BORN_HOST] = _born_host(connection.peer)


def _born_host(peer: str) -> bytes:
    try:
        return encode_host(*split_address(peer))
    except (ValueError, LocalProtocolError):
        return bytes(IPV4_HOST_LENGTH)  # it went before its address could be asked
