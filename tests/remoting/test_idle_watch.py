from __future__ import annotations

import asyncio
import logging

from pyromq.remoting.idle_watch import AT_A_TIME, IdleWatch
from pyromq.testing import TestClock, eventually


class Silent:
    """A connection without traffic."""

    def __init__(self) -> None:
        self.silent_ticks = self.frame_ticks = self.unproven_ticks = 0
        self.reason = ""

    def age(self) -> None:
        self.silent_ticks += 1

    def abort(self, reason: str, level: int = logging.WARNING, *, cause: str = "") -> None:
        self.reason = reason


async def test_thousands_of_connections_are_looked_at_in_several_passes_of_the_loop() -> None:
    clock = TestClock()
    watch = IdleWatch(clock, idle_timeout=100.0, frame_timeout=100.0)
    connections = [Silent() for _ in range(3 * AT_A_TIME + 1)]
    for connection in connections:
        watch.add(connection)
    seen: list[int] = []

    def note() -> None:
        seen.append(sum(connection.silent_ticks for connection in connections))
        if seen[-1] < len(connections):
            asyncio.get_running_loop().call_soon(note)

    watch._sweep()
    note()
    await eventually(lambda: seen[-1] == len(connections))
    assert seen[0] == AT_A_TIME
    assert len(seen) >= 4
    watch.stop()


async def test_a_connection_that_has_gone_in_between_is_not_looked_at() -> None:
    watch = IdleWatch(TestClock(), idle_timeout=100.0, frame_timeout=100.0)
    connections = [Silent() for _ in range(2 * AT_A_TIME)]
    for connection in connections:
        watch.add(connection)
    watch._sweep()
    waiting = [connection for connection in connections if not connection.silent_ticks]
    for connection in waiting:
        watch.remove(connection)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not any(connection.silent_ticks for connection in waiting)
    watch.stop()
