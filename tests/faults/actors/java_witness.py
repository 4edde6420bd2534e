"""Apache's client in a campaign: a producer and a consumer in a JVM, which write journals like everybody else.

What they run is interop/java/Witness.java. It needs what `make interop` needs: a JDK, and Maven's jars.
"""

from __future__ import annotations

import asyncio
import functools
from contextlib import suppress
from pathlib import Path

from interop.peer import Peer
from interop.toolkit import Missing, Toolkit, prepare

from tests.faults.actors.roles import MAIN, Role

JAVA = Role(group="java", topics=(MAIN,), threads=True, mishaps=0.0)


@functools.cache
def _toolkit() -> Toolkit | str:
    try:
        return prepare()
    except (Missing, RuntimeError, OSError) as error:
        return str(error) or type(error).__name__


def unavailable() -> str:
    """Return why there can be no Java clients here; empty if there can."""
    toolkit = _toolkit()
    return toolkit if isinstance(toolkit, str) else ""


class JavaWitness:
    """The JVM, from `start` to `close`; nothing where there is none."""

    def __init__(self, namesrv: str, directory: Path) -> None:
        self._namesrv = namesrv
        self._directory = directory
        self._peer: Peer | None = None

    async def start(self) -> None:
        """Begin to send and to consume."""
        await asyncio.to_thread(self._start)

    def _start(self) -> None:
        toolkit = _toolkit()
        assert isinstance(toolkit, Toolkit), toolkit
        self._peer = Peer(toolkit, self._directory / "java")
        journal = self._directory / "java.jsonl"
        self._peer.call("Witness.start", namesrv=self._namesrv, journal=str(journal), topic=MAIN, group=JAVA.group)

    async def rest(self) -> None:
        """Send nothing more; what is stored is still consumed."""
        if self._peer is not None:
            await asyncio.to_thread(self._peer.call, "Witness.rest")

    async def close(self) -> None:
        """End the JVM."""
        peer, self._peer = self._peer, None
        if peer is not None:
            with suppress(AssertionError):
                await asyncio.to_thread(peer.call, "Witness.stop")
            await asyncio.to_thread(peer.__exit__, None, None, None)
