"""Answers to sends, kept until what they promise is true.

A send joins the store's open group. At the end of the loop's round the group is written, and under SYNC_FLUSH flushed;
then the answers leave. A flush that takes too long is answered with FLUSH_DISK_TIMEOUT: the message may become durable
yet. Whoever sends with WAIT=false is answered after the write. If that fails, every waiting send is told so, and none
hears "stored". Parts of the broker that put messages themselves are told the same way.

Only the log counts here. Whether a table is saved is another question: who depends on it waits for it before the
message is put (`TopicTable.when_saved`). An answer "not stored" about a message that is in the log would double it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from pyromq.broker.durability import Durability
from pyromq.clock import Clock
from pyromq.errors import DiskFull, MessageTooLarge, StoreError
from pyromq.protocol.codes import ResponseCode
from pyromq.protocol.command import RemotingCommand, decode, response
from pyromq.remoting.connection import Connection
from pyromq.remoting.round import Round
from pyromq.remoting.ticker import Ticker
from pyromq.store.message_store import MessageStore

WaitingAnswers = list[tuple[Connection, RemotingCommand, bytes]]
"""Who waits, for which request, and what it will hear."""

WhenStored = Callable[[bool], None]
"""What a part of the broker does once the log has its message (True) or could not take it (False)."""

FRAME_PREFIX = 4
_TICKS = 10  # of a flush's time-out


class _Flushing(NamedTuple):
    """Answers that leave when the log is durable up to an end, and since which tick they wait."""

    end: int
    group: WaitingAnswers
    since: int


class Acknowledgements:
    """Commits the store's group at the end of each round, and releases the answers that waited for it."""

    def __init__(
        self,
        store: MessageStore,
        durability: Durability,
        round: Round,
        clock: Clock,
        flush_timeout: float,
    ) -> None:
        self._store = store
        self._round = round
        self._durability = durability
        self._group: WaitingAnswers = []
        self._impatient: WaitingAnswers = []
        self._told: list[WhenStored] = []
        self._telling: deque[tuple[int, list[WhenStored]]] = deque()
        self._flushing: deque[_Flushing] = deque()
        self._ticker = Ticker(clock, flush_timeout / _TICKS, self._time_out)
        self._idle = asyncio.Event()
        self._idle.set()
        self._unsubscribe = (
            durability.confirmed.subscribe(self._confirmed),
            durability.failed.subscribe(self._failed),
            round.at_end(self.finish_group),
        )

    def add(self, connection: Connection, request: RemotingCommand, answer: bytes, waits: bool = True) -> None:
        """Keep the answer to a message that joined the open group; one that does not wait for the flush may say so."""
        group = self._group if waits else self._impatient
        if not group:
            self._round.schedule()
        group.append((connection, request, answer))

    def then(self, told: WhenStored) -> None:
        """Call back when the log has what was put into the open group just now, or could not take it."""
        self._told.append(told)
        self._round.schedule()

    def expect_group(self) -> None:
        """Have the open group written although nobody may wait for an answer."""
        self._round.schedule()

    def finish_group(self) -> None:
        """Write the open group; the round calls this."""
        if not self._store.has_pending:
            return
        group, self._group = self._group, []
        impatient, self._impatient = self._impatient, []
        told, self._told = self._told, []
        try:
            self._store.commit()
        except StoreError as error:
            _refuse(group + impatient, public_reason(error))
            _tell(told, False)
            return
        if not self._durability.waits:
            _release(group + impatient)
            _tell(told, True)
            return
        if told:
            self._telling.append((self._store.max_physical_offset, told))
        _release(impatient)
        self._flushing.append(_Flushing(self._store.max_physical_offset, group, self._ticker.count))
        self._ticker.start()
        self._idle.clear()

    async def drained(self) -> None:
        """Wait until no answer is kept any more."""
        self.finish_group()
        await self._idle.wait()
        self._ticker.stop()

    def close(self) -> None:
        """Hear of nothing any more; called when no answer is kept."""
        for unsubscribe in self._unsubscribe:
            unsubscribe()

    def _confirmed(self, end: int) -> None:
        while self._flushing and self._flushing[0].end <= end:
            _release(self._flushing.popleft().group)
        while self._telling and self._telling[0][0] <= end:
            _tell(self._telling.popleft()[1], True)
        self._note_idle()

    def _failed(self, error: StoreError) -> None:
        while self._flushing:
            _refuse(self._flushing.popleft().group, public_reason(error))
        while self._telling:
            _tell(self._telling.popleft()[1], False)
        self._note_idle()

    def _time_out(self) -> bool:
        while self._flushing and self._ticker.count - self._flushing[0].since > _TICKS:
            _release_late(self._flushing.popleft().group)
        self._note_idle()
        return bool(self._flushing)

    def _note_idle(self) -> None:
        if not self._flushing:
            self._idle.set()


def _tell(told: Sequence[WhenStored], stored: bool) -> None:
    for tell in told:
        tell(stored)


def _release(group: WaitingAnswers) -> None:
    for connection, _, answer in group:
        connection.send(answer)


def _release_late(group: WaitingAnswers) -> None:
    for connection, _, answer in group:
        command = decode(answer[FRAME_PREFIX:])
        command.code = ResponseCode.FLUSH_DISK_TIMEOUT
        connection.send(command.encode())


def _refuse(group: WaitingAnswers, reason: str) -> None:
    for connection, request, _ in group:
        connection.send(response(request, ResponseCode.SERVICE_NOT_AVAILABLE, f"not stored: {reason}").encode())


def public_reason(error: StoreError) -> str:
    """Say what went wrong without naming files of this machine."""
    cause = error.__cause__
    if isinstance(cause, OSError) and cause.strerror:
        return cause.strerror.lower()
    if isinstance(error, MessageTooLarge | DiskFull):
        return str(error)
    return "the store takes no messages now"
