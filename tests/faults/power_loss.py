"""What a power cut of all brokers may take with ASYNC_FLUSH: the window that they print at their start, and no more.

The rules of `history.py` know no such loss. So what lies in the window and is gone is taken out of the history first:
the answer to a send, the delivery of a message whose place holds another one now, a commit, a cancellation. What was
acknowledged before the window and is gone is still lost; what two brokers have differently is still found.

A queue that lost its end gives the same offsets again. A consumer that had seen the messages of before goes on behind
them, and never sees those that have their places now (docs/ha.md says so): these are taken out too.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from pyromq.protocol.messages.message import MessageQueue
from tests.faults.journal import (
    Answered,
    AnyEvent,
    Attempted,
    Committed,
    Delivered,
    Finished,
    PowerFailed,
    Recalled,
    Stored,
)

_IN_MEMORY = 60.0  # seconds: a consumer may wait that long for the lock of its queue, with messages in its hands
SENT_BACK = 0.5  # seconds: a message that failed is sent back a moment later
STILL_ANSWERED = 1.0  # seconds: brokers answer until they are killed, and clients read that a moment later


def without_window(events: Iterable[AnyEvent]) -> list[AnyEvent]:
    """Return a history without what the power cuts in it were allowed to take."""
    history = list(events)
    cuts = [event for event in history if isinstance(event, PowerFailed)]
    return _Window(history, cuts).kept() if cuts else history


class _Window:
    def __init__(self, history: list[AnyEvent], cuts: list[PowerFailed]) -> None:
        self._history = history
        self._cuts = cuts
        stored = [event for event in history if isinstance(event, Stored)]
        self._places = {(event.queue, event.offset, event.value) for event in stored}
        self._topics = {(event.queue.topic, event.value) for event in stored}
        self._sent_to = {event.value: event.topic for event in history if isinstance(event, Attempted)}
        # A message that failed goes on as a copy in the retry topic, or as a dead letter: that may be what is gone.
        self._failed = {
            event.value
            for event in history
            if isinstance(event, Finished)
            and event.result != "acknowledged"
            and (self._covers(event.at) or self._covers(event.at + SENT_BACK))
        }

        self._before = {
            event.value for event in history if isinstance(event, Attempted) and self._is_before_a_cut(event.at)
        }
        reused = {
            (event.queue, event.offset)
            for event in history
            if isinstance(event, Answered | Delivered) and event.queue is not None and self._is_taken(event)
        }
        self._passed_over = {value for queue, offset, value in self._places if (queue, offset) in reused}

    def kept(self) -> list[AnyEvent]:
        return [kept for event in self._history if (kept := self._look(event)) is not None]

    def _look(self, event: AnyEvent) -> AnyEvent | None:
        match event:
            case Answered() | Delivered() if event.value in self._passed_over:
                return None
            case Answered() if event.value in self._failed:
                return None
            case Answered() | Delivered():
                return None if self._is_taken(event) else event
            case Committed():
                return None if self._covers(event.at) else event
            case Recalled() if self._covers(event.at):
                return replace(event, is_sure=False)
        return event

    def _is_taken(self, event: Answered | Delivered) -> bool:
        """Return True if a cut took what was answered, or what was delivered, also later from a consumer's memory."""
        is_in_time = self._covers(event.at) or (isinstance(event, Delivered) and self._was_pulled_before(event))
        return is_in_time and self._is_gone(event.value, event.queue, event.offset)

    def _was_pulled_before(self, event: Delivered) -> bool:
        return event.value in self._before and event.at <= max(cut.at for cut in self._cuts) + _IN_MEMORY

    def _is_before_a_cut(self, at: float) -> bool:
        return any(cut.at - cut.window <= at <= cut.at for cut in self._cuts)

    def _covers(self, at: float) -> bool:
        return any(cut.at - cut.window <= at <= cut.at + STILL_ANSWERED for cut in self._cuts)

    def _is_gone(self, value: str, queue: MessageQueue | None, offset: int) -> bool:
        if queue is None:  # it waits first
            return (self._sent_to.get(value, ""), value) not in self._topics
        return (queue, offset, value) not in self._places
