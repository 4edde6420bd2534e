"""Answers to sends, kept until what they promise is true.

A send joins the store's open group. At the end of the loop's round the group is written, and under SYNC_FLUSH flushed;
then the answers leave. A flush that takes too long is answered with FLUSH_DISK_TIMEOUT: the message may become durable
yet. A SYNC_MASTER also waits for a slave, or answers SLAVE_NOT_AVAILABLE or FLUSH_SLAVE_TIMEOUT. One that cannot know
whether it still is master answers neither, but SERVICE_NOT_AVAILABLE with a field that says that the message is in its
log: a client asks the next one only if it may send twice. Whoever sends with WAIT=false is answered after the write. If
that fails, every waiting send is told so, and none hears "stored". Parts of the broker that put messages themselves are
told when these can be read: where slaves have to confirm them, a delayed message that nobody sees yet would never be
looked for again.

Only the log counts here. Whether a table is saved is another question: who depends on it waits for it before the
message is put (`TopicTable.when_saved`). An answer "not stored" about a message that is in the log would double it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from pyromq.broker.messages.durability import Copies, Durability
from pyromq.clock import Clock
from pyromq.errors import DiskFull, MessageTooLarge, StoreError
from pyromq.protocol.codes import ResponseCode
from pyromq.protocol.command import FrameDecoder, RemotingCommand, decode, response
from pyromq.protocol.headers.send import STORED_HERE
from pyromq.remoting.connection import Connection
from pyromq.remoting.round import Round
from pyromq.remoting.ticker import Ticker
from pyromq.store.message_store import MessageStore

WaitingAnswers = list[tuple[Connection, RemotingCommand | None, bytes]]
"""Who waits, for which request, and what it will hear; without a request, what it will hear of any number of them."""

WhenStored = Callable[[bool], None]
"""What a part of the broker does once its message can be read (True) or could not be stored (False)."""

logger = logging.getLogger(__name__)
_TICKS = 10  # of a flush's time-out
_FENCED = "another broker may be master by now, so what becomes of this message is not known: ask for the route again"


class _Waiting(NamedTuple):
    """Answers that leave when the log is safe up to an end, and since which tick they wait."""

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
        *,
        flush_timeout: float,
        slave_timeout: float,
    ) -> None:
        self._store = store
        self._round = round
        self._durability = durability
        self._group: WaitingAnswers = []
        self._impatient: WaitingAnswers = []
        self._told: list[WhenStored] = []
        self._telling: deque[tuple[int, list[WhenStored]]] = deque()
        self._waiting: deque[_Waiting] = deque()
        tick = min(flush_timeout, slave_timeout) / _TICKS
        self._flush_ticks, self._slave_ticks = flush_timeout / tick, slave_timeout / tick
        self._ticker = Ticker(clock, tick, self._time_out)
        self._idle = asyncio.Event()
        self._idle.set()
        self._unsubscribe = (
            *(changed.subscribe(self._look) for changed in durability.changed),
            durability.failed.subscribe(self._failed),
            round.at_end(self.finish_group),
        )

    def add(self, connection: Connection, request: RemotingCommand, answer: bytes, waits: bool = True) -> None:
        """Keep the answer to a message that joined the open group; one that does not wait for the flush may say so."""
        group = self._group if waits else self._impatient
        if not group:
            self._round.schedule()
        group.append((connection, request, answer))

    def add_all(self, connection: Connection, answers: bytes) -> None:
        """Keep the frames of the answers to messages that joined the open group by the lane."""
        group = self._group
        if not group:
            self._round.schedule()
        elif group[-1][0] is connection and group[-1][1] is None:  # another part of one read: one write for both
            answers = group.pop()[2] + answers
        group.append((connection, None, answers))

    def then(self, told: WhenStored) -> None:
        """Call back when what was put into the open group just now can be read, or could not be stored."""
        self._told.append(told)
        self._round.schedule()

    def expect_group(self) -> None:
        """Have the open group written although nobody may wait for an answer."""
        self._round.schedule()

    def finish_group(self) -> None:
        """Write the open group; the round calls this."""
        if not self._store.has_pending:
            return
        told, self._told = self._told, []
        try:
            self._store.commit(self._release_group)
        except StoreError as error:
            _refuse(self._take_group(), f"not stored: {public_reason(error)}")
            _tell(told, False)
            return
        if not self._durability.waits:
            _tell(told, True)
            return
        if told:
            self._telling.append((self._store.max_physical_offset, told))
        impatient, self._impatient = self._impatient, []
        _release(impatient)
        group, self._group = self._group, []
        self._waiting.append(_Waiting(self._store.max_physical_offset, group, self._ticker.count))
        self._idle.clear()
        self._look()
        if self._waiting:
            self._ticker.start()

    def _release_group(self) -> None:
        """Let the answers of the group leave that is durable now, unless others come first or slaves have to have it.

        Consumers cannot see its messages yet. But they can when whoever gets an answer asks for anything: that is
        served after this round. So the work for them is done while the answers are on their way.
        """
        if not (self._waiting or self._durability.waits_for_slaves):
            _release(self._take_group())

    def _take_group(self) -> WaitingAnswers:
        group, self._group = self._group + self._impatient, []
        self._impatient = []
        return group

    async def drained(self) -> None:
        """Wait until no answer is kept any more."""
        self.finish_group()
        await self._idle.wait()
        self._ticker.stop()

    def close(self) -> None:
        """Hear of nothing any more; called when no answer is kept."""
        for unsubscribe in self._unsubscribe:
            unsubscribe()

    def _look(self, *_: object) -> None:
        """Let the answers leave whose promise has come true."""
        durable = self._durability.durable_end
        while self._telling and self._telling[0][0] <= self._durability.visible_end:
            _tell(self._telling.popleft()[1], True)
        while self._waiting and self._waiting[0].end <= durable:
            copies = self._durability.copies(self._waiting[0].end)
            if copies is Copies.PENDING and self._waiting[0].group and not self._durability.is_fenced:
                break
            group = self._waiting.popleft().group
            if copies is Copies.COMPLETE:
                _release(group)
            else:
                self._release_with(ResponseCode.SLAVE_NOT_AVAILABLE, group)
        self._note_idle()

    def _release_with(self, code: ResponseCode, group: WaitingAnswers) -> None:
        """Let answers leave that say: stored here, fate elsewhere unknown."""
        if self._durability.is_fenced:
            _refuse(group, _FENCED, {STORED_HERE: "true"})
            return
        for connection, _, answers in group:
            for command in _commands(answers):
                command.code = code
                connection.send(command.encode())

    def _failed(self, error: StoreError) -> None:
        while self._waiting:
            _refuse(self._waiting.popleft().group, f"not stored: {public_reason(error)}")
        while self._telling:
            _tell(self._telling.popleft()[1], False)
        self._note_idle()

    def _time_out(self) -> bool:
        while self._waiting and (code := self._overdue(self._waiting[0])) is not None:
            self._release_with(code, self._waiting.popleft().group)
        self._note_idle()
        return bool(self._waiting)

    def _overdue(self, waiting: _Waiting) -> ResponseCode | None:
        """Return with which code answers leave that have waited for too long; None if they have not."""
        age = self._ticker.count - waiting.since
        if waiting.end > self._durability.durable_end and age <= self._flush_ticks:
            return None
        copies = self._durability.copies(waiting.end)
        if copies is Copies.MISSING:
            return ResponseCode.SLAVE_NOT_AVAILABLE
        if copies is Copies.PENDING and age > self._slave_ticks:
            return ResponseCode.FLUSH_SLAVE_TIMEOUT
        return ResponseCode.FLUSH_DISK_TIMEOUT if waiting.end > self._durability.durable_end else None

    def _note_idle(self) -> None:
        if not self._waiting:
            self._idle.set()


def _tell(told: Sequence[WhenStored], stored: bool) -> None:
    for tell in told:
        try:
            tell(stored)
        except Exception:  # the others wait for this as well
            logger.exception("what waited for a message failed")


def _release(group: WaitingAnswers) -> None:
    for connection, request, answer in group:
        if request is not None:
            connection.send(answer)  # perhaps one of many: they leave in one write
            continue
        try:
            connection.send_at_once(answer)
        except Exception:  # the others wait for this as well
            logger.exception("could not write the answers to sends")


def _refuse(group: WaitingAnswers, reason: str, header: Mapping[str, str] | None = None) -> None:
    for connection, request, answers in group:
        # An answer of the lane has all that one needs of its request: its opaque.
        for command in _commands(answers) if request is None else (request,):
            connection.refusals[ResponseCode.SERVICE_NOT_AVAILABLE] += 1
            connection.send(response(command, ResponseCode.SERVICE_NOT_AVAILABLE, reason, header).encode())


def _commands(answers: bytes) -> list[RemotingCommand]:
    return [decode(frame) for frame in FrameDecoder().feed(answers)]


def public_reason(error: StoreError) -> str:
    """Say what went wrong without naming files of this machine."""
    cause = error.__cause__
    if isinstance(cause, OSError) and cause.strerror:
        return cause.strerror.lower()
    if isinstance(error, MessageTooLarge | DiskFull):
        return str(error)
    return "the store takes no messages now"
