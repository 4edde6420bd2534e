"""Endpoint: what servers and clients have in common, their connections and what serves and watches them."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections import Counter
from collections.abc import Callable
from typing import Final

from pyromq.clock import Clock
from pyromq.protocol.acl import Credentials
from pyromq.remoting.connection import Connection
from pyromq.remoting.dispatch import Dispatcher, QuickAnswers
from pyromq.remoting.held_bytes import HeldBytes
from pyromq.remoting.idle_watch import IdleWatch
from pyromq.remoting.limits import ConnectionRoom, Limits, Tally
from pyromq.remoting.outstanding import Deadlines
from pyromq.remoting.round import Round, host_of

ConnectionCallback = Callable[[Connection], None]

_FRESH_TICKS: Final = 2


def is_limited(connection: Connection) -> bool:
    """Return True if there is a limit for the address of a peer; all users of this machine share its loopback."""
    return not connection.peer.startswith(("127.", "[::1]"))


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
        unsent: HeldBytes | None = None,
        refusals: Counter[int] | None = None,
        tally: Tally | None = None,
        max_per_address: int = sys.maxsize,
        quick: QuickAnswers | None = None,
    ) -> None:
        """`room`, `held` and `unsent` limit what a server's connections take, with others in its process."""
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
        self._loop = asyncio.get_running_loop()
        self._stop_making_room = room.add_maker(self._loop, self._make_room) if room is not None else lambda: None
        self._held = held
        self._unsent = unsent
        self._refusals: Counter[int] = Counter() if refusals is None else refusals
        self._tally = tally or Tally()
        self._max_per_address = max_per_address
        self._quick = quick
        self._by_address: Counter[str] = Counter()
        self._oldest_first: dict[Connection, None] = {}  # those that may still have to prove themselves
        self._deadlines = Deadlines(clock)
        self._closing = False
        self._was_full = False

    def new_connection(self, address: str = "") -> Connection:
        """Return a protocol for the loop to attach a socket to."""
        guarded, quick = self._dispatcher.is_guarded, self._quick
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
            unsent=self._unsent,
            refusals=self._refusals,
            tally=self._tally,
            serve_again=self._dispatcher.serve if guarded else None,
            serve_first=None if quick is None else quick.serve_guarded if guarded else quick.serve,
            desk=None if guarded else quick,
            find_lane=self._dispatcher.lane,
        )

    async def close(self, timeout: float) -> None:
        """Refuse new requests, give handlers `timeout` to finish, send all answers, close all connections."""
        self._closing = True
        if self._quick is not None:
            self._quick.stop()
        await self._dispatcher.stop(self._clock, timeout)
        self._round.finish()
        await asyncio.gather(*(connection.close() for connection in self.connections))
        self._watch.stop()
        self._deadlines.stop()
        self._stop_making_room()

    def _opened(self, connection: Connection) -> None:
        if self._closing:
            connection.abort("closing", logging.DEBUG)
        elif self._by_address[host_of(connection.peer)] >= self._max_per_address and is_limited(connection):
            self._refuse(connection, f"{self._max_per_address} connections of its address are open", "per_address")
        elif len(self.connections) >= self._max_connections and not self._make_room():
            self._refuse(connection, f"{self._max_connections} connections are already open", "full")
        elif self._room is not None and not self._room.enter(self._loop):
            most = f"{self._room.taken} connections are open, all that `ulimit -n` leaves room for"
            self._refuse(connection, most, "full")
        else:
            self._was_full = False
            self._admit(connection)

    def _make_room(self) -> bool:
        """Close the oldest connection whose peer has asked nothing yet; return False if there is none.

        A port that is full of idle connections then still takes a client. One that came within the last second stays:
        clients that all connect at once must not drive each other out.
        """
        while self._oldest_first:
            oldest = next(iter(self._oldest_first))
            if oldest.is_proven:
                del self._oldest_first[oldest]
                continue
            if oldest.unproven_ticks < _FRESH_TICKS:
                return False
            self._lost(oldest)  # its socket closes in a moment, its place is free now
            oldest.on_close.remove(self._lost)
            oldest.abort("it has asked nothing, and there is no room for others", logging.INFO, cause="made_room")
            return True
        return False

    def _admit(self, connection: Connection) -> None:
        self.connections.add(connection)
        self._by_address[host_of(connection.peer)] += 1
        self._oldest_first[connection] = None
        self._watch.add(connection)
        connection.on_close.append(self._lost)
        if self._on_connect:
            self._on_connect(connection)

    def _refuse(self, connection: Connection, reason: str, cause: str) -> None:
        level = logging.DEBUG if self._was_full else logging.WARNING  # one line for a whole flood of connections
        connection.abort(reason, level, cause=cause)
        self._was_full = True

    def _lost(self, connection: Connection) -> None:
        self.connections.discard(connection)
        self._oldest_first.pop(connection, None)
        address = host_of(connection.peer)
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]
        self._watch.remove(connection)
        if self._room is not None:
            self._room.leave()
        if self._on_disconnect:
            self._on_disconnect(connection)
