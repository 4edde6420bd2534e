"""What one connection may cost, and what all connections of a process may take together.

A process has so many descriptors. Connections may take most of them; the rest is for the files of the store, which
would otherwise fail in the middle of a write. A process has so much memory. What connections hold, of frames that are
not complete and of answers that are not read, is added up; where it is too much, the one that holds most is closed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Final, Protocol

from msgspec import Struct

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

    def enter(self) -> bool:
        """Take a place for a connection; return False if none is left."""
        if self.taken >= self.most:
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


# --- memory -----------------------------------------------------------------------------------------------------------


class Holder(Protocol):
    """A connection, as far as its memory goes."""

    def abort(self, reason: str) -> None:
        """Drop it and what it holds."""


class HeldBytes:
    """Adds up what connections hold; closes the one that holds most where all together hold too much."""

    def __init__(self, most: int) -> None:
        self.total = 0
        self._most = most
        self._held: dict[Holder, int] = {}

    def set(self, holder: Holder, size: int) -> None:
        """Note how much a connection holds now."""
        before = self._held.get(holder, 0)
        if size:
            self._held[holder] = size
        elif before:
            del self._held[holder]
        self.total += size - before
        while self.total > self._most:
            self._close_largest()

    def _close_largest(self) -> None:
        largest = max(self._held, key=self._held.__getitem__)
        size = self._held.pop(largest)
        self.total -= size
        largest.abort(f"it holds {size >> 20} MiB, and all connections together more than {self._most >> 20} MiB")


def _memory_for_connections() -> int:
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        memory = 4 << 30
    return max(min(memory // 8, 1 << 30), 128 << 20)


PROCESS_BYTES: Final = HeldBytes(_memory_for_connections())
