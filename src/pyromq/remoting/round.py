"""A round: one pass of the event loop. What it read is finished together, then each connection is written to once.

All connections that became readable in one pass share the end of the round. The broker's store commits its group there,
so requests of 64 connections cost one file write and 64 socket writes, not 64 of each. See docs/architecture.md.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from time import perf_counter
from typing import Protocol

logger = logging.getLogger(__name__)


class Flushable(Protocol):
    """Something that holds bytes until its round ends."""

    def flush(self) -> None:
        """Write the held bytes now."""


class Round:
    """Run the hooks once at the end of each pass of the loop, then flush all members."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._hooks: list[Callable[[], None]] = []
        self.began = 0.0
        """When the round that is ending began, by perf_counter(); for hooks."""
        self._scheduled_at = 0.0
        self._loop = loop
        self._members: list[Flushable] = []
        self._scheduled = False
        self._in_hooks = False

    def at_end(self, hook: Callable[[], None]) -> Callable[[], None]:
        """Run `hook` at the end of each pass from now on; call what is returned to end that."""
        self._hooks.append(hook)
        return lambda: self._hooks.remove(hook)

    def schedule(self) -> None:
        """Request an end of round; within a hook, another one."""
        if not self._scheduled:
            self._scheduled = True
            self._scheduled_at = perf_counter()
            self._loop.call_soon(self.finish)

    def add(self, member: Flushable) -> None:
        """Flush `member` when the round ends; a member added by a hook is flushed in the same round."""
        self._members.append(member)
        if not self._in_hooks:
            self.schedule()

    def finish(self) -> None:
        """End the round now."""
        self._scheduled = False
        self.began = self._scheduled_at  # a hook may ask for the next round
        self._run_hooks()
        members, self._members = self._members, []
        for member in members:
            try:
                member.flush()
            except Exception:
                logger.exception("could not write the answers of a round")

    def _run_hooks(self) -> None:
        self._in_hooks = True
        for hook in tuple(self._hooks):
            try:
                hook()
            except Exception:
                logger.exception("a hook at the end of the round failed")
        self._in_hooks = False
