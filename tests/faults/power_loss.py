"""What a power cut of all brokers may take with ASYNC_FLUSH: the window that they print at their start, and no more.

The rules of `history.py` know no such loss. So what lies in the window and is gone is taken out of the history first:
the answer to a send, the delivery of a message whose place holds another one now, a commit, a cancellation. What was
acknowledged before the window and is gone is still lost; what two brokers have differently is still found.
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
            if isinstance(event, Finished) and event.result != "acknowledged" and self._covers(event.at)
        }

    def kept(self) -> list[AnyEvent]:
        return [kept for event in self._history if (kept := self._look(event)) is not None]

    def _look(self, event: AnyEvent) -> AnyEvent | None:
        if isinstance(event, Answered) and event.value in self._failed:
            return None
        if not self._covers(event.at):
            return event
        match event:
            case Answered() | Delivered():
                return None if self._is_gone(event.value, event.queue, event.offset) else event
            case Committed():
                return None
            case Recalled():
                return replace(event, is_sure=False)
        return event

    def _covers(self, at: float) -> bool:
        return any(cut.at - cut.window <= at <= cut.at + STILL_ANSWERED for cut in self._cuts)

    def _is_gone(self, value: str, queue: MessageQueue | None, offset: int) -> bool:
        if queue is None:  # it waits first
            return (self._sent_to.get(value, ""), value) not in self._topics
        return (queue, offset, value) not in self._places
