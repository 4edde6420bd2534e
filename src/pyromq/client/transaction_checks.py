"""Answers to CHECK_TRANSACTION_STATE (39): a broker asks how a transaction ended of which it heard nothing."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from pyromq.client.hooks import EndContext
from pyromq.client.local_transactions import Judgement
from pyromq.errors import ConnectionLost
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import RemotingCommand, request
from pyromq.protocol.headers.transactions import CheckTransactionStateRequestHeader, EndTransactionRequestHeader
from pyromq.protocol.messages.message import MessageExt
from pyromq.remoting.connection import Connection

logger = logging.getLogger(__name__)

_AT_A_TIME: Final = 16
_MOST_WAITING: Final = 10_000


def end_command(header: EndTransactionRequestHeader, cause: str) -> RemotingCommand:
    """Return the request that ends a transaction; nobody answers it."""
    command = request(RequestCode.END_TRANSACTION, header, oneway=True)
    command.remark = cause or None
    return command


class CheckAnswers:
    """Has each question judged, some at a time, and answers the broker that asked; `tell` hears of it before."""

    def __init__(
        self,
        group: str,
        judge: Callable[[MessageExt], Awaitable[Judgement]],
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
            connection.oneway(end_command(answer, judgement.cause))
        except ConnectionLost:
            logger.info("the broker left that asked about message=%s; it will ask again", message.message_id)

    async def close(self) -> None:
        """Answer nothing more; another producer will be asked, or this one when it is back."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
