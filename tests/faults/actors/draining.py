"""The end of a campaign: every group gets the chance to handle all that is stored."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

from pyromq.broker.tables.queue_locks import LOCK_LIFETIME
from tests.faults.actors.roles import Role
from tests.faults.history import lost
from tests.faults.journal import AnyEvent, Drained, read_journals
from tests.faults.timeline import Timeline

QUIET = 1.0  # seconds without an event after which it is worth looking whether all is done
PATIENCE = LOCK_LIFETIME + 30.0
"""Seconds without an event after which nothing more will come. An orderly group waits for the locks of its killed
members that long."""


async def drain(
    directory: Path, roles: Iterable[Role], contents: Callable[[], Awaitable[list[AnyEvent]]]
) -> list[AnyEvent]:
    """Wait until every group has everything, or nothing more happens; return what the brokers have then."""
    groups = list(roles)
    seen, since = -1, time.monotonic()
    while True:
        await asyncio.sleep(QUIET)
        events = await asyncio.to_thread(read_journals, directory)
        done = sum(event.by != "stage" for event in events)
        if done != seen:
            seen, since = done, time.monotonic()
            continue
        found = [*await contents(), *drained(groups)]
        history = await asyncio.to_thread(Timeline, [*events, *found])
        if time.monotonic() - since > PATIENCE or not next(iter(lost(history)), None):
            return found


def drained(roles: Iterable[Role]) -> list[Drained]:
    """Return that these groups have drained."""
    return [Drained(group=role.group, at=time.monotonic()) for role in roles]
