"""Handing out what the loops pulled to a caller who asks: in order within a queue, in turn among queues."""

from __future__ import annotations

import asyncio

from pyromq.client.consume.fair_queue import FairQueue
from pyromq.client.poll.poll_queue import PollQueue
from pyromq.errors import AccessDenied
from pyromq.protocol.messages.message import MessageExt


class ReadyMessages:
    """The caller's side of the assigned queues."""

    def __init__(self, now: float) -> None:
        self.away_since: float | None = now
        """Since when the caller has not asked; None while it waits for messages."""
        self.arrival = asyncio.Event()
        """Set while there is something to take."""
        self._line: FairQueue[PollQueue] = FairQueue()
        self._handed_out: dict[PollQueue, None] = {}
        self._refusal: AccessDenied | None = None

    def note_messages(self, held: PollQueue) -> None:
        """Hear that a queue has something to hand out."""
        if self._line.join(held):
            self.arrival.set()

    def refuse(self, error: AccessDenied) -> None:
        """Hear that a queue may not be read: who asks next is told so, unless there are messages of others."""
        self._refusal = error
        self.arrival.set()

    def take(self, most: int) -> list[MessageExt]:
        """Hand out up to so many messages of the queues whose turn it is; raises AccessDenied."""
        messages: list[MessageExt] = []
        while len(messages) < most and (held := self._line.next()):
            messages += held.take(most - len(messages))
            self._handed_out[held] = None
            held.room.set()
            self._line.join(held)
        if not self._line:
            self.arrival.clear()
        refusal, self._refusal = self._refusal, None
        if refusal is not None and not messages:
            raise refusal
        return messages

    def come_back(self) -> None:
        """Note that the caller asks again: it is done with all that was handed out."""
        self.away_since = None
        self.mark_consumed()

    def mark_consumed(self) -> None:
        """Note that the caller is done with all that was handed out."""
        for held in self._handed_out:
            held.mark_consumed()
        self._handed_out.clear()

    def forget(self, held: PollQueue) -> None:
        """Count no more on a queue that was given up."""
        self._handed_out.pop(held, None)

    def stop(self) -> None:
        """Hand out nothing more, and wake whoever waits for messages."""
        self._line.clear()
        self.arrival.set()
