"""END_TRANSACTION (37) for producers; LIST_TRANSACTIONS (30010) and RESUME_CHECK_HALF_MESSAGE (323) for operators."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Final

from pyromq.access.account import PUB
from pyromq.access.open_access import OPEN, CallerRights
from pyromq.broker.messages.acknowledgements import Acknowledgements, public_reason
from pyromq.broker.pulls.disk_reads import DiskReads
from pyromq.broker.transactions.half_messages import QUEUE, StoredHalf, read_half, resumed_record, split_records
from pyromq.broker.transactions.late_ends import LateEnd, LateEnds
from pyromq.broker.transactions.open_transactions import OpenTransactions
from pyromq.broker.transactions.transaction_history import TransactionHistory
from pyromq.errors import BrokerError, PyroMQError, ServiceNotAvailable, StoreError
from pyromq.protocol.codes import ONEWAY_FLAG
from pyromq.protocol.command import RemotingCommand, response
from pyromq.protocol.headers.transactions import (
    EndTransactionRequestHeader,
    ListTransactionsRequestHeader,
    ListTransactionsResponseHeader,
    ResumeCheckHalfMessageRequestHeader,
    TransactionState,
)
from pyromq.protocol.messages.message_id import decode_offset_id
from pyromq.protocol.names import TRANSACTION_CHECK_MAX_TOPIC
from pyromq.remoting.connection import Connection
from pyromq.remoting.dispatch import error_answer
from pyromq.store.message_store import MessageStore
from pyromq.store.results import GetStatus

logger = logging.getLogger(__name__)

_MOST_LISTED: Final = 100
_MOST_BYTES: Final = 4 << 20


class TransactionHandlers:
    """Ends transactions for producers; lists and resumes them for operators."""

    def __init__(
        self,
        store: MessageStore,
        reads: DiskReads,
        transactions: OpenTransactions,
        late: LateEnds,
        history: TransactionHistory,
        acknowledgements: Acknowledgements,
        access: CallerRights = OPEN,
    ) -> None:
        self._access = access
        self._store = store
        self._reads = reads
        self._transactions = transactions
        self._late = late
        self._history = history
        self._acknowledgements = acknowledgements
        self._resuming = asyncio.Lock()

    # --- producers

    def end(self, request: RemotingCommand, connection: Connection) -> RemotingCommand | None:
        """Commit or roll back a half message; answer when that is stored. State UNKNOWN leaves it open."""
        header = request.header(EndTransactionRequestHeader)
        state = header.commit_or_rollback
        if request.remark:
            logger.info("remark of a producer on a transaction message=%r: %r", header.msg_id, request.remark[:500])
        if state is TransactionState.UNKNOWN:
            return response(request)  # Apache's broker does not answer, even if the request was not one-way
        half = self._transactions.find(header)
        self._access.need(request, connection, PUB, half.real_topic)
        if header.from_transaction_check or not self._transactions.is_simple(half):
            self._late.add(LateEnd(half, state, partial(self._ended, request, connection)))
            return None
        try:
            self._transactions.end(half, state)
        except StoreError as error:
            raise ServiceNotAvailable(f"not stored: {public_reason(error)}") from error
        self._ended(request, connection, None)
        return None

    def _ended(self, request: RemotingCommand, connection: Connection, error: PyroMQError | None) -> None:
        if error is not None:
            logger.warning("a transaction could not be ended: %s", error)
        if request.flag & ONEWAY_FLAG:
            self._acknowledgements.expect_group()
        elif error is not None:
            connection.send(error_answer(request, error, connection).encode())
        elif self._store.has_pending:
            self._acknowledgements.add(connection, request, response(request).encode())
        else:
            connection.send(response(request).encode())

    # --- operators

    async def list_halves(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Return half messages that are open, or that were given up and not resumed."""
        header = request.header(ListTransactionsRequestHeader)
        count = max(1, min(header.max_num, _MOST_LISTED))
        if header.given_up:
            records, next_offset, is_last = await self._given_up(header.offset, count)
        else:
            records, next_offset, is_last = await self._reads.read(lambda: self._open(header.offset, count))
        answer = ListTransactionsResponseHeader(next_offset=next_offset, is_last=is_last)
        return response(request, header=answer, body=b"".join(records))

    def _open(self, offset: int, count: int) -> tuple[list[bytes], int, bool]:
        ledger, end = self._transactions.ledger, self._transactions.end_offset
        records: list[bytes] = []
        size = 0
        offset = ledger.next_open(offset)
        while offset < end and len(records) < count and size < _MOST_BYTES:
            record = self._transactions.read_record(offset)
            if record is not None:
                records.append(record)
                size += len(record)
            offset = ledger.next_open(offset + 1)
        return records, offset, offset >= end

    async def _given_up(self, offset: int, count: int) -> tuple[list[bytes], int, bool]:
        found = await self._reads.read(
            lambda: self._store.get(TRANSACTION_CHECK_MAX_TOPIC, QUEUE, offset, count, max_bytes=_MOST_BYTES)
        )
        records = b"".join(found.views)  # copied before the next await: views are valid only until then
        listed = [record for record in split_records(records) if await self._why_not(read_half(record)) is None]
        is_last = found.next_offset >= found.max_offset and found.status is not GetStatus.OFFSET_TOO_SMALL
        return listed, found.next_offset, is_last

    async def _why_not(self, half: StoredHalf) -> str | None:
        """Return why a given-up half message cannot be resumed; None if it can."""
        places = await asyncio.to_thread(self._history.find, half)
        past = await self._reads.read(lambda: self._history.read(half, places))
        if past.is_committed or half.identity in self._transactions.unstored:
            return "the transaction has been committed since"
        if any(copy.physical_offset > half.physical_offset for copy in past.copies):
            return "the transaction has already been resumed"
        return None

    async def resume(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Start to check a given-up transaction again."""
        message_id = request.header(ResumeCheckHalfMessageRequestHeader).msg_id or ""
        half = await self._reads.read(lambda: self._find_given_up(message_id))
        async with self._resuming:  # of two concurrent requests the second must find the copy that the first one made
            reason = await self._why_not(half)
            if reason is not None:
                raise BrokerError(reason)
            try:
                self._store.put(resumed_record(half))
            except StoreError as error:
                raise ServiceNotAvailable(f"not stored: {public_reason(error)}") from error
            stored: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
            self._acknowledgements.then(stored.set_result)
            if not await stored:
                raise ServiceNotAvailable("not stored: the store takes no messages now")
        logger.info("transaction resumed message=%s by=%s", half.unique_key, connection.peer)
        return response(request)

    def _find_given_up(self, message_id: str) -> StoredHalf:
        _, physical_offset = decode_offset_id(message_id)
        record = self._store.read(physical_offset)
        half = None if record is None else read_half(record)
        if half is None or half.topic != TRANSACTION_CHECK_MAX_TOPIC:
            raise BrokerError(f"there is no given-up transaction at {message_id}")
        return half
