"""What one connection may cost, and what all connections of a process may take together.

A process has so many descriptors. Connections may take most of them; the rest is for the files of the store, which
would otherwise fail in the middle of a write. What connections hold in memory is in held_bytes.py. `PortLimits` has
what operators can set; docs/security.md lists all limits with their keys.
"""

from __future__ import annotations

import sys
from asyncio import AbstractEventLoop
from collections import Counter
from collections.abc import Callable
from typing import Final

from msgspec import Struct, field

from pyromq.figures import BoundFigures, Figure, Kind
from pyromq.protocol.command import MAX_FRAME, MAX_HEADER

if sys.platform != "win32":
    import resource


class Limits(Struct, frozen=True, kw_only=True):
    """How much one connection may hold and run."""

    max_frame: int = MAX_FRAME
    """Bytes of a frame, length prefix included; a longer one closes the connection."""
    max_header: int = MAX_HEADER
    """Bytes of a frame's header; a longer one closes the connection before it is parsed."""
    write_high: int = 4 << 20
    """Bytes not yet sent above which the connection is not `writable`, and a server stops reading from this peer."""
    max_outstanding: int = 16_384
    """Requests sent but not yet answered; a long poll counts as one."""
    max_running: int = 1_024
    """Handlers of this peer's requests that may run as tasks at the same time."""


DEFAULT_LIMITS = Limits()
CLIENT_LIMITS = Limits(max_header=MAX_FRAME)
"""For connections that we opened: the header of a batch's answer holds an id of 32 characters for each message."""


class Tally(Struct):
    """How often limits were met, at the ports of a server."""

    closed: Counter[str] = field(default_factory=Counter)
    """Connections that the server closed or refused, by cause."""
    over_limit: Counter[str] = field(default_factory=Counter)
    """Requests that were refused because of a limit, by its key."""

    def figures(self) -> BoundFigures[Tally]:
        """Return these counts as figures."""
        return BoundFigures(_FIGURES, lambda: self)


class PortLimits(Struct, frozen=True, kw_only=True):
    """What operators can set for the ports of a server; base of the settings of brokers and name servers."""

    max_frame_bytes: int = MAX_FRAME
    """`pyromqMaxFrameBytes`"""
    max_header_bytes: int = MAX_HEADER
    """`pyromqMaxHeaderBytes`"""
    frame_timeout: float = 30.0
    """Seconds in which a frame must be complete (`pyromqFrameTimeout`)."""
    max_running_requests: int = 1_024
    """Requests of one connection that run at a time (`pyromqMaxRunningRequests`)."""
    max_connections: int = 20_000
    """Connections of one port (`pyromqMaxConnections`)."""
    max_connections_per_address: int = 5_000
    """Connections of one address to one port; loopback has no such limit (`pyromqMaxConnectionsPerAddress`)."""
    unsigned_timeout: float = 10.0
    """With access control, seconds until the first request that is let in (`pyromqUnsignedTimeout`)."""
    max_unfinished_bytes: int = 32 << 20
    """Bytes of requests that are not complete or wait, of the whole process, above which large frames take turns
    (`pyromqMaxUnfinishedBytes`)."""
    max_unsent_bytes: int = 16 << 20
    """Bytes of answers that are not sent, of the whole process, above which peers that do not read are closed
    (`pyromqMaxUnsentBytes`)."""

    @property
    def of_connection(self) -> Limits:
        """What one connection may hold and run."""
        return Limits(
            max_frame=self.max_frame_bytes, max_header=self.max_header_bytes, max_running=self.max_running_requests
        )


DEFAULT_PORT_LIMITS: Final = PortLimits()

_FIGURES: Final[tuple[Figure[Tally], ...]] = (
    Figure(
        "connections_closed",
        "Connections that this server closed or refused, by cause.",
        Kind.COUNTER,
        lambda tally: dict(tally.closed),
        label="cause",
    ),
    Figure(
        "requests_over_limit",
        "Requests that were refused because of a limit, by its key.",
        Kind.COUNTER,
        lambda tally: dict(tally.over_limit),
        label="limit",
    ),
)


# --- descriptors ------------------------------------------------------------------------------------------------------

RESERVE: Final = 256
"""Descriptors for the log, the index, tables, clients and whatever else a process opens."""
FILES_SHARE: Final = 5
"""One in so many descriptors is always left to the files of queues."""
_UNLIMITED: Final = 1 << 20
_TOLD_EVERY: Final = 64  # connections; well below the reserve


def descriptor_limit() -> int:
    """Return how many descriptors this process may have open (`ulimit -n`)."""
    if sys.platform == "win32":
        return _UNLIMITED
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _UNLIMITED if soft == resource.RLIM_INFINITY else soft


def raise_descriptor_limit() -> int:
    """Raise the soft limit to the hard one, as any process may; return what it is then."""
    if sys.platform == "win32":
        return _UNLIMITED
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _UNLIMITED if hard == resource.RLIM_INFINITY else hard
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError):  # some systems have a lower one than they say
            return soft
    return descriptor_limit()


class ConnectionRoom:
    """Counts the connections that the servers of a process have accepted.

    `listeners` hear, after every few connections that come or go, how many descriptors are left for files.
    """

    def __init__(self) -> None:
        self.taken = 0
        self.listeners: list[Callable[[int], None]] = []
        self._makers: list[tuple[AbstractEventLoop, Callable[[], bool]]] = []

    @property
    def most(self) -> int:
        """The most connections that leave enough descriptors for everything else."""
        limit = descriptor_limit()
        return max(limit - limit // FILES_SHARE - RESERVE, limit // 4)

    @property
    def left_for_files(self) -> int:
        """How many descriptors the files of queues may take now."""
        limit = descriptor_limit()
        return max(limit - RESERVE - self.taken, limit // FILES_SHARE // 2)

    def add_maker(self, loop: AbstractEventLoop, make_room: Callable[[], bool]) -> Callable[[], None]:
        """Have a server on a loop asked to close a connection that nobody uses, when there is no room.

        `make_room` returns False if it has none. What is returned ends that.
        """
        maker = loop, make_room
        self._makers.append(maker)
        return lambda: self._makers.remove(maker)

    def enter(self, loop: AbstractEventLoop | None = None) -> bool:
        """Take a place for a connection to a server on a loop; return False if none is left.

        A flood at one port takes the places of all, so the idle connections of every server on that loop make room.
        """
        if self.taken >= self.most and not any(make() for own, make in self._makers if own is loop):
            return False
        self.taken += 1
        self._tell()
        return True

    def leave(self) -> None:
        """Give a place back."""
        self.taken -= 1
        self._tell()

    def _tell(self) -> None:
        if self.taken % _TOLD_EVERY == 0:
            for listener in self.listeners:
                listener(self.left_for_files)


PROCESS_ROOM: Final = ConnectionRoom()
