"""QueueChanges: tells the user's functions which queues a consumer was given and which are taken from it."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Iterable
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from pyromq.client.background import log_failure
from pyromq.errors import ClientError
from pyromq.protocol.messages.message import MessageQueue

logger = logging.getLogger(__name__)

OnQueues: TypeAlias = Callable[[list[MessageQueue]], object]
"""Takes a list of queues; a coroutine function runs on the event loop, a plain one on a thread."""


class QueueChanges(Struct, frozen=True):
    """The user's functions, and how queues are shown to them; None hides one."""

    on_assigned: OnQueues | None = None
    on_revoked: OnQueues | None = None
    show: Callable[[MessageQueue], MessageQueue | None] = lambda queue: queue

    def __post_init__(self) -> None:
        for name, function in (("on_assigned", self.on_assigned), ("on_revoked", self.on_revoked)):
            if function is not None and not callable(function):
                raise ClientError(f"{name}= takes a function of a list of queues, not {function!r:.80}")

    def shown_as(self, show: Callable[[MessageQueue], MessageQueue | None]) -> QueueChanges:
        """Return the same functions with another way to show queues."""
        return replace(self, show=show)

    async def assigned(self, queues: Iterable[MessageQueue]) -> None:
        """Report queues that the consumer has from now on."""
        await self._report(self.on_assigned, queues)

    async def revoked(self, queues: Iterable[MessageQueue]) -> None:
        """Report queues that the consumer is about to give up; it still has them."""
        await self._report(self.on_revoked, queues)

    async def _report(self, function: OnQueues | None, queues: Iterable[MessageQueue]) -> None:
        if function is None:
            return
        shown = sorted(found for queue in queues if (found := self.show(queue)) is not None)
        if not shown:
            return
        try:
            if inspect.iscoroutinefunction(function):
                await function(shown)
            else:
                returned = await asyncio.to_thread(function, shown)
                if inspect.isawaitable(returned):
                    await returned
        except Exception as error:  # rebalancing must go on
            log_failure(logger, logging.ERROR, "the function for queues given and taken failed", error=error)
