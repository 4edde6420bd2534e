"""Local transactions: the user's two functions, and the answers to a broker that asks how one ended."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from msgspec import Struct

from pyromq.client.background import is_being_cancelled, log_failure
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

THREADS: Final = 32  # the most that run plain functions

TransactionFunction = Callable[[MessageExt], object]
"""Returns COMMIT, ROLLBACK or UNKNOWN, or an awaitable of one of them."""


class TransactionOutcome(Struct, frozen=True):
    """How a transaction ended; if that is UNKNOWN, `cause` and `error` say why, as far as is known."""

    state: TransactionState
    cause: str = ""
    error: BaseException | None = None


class LocalTransactions:
    """Calls the functions of one producer: async ones on the loop, plain ones on threads."""

    def __init__(self) -> None:
        self._threads = ListenerThreads()
        self._room = asyncio.Semaphore(THREADS)

    async def run(self, function: TransactionFunction, message: MessageExt) -> TransactionOutcome:
        """Call a function and return the outcome; UNKNOWN if it raises or returns something else."""
        try:
            outcome = await self._call(function, message)
        except (Exception, asyncio.CancelledError, SystemExit) as error:  # sys.exit() would end the loop of all clients
            if isinstance(error, asyncio.CancelledError) and is_being_cancelled():
                raise
            log_failure(
                logger,
                logging.WARNING,
                "the outcome of transaction message=%s is unknown",
                message.message_id,
                error=error,
            )
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
            await self._room.acquire()  # until the function has returned, even if nobody waits for that any more
            outcome = await self._threads.run(function, message, self._room.release)
        return await outcome if inspect.isawaitable(outcome) else outcome

    def close(self) -> None:
        """Let each thread end when its function returns."""
        self._threads.close()


_CONCURRENT_CHECKS: Final = 16
_MAX_CHECKS: Final = 10_000


class TransactionAnswers:
    """Answers brokers that ask how a transaction ended: `decide` finds out, `report` hears of it before the broker."""

    def __init__(
        self,
        group: str,
        decide: Callable[[MessageExt], Awaitable[TransactionOutcome]],
        report: Callable[[EndContext], None],
    ) -> None:
        self._group = group
        self._decide = decide
        self._report = report
        self._room = asyncio.Semaphore(_CONCURRENT_CHECKS)
        self._tasks: set[asyncio.Task[None]] = set()

    def ask(self, message: MessageExt, header: CheckTransactionStateRequestHeader, connection: Connection) -> None:
        """Answer later, on the same connection; if too many checks wait, drop this one: the broker asks again."""
        if len(self._tasks) >= _MAX_CHECKS:
            logger.warning("too many transaction checks, the one for message=%s is dropped", message.message_id)
            return
        task = asyncio.create_task(self._answer(message, header, connection), name="pyromq transaction check")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(
        self, message: MessageExt, header: CheckTransactionStateRequestHeader, connection: Connection
    ) -> None:
        async with self._room:
            outcome = await self._decide(message)
        answer = EndTransactionRequestHeader(
            producer_group=self._group,
            tran_state_table_offset=header.tran_state_table_offset,
            commit_log_offset=header.commit_log_offset,
            commit_or_rollback=outcome.state,
            from_transaction_check=True,
            msg_id=message.message_id,
            transaction_id=header.transaction_id,
        )
        self._report(
            EndContext(
                group=self._group,
                message=message,
                message_id=message.message_id,
                address=connection.peer,
                state=outcome.state,
                from_check=True,
            )
        )
        try:
            connection.oneway(end_transaction_request(answer, outcome.cause))
        except ConnectionLost:
            logger.info(
                "lost the connection to the broker that asked about message=%s; it will ask again", message.message_id
            )

    async def close(self) -> None:
        """Answer no more; the broker asks another producer, or this one when it is back."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
