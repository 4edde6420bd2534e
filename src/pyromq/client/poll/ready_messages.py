"""ReadyMessages: hands pulled messages out to the caller, in order within a queue and from all queues in turn."""

from __future__ import annotations

import asyncio

from pyromq.client.consume.fair_queue import FairQueue
from pyromq.client.poll.poll_queue import PollQueue
from pyromq.errors import AccessDenied, ClientError
from pyromq.protocol.messages.message import MessageExt


class ReadyMessages:
    """The messages that a poll can return now."""

    def __init__(self, now: float) -> None:
        self.idle_since: float | None = now
        """Since when the caller has not polled; None while it waits in a poll."""
        self.arrival = asyncio.Event()
        """Set while there is something to take, or an error to raise."""
        self._ready: FairQueue[PollQueue] = FairQueue()
        self._handed_out: dict[PollQueue, None] = {}
        self._refusal: AccessDenied | None = None

    def note_messages(self, held: PollQueue) -> None:
        """Note that a queue has something to hand out."""
        if self._ready.join(held):
            self.arrival.set()

    def refuse(self, error: AccessDenied) -> None:
        """Note that a queue may not be read; the next poll raises this unless other queues have messages."""
        self._refusal = error
        self.arrival.set()

    def take(self, most: int) -> list[MessageExt]:
        """Hand out up to `most` messages from the queues in turn; raises AccessDenied after `refuse`."""
        messages: list[MessageExt] = []
        while len(messages) < most and (held := self._ready.next()):
            messages += held.take(most - len(messages))
            self._handed_out[held] = None
            held.room.set()
            self._ready.join(held)
        if not self._ready:
            self.arrival.clear()
        refusal, self._refusal = self._refusal, None
        if refusal is not None and not messages:
            raise refusal
        return messages

    def begin_poll(self) -> None:
        """Note that the caller polls again, so it is done with everything that was handed out.

        Raises ClientError if another poll waits: each would count the other's messages as done.
        """
        if self.idle_since is None:
            raise ClientError(
                "another task or thread is polling this consumer, and a poll acknowledges what the last one returned: "
                "give each a consumer of its own, in the same group"
            )
        self.idle_since = None
        self.mark_consumed()

    def end_poll(self, now: float) -> None:
        """Note that the caller has its messages and works on them."""
        self.idle_since = now

    def mark_consumed(self) -> None:
        """Note that the caller is done with everything that was handed out."""
        for held in self._handed_out:
            held.mark_consumed()
        self._handed_out.clear()

    def forget(self, held: PollQueue) -> None:
        """Forget a queue that was given up."""
        self._handed_out.pop(held, None)

    def stop(self) -> None:
        """Hand out nothing more and wake a waiting poll."""
        self._ready.clear()
        self.arrival.set()
