"""What a broker must offer to be measured."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from pathlib import Path

from interop.servers import Server

from ..load.generator import Load, Pace, Shape, run

TO_PULL = 100_000
"""At least so many messages are read again and again; they stay in memory."""


class Peer(ABC):
    """A running broker; its servers are stopped by whoever started them."""

    can_pull = True
    is_java = False
    """Whether it must run for half a minute before it is as fast as it gets."""

    def __init__(self, servers: list[Server], about: dict[str, str]) -> None:
        self.servers = servers
        self.about = about
        """Version, flags and settings, for the result."""

    @property
    def pids(self) -> list[int]:
        """The processes whose CPU time counts: the servers and what they started."""
        parents = _parents()
        found = {server.pid for server in self.servers}
        while more := {pid for pid, parent in parents.items() if parent in found} - found:
            found |= more
        return sorted(found)

    @abstractmethod
    def sends(self, shape: Shape, size: int) -> AbstractContextManager[Load]:
        """Connect, and return a load of sends."""

    def pulls(self, shape: Shape) -> AbstractContextManager[Load]:
        """Connect, and return a load of pulls of 32 messages each."""
        raise NotImplementedError

    def fill(self) -> None:  # noqa: B027  (not all have something to do)
        """Make sure that there is something to pull."""

    def tidy(self) -> None:  # noqa: B027
        """Forget what was sent, where it is kept in memory."""

    def memory_mib(self) -> float:
        """Return the anonymous memory of its processes; the page cache is not theirs."""
        return sum(anonymous_kib(pid) for pid in self.pids) / 1024


def _parents() -> dict[int, int]:
    """Return the parent of each process."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            found[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:  # gone meanwhile
            continue
    return found


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def anonymous_kib(pid: int) -> int:
    """Return the anonymous memory of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1])
    return 0


def send_until(peer: Peer, load: Load, enough: int) -> None:
    """Send until so many messages were acknowledged."""
    sent = 0
    while sent < enough:
        sent += run(load, Pace(0.5, 0.0), peer.pids).messages
