"""RECALL_MESSAGE (370) and LIST_TIMED_MESSAGES (30001): cancel and list messages that wait for their time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

from pyromq.access.account import PUB
from pyromq.access.open_access import OPEN, CallerRights
from pyromq.broker.delay.timer.message_timer import MessageTimer
from pyromq.broker.delay.timer.timer_records import read_waiting
from pyromq.broker.messages.acknowledgements import Acknowledgements, public_reason
from pyromq.broker.pulls.disk_reads import DiskReads
from pyromq.errors import BrokerError, MalformedHeader, ServiceNotAvailable, StoreError
from pyromq.protocol.codes import ResponseCode
from pyromq.protocol.command import RemotingCommand, response
from pyromq.protocol.headers.timed_messages import (
    ListTimedMessagesRequestHeader,
    ListTimedMessagesResponseHeader,
    RecallMessageRequestHeader,
    RecallMessageResponseHeader,
)
from pyromq.protocol.messages.message import MessageExt
from pyromq.protocol.messages.message_id import decode_handle, decode_offset_id
from pyromq.protocol.messages.properties import REAL_TOPIC
from pyromq.protocol.names import TIMER_TOPIC
from pyromq.remoting.connection import Connection
from pyromq.store.index.pending_table import Pending
from pyromq.store.message_store import MessageStore

_END_OF_TIME: Final = 2**62
_MOST: Final = 256
_MOST_BYTES: Final = 1 << 20
_MOST_OF_A_KEY: Final = 64


class TimerHandlers:
    """Cancels and lists waiting messages."""

    def __init__(
        self,
        timer: MessageTimer,
        store: MessageStore,
        reads: DiskReads,
        acknowledgements: Acknowledgements,
        access: CallerRights = OPEN,
    ) -> None:
        self._access = access
        self._timer = timer
        self._store = store
        self._reads = reads
        self._acknowledgements = acknowledgements

    async def cancel(self, request: RemotingCommand, connection: Connection) -> RemotingCommand | None:
        """Cancel a waiting message; answer when that is stored, with ILLEGAL_OPERATION if it does not wait.

        A send that was retried may have been stored twice with the same id; all waiting copies are cancelled.
        """
        header = request.header(RecallMessageRequestHeader)
        message_id = decode_handle(header.recall_handle).message_id
        try:
            if await self._cancel(header, message_id, partial(self._access.need, request, connection, PUB)):
                answer = response(request, header=RecallMessageResponseHeader(msg_id=message_id))
                self._acknowledgements.add(connection, request, answer.encode())
                return None
        except StoreError as error:
            raise ServiceNotAvailable(f"not cancelled: {public_reason(error)}") from error
        raise BrokerError(
            f"the message {message_id} of topic {header.topic} does not wait for its time: it was delivered, cancelled,"
            " or never here",
            ResponseCode.ILLEGAL_OPERATION,
        )

    async def _cancel(
        self, header: RecallMessageRequestHeader, message_id: str, need_right_on: Callable[[str], None]
    ) -> int:
        """Put cancellations into the open group; return their number. Nothing else runs in between."""
        async with self._timer.places:
            offsets = await self._find(message_id, header.pyromq_offset_msg_id)
            waiting = await self._timer.waiting(offsets)
            meant = [message for message in waiting if _is_meant(message, message_id, header.topic)]
            for message in meant:
                need_right_on(message.properties.get(REAL_TOPIC, message.topic))
            for message in meant:
                self._timer.cancel(message, header.producer_group or "")
            return len(meant)

    async def _find(self, message_id: str, offset_message_id: str | None) -> list[int]:
        """Return where the message may wait in the log: by its id (it may have been moved) and by its first place."""
        offsets = await asyncio.to_thread(self._store.find, TIMER_TOPIC, message_id, _MOST_OF_A_KEY)
        for text in (offset_message_id, message_id):
            try:
                offsets.append(decode_offset_id(text or "")[1])
            except MalformedHeader:
                continue
        return sorted(set(offsets))

    async def list_waiting(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Return the next waiting messages, as they are stored."""
        header = request.header(ListTimedMessagesRequestHeader)
        after = Pending(header.after_ms, header.after_offset)
        await self._timer.decided()
        most = max(1, min(header.max_num, _MOST))
        try:
            found, end = await self._timer.ledger.due(after, _END_OF_TIME, most)
            end = end if len(found) <= most else found[most - 1]
            records, end = await self._reads.read(partial(self._read, found[:most], end, header.topic))
        except StoreError as error:
            raise ServiceNotAvailable(f"the timer cannot be read: {public_reason(error)}") from error
        answer = ListTimedMessagesResponseHeader(
            next_ms=end.due_ms,
            next_offset=end.physical_offset,
            is_last=end.due_ms == _END_OF_TIME,
            count=self._timer.count,
        )
        return response(request, header=answer, body=b"".join(records))

    def _read(self, messages: list[Pending], end: Pending, topic: str | None) -> tuple[list[bytes], Pending]:
        """Return as many records of a topic as fit an answer, and the message up to which these are all."""
        records: list[bytes] = []
        size = 0
        for message in messages:
            stored = self._store.read(message.physical_offset)
            waiting = read_waiting(stored)
            if stored is None or waiting is None or topic not in (None, waiting.properties.get(REAL_TOPIC)):
                continue
            records.append(stored)
            size += len(stored)
            if size > _MOST_BYTES:
                return records, message
        return records, end


def _is_meant(message: MessageExt, message_id: str, topic: str) -> bool:
    same_id = message_id in (message.message_id, message.offset_message_id)
    return same_id and topic in ("", message.properties.get(REAL_TOPIC))  # RocketMQ 5 always names the topic
