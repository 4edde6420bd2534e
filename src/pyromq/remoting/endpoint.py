"""Endpoint: what servers and clients have in common, their connections and what serves and watches them."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable

from pyromq.clock import Clock
from pyromq.protocol.acl import Credentials
from pyromq.remoting.connection import Connection
from pyromq.remoting.dispatch import Dispatcher
from pyromq.remoting.idle_watch import IdleWatch
from pyromq.remoting.limits import ConnectionRoom, HeldBytes, Limits
from pyromq.remoting.outstanding import Deadlines
from pyromq.remoting.round import Round

ConnectionCallback = Callable[[Connection], None]


class Endpoint:
    """Make connections that share one round, one table of handlers and one timer for each kind of time-out."""

    def __init__(
        self,
        *,
        clock: Clock,
        round: Round,
        dispatcher: Dispatcher,
        watch: IdleWatch,
        limits: Limits,
        throttles: bool,
        max_connections: int,
        on_connect: ConnectionCallback | None,
        on_disconnect: ConnectionCallback | None,
        credentials: Credentials | None = None,
        drops_silent: bool = False,
        room: ConnectionRoom | None = None,
        held: HeldBytes | None = None,
        refusals: Counter[int] | None = None,
    ) -> None:
        """`room` and `held` limit what the connections of a server take, together with others in its process."""
        self.connections: set[Connection] = set()
        self._clock = clock
        self._round = round
        self._dispatcher = dispatcher
        self._watch = watch
        self._limits = limits
        self._throttles = throttles
        self._max_connections = max_connections
        self._on_connect = on_connect
        self._on_disconnect = on_disconnect
        self._credentials = credentials
        self._drops_silent = drops_silent
        self._room = room
        self._held = held
        self._refusals: Counter[int] = Counter() if refusals is None else refusals
        self._deadlines = Deadlines(clock)
        self._closing = False
        self._was_full = False

    def new_connection(self, address: str = "") -> Connection:
        """Return a protocol for the loop to attach a socket to."""
        guarded = self._dispatcher.is_guarded
        return Connection(
            round=self._round,
            clock=self._clock,
            deadlines=self._deadlines,
            serve=self._dispatcher.serve_guarded if guarded else self._dispatcher.serve,
            on_open=self._opened,
            limits=self._limits,
            throttles=self._throttles,
            address=address,
            credentials=self._credentials,
            drops_silent=self._drops_silent,
            held=self._held,
            refusals=self._refusals,
            serve_again=self._dispatcher.serve if guarded else None,
        )

    async def close(self, timeout: float) -> None:
        """Refuse new requests, give handlers `timeout` to finish, send all answers, close all connections."""
        self._closing = True
        await self._dispatcher.stop(self._clock, timeout)
        self._round.finish()
        await asyncio.gather(*(connection.close() for connection in self.connections))
        self._watch.stop()
        self._deadlines.stop()

    def _opened(self, connection: Connection) -> None:
        if self._closing:
            connection.abort("closing", logging.DEBUG)
        elif len(self.connections) >= self._max_connections:
            self._refuse(connection, f"{self._max_connections} connections are already open")
        elif self._room is not None and not self._room.enter():
            self._refuse(connection, f"{self._room.taken} connections are open, all that `ulimit -n` leaves room for")
        else:
            self._was_full = False
            self._admit(connection)

    def _admit(self, connection: Connection) -> None:
        self.connections.add(connection)
        self._watch.add(connection)
        connection.on_close.append(self._lost)
        if self._on_connect:
            self._on_connect(connection)

    def _refuse(self, connection: Connection, reason: str) -> None:
        level = logging.DEBUG if self._was_full else logging.WARNING  # one line for a whole flood of connections
        connection.abort(reason, level)
        self._was_full = True

    def _lost(self, connection: Connection) -> None:
        self.connections.discard(connection)
        self._watch.remove(connection)
        if self._room is not None:
            self._room.leave()
        if self._on_disconnect:
            self._on_disconnect(connection)
