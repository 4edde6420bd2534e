"""The user's two functions of a transaction: the one that carries it out, and the one that says how it ended.

Both get the message and return COMMIT, ROLLBACK or UNKNOWN. They may be async, or plain: then they run on threads.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from pyromq.client.listener import is_async
from pyromq.client.outcomes import UNKNOWN, cause_of
from pyromq.client.threads import ListenerThreads
from pyromq.protocol.headers.transactions import TransactionState
from pyromq.protocol.messages.message import MessageExt

logger = logging.getLogger(__name__)

THREADS: Final = 32  # at most, of plain functions

Judge = Callable[[MessageExt], object]
"""Returns COMMIT, ROLLBACK or UNKNOWN, or something to await that does."""


class Judgement(Struct, frozen=True):
    """What a function said of a transaction; if that is UNKNOWN, perhaps why."""

    state: TransactionState
    cause: str = ""
    error: Exception | None = None


class LocalTransactions:
    """Calls the functions of one producer."""

    def __init__(self) -> None:
        self._threads = ListenerThreads()
        self._room = asyncio.Semaphore(THREADS)

    async def judge(self, function: Judge, message: MessageExt) -> Judgement:
        """Return what a function says; an exception means that nobody knows."""
        try:
            outcome = await self._call(function, message)
        except Exception as error:
            logger.warning("the outcome of transaction message=%s is unknown", message.message_id, exc_info=error)
            return Judgement(UNKNOWN, cause_of(error), error)
        if outcome is None:
            return Judgement(UNKNOWN)
        if isinstance(outcome, TransactionState):
            return Judgement(outcome)
        cause = f"{getattr(function, '__name__', 'the function')} returned {outcome!r:.100}"
        logger.warning("%s, and not COMMIT, ROLLBACK or UNKNOWN, for message=%s", cause, message.message_id)
        return Judgement(UNKNOWN, cause)

    async def _call(self, function: Judge, message: MessageExt) -> object:
        if is_async(function):
            outcome = function(message)
        else:
            async with self._room:
                outcome = await self._threads.run(function, message)
        return await outcome if inspect.isawaitable(outcome) else outcome

    def close(self) -> None:
        """Let every thread end once its function returns."""
        self._threads.close()
