"""Local transactions: the user's two functions, and the answers to a broker that asks how one ended."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from msgspec import Struct

from pyromq.client.hooks import EndContext
from pyromq.client.listener.listener import is_async
from pyromq.client.listener.listener_threads import ListenerThreads
from pyromq.client.listener.outcomes import UNKNOWN, cause_of
from pyromq.client.net.calls.broker_api import end_transaction_request
from pyromq.errors import ConnectionLost
from pyromq.protocol.headers.transactions import (
    CheckTransactionStateRequestHeader,
    EndTransactionRequestHeader,
    TransactionState,
)
from pyromq.protocol.messages.message import MessageExt
from pyromq.remoting.connection import Connection

logger = logging.getLogger(__name__)

THREADS: Final = 32  # at most, of plain functions

TransactionFunction = Callable[[MessageExt], object]
"""Returns COMMIT, ROLLBACK or UNKNOWN, or something to await that does."""


class TransactionOutcome(Struct, frozen=True):
    """What a function said of a transaction; if that is UNKNOWN, perhaps why."""

    state: TransactionState
    cause: str = ""
    error: Exception | None = None


class LocalTransactions:
    """Calls the functions of one producer."""

    def __init__(self) -> None:
        self._threads = ListenerThreads()
        self._room = asyncio.Semaphore(THREADS)

    async def judge(self, function: TransactionFunction, message: MessageExt) -> TransactionOutcome:
        """Return what a function says; an exception means that nobody knows."""
        try:
            outcome = await self._call(function, message)
        except Exception as error:
            logger.warning("the outcome of transaction message=%s is unknown", message.message_id, exc_info=error)
            return TransactionOutcome(UNKNOWN, cause_of(error), error)
        if outcome is None:
            return TransactionOutcome(UNKNOWN)
        if isinstance(outcome, TransactionState):
            return TransactionOutcome(outcome)
        cause = f"{getattr(function, '__name__', 'the function')} returned {outcome!r:.100}"
        logger.warning("%s, and not COMMIT, ROLLBACK or UNKNOWN, for message=%s", cause, message.message_id)
        return TransactionOutcome(UNKNOWN, cause)

    async def _call(self, function: TransactionFunction, message: MessageExt) -> object:
        if is_async(function):
            outcome = function(message)
        else:
            async with self._room:
                outcome = await self._threads.run(function, message)
        return await outcome if inspect.isawaitable(outcome) else outcome

    def close(self) -> None:
        """Let every thread end once its function returns."""
        self._threads.close()


_AT_A_TIME: Final = 16
_MOST_WAITING: Final = 10_000


class TransactionAnswers:
    """Has each question judged, some at a time, and answers the broker that asked; `tell` hears of it before."""

    def __init__(
        self,
        group: str,
        judge: Callable[[MessageExt], Awaitable[TransactionOutcome]],
        tell: Callable[[EndContext], None],
    ) -> None:
        self._group = group
        self._judge = judge
        self._tell = tell
        self._room = asyncio.Semaphore(_AT_A_TIME)
        self._tasks: set[asyncio.Task[None]] = set()

    def ask(self, message: MessageExt, header: CheckTransactionStateRequestHeader, connection: Connection) -> None:
        """Answer later, on the same connection; when too many wait, the broker has to ask again."""
        if len(self._tasks) >= _MOST_WAITING:
            logger.warning("too many transactions are asked about, message=%s is left out", message.message_id)
            return
        task = asyncio.create_task(self._answer(message, header, connection), name="pyromq transaction check")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(
        self, message: MessageExt, header: CheckTransactionStateRequestHeader, connection: Connection
    ) -> None:
        async with self._room:
            judgement = await self._judge(message)
        answer = EndTransactionRequestHeader(
            producer_group=self._group,
            tran_state_table_offset=header.tran_state_table_offset,
            commit_log_offset=header.commit_log_offset,
            commit_or_rollback=judgement.state,
            from_transaction_check=True,
            msg_id=message.message_id,
            transaction_id=header.transaction_id,
        )
        self._tell(
            EndContext(
                group=self._group,
                message=message,
                message_id=message.message_id,
                address=connection.peer,
                state=judgement.state,
                from_check=True,
            )
        )
        try:
            connection.oneway(end_transaction_request(answer, judgement.cause))
        except ConnectionLost:
            logger.info("the broker left that asked about message=%s; it will ask again", message.message_id)

    async def close(self) -> None:
        """Answer nothing more; another producer will be asked, or this one when it is back."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
