"""Outcomes: what a listener may return or raise, and what that means for its messages.

Returning None, or any value not defined here, acknowledges them. `RetryLater`, `DeadLetter` and `Suspend` may be raised
or returned. Any other exception is a failure: the messages are redelivered.
"""

from __future__ import annotations

from datetime import timedelta
from enum import Enum
from pathlib import Path
from types import TracebackType

from msgspec import Struct

from pyromq.protocol.headers.transactions import TransactionState

COMMIT = TransactionState.COMMIT
ROLLBACK = TransactionState.ROLLBACK
UNKNOWN = TransactionState.UNKNOWN

Delay = timedelta | float
"""A time to wait; a number is in seconds."""

_MAX_CAUSE = 500  # characters: it travels in a header and is kept among the message's properties


class Ack(Struct, frozen=True):
    """The first `first` messages of a batch are acknowledged; the others are redelivered."""

    first: int

    def __post_init__(self) -> None:
        if self.first < 0:
            raise ValueError(f"Ack(first=...) must not be negative: {self.first}")


class RetryLater(Exception):
    """Redeliver the message after `delay`, or after the broker's own delay."""

    def __init__(self, delay: Delay | None = None, reason: str = "") -> None:
        super().__init__(reason)
        self.delay = None if delay is None else _seconds(delay)


class DeadLetter(Exception):
    """Give the message up at once: it goes to the group's dead letters and is not redelivered."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)


class Suspend(Exception):
    """Pause the queue for `delay`, then consume the same messages again; for orderly listeners."""

    def __init__(self, delay: Delay | None = None, reason: str = "") -> None:
        super().__init__(reason)
        self.delay = None if delay is None else _seconds(delay)


class Action(Enum):
    """What becomes of the messages that were not acknowledged."""

    NOTHING = "nothing"
    RETRY = "retry"
    GIVE_UP = "give up"
    ROLL_BACK = "roll back"
    """They are consumed again as if they had never been handed out: this attempt does not count."""


class Verdict(Struct):
    """How a call of the listener ended."""

    acknowledged: int
    """How many of the messages are acknowledged, counted from the first."""
    action: Action = Action.NOTHING
    delay: float | None = None
    cause: str = ""
    error: BaseException | None = None


def judge(count: int, outcome: object) -> Verdict:
    """Return the meaning of what a listener returned or raised for `count` messages."""
    match outcome:
        case Ack(first=first) if first < count:
            return Verdict(first, Action.RETRY, cause=f"the listener acknowledged {first} of {count} messages")
        case RetryLater() | Suspend():
            return Verdict(0, Action.RETRY, outcome.delay, cause_of(outcome), outcome)
        case DeadLetter():
            return Verdict(0, Action.GIVE_UP, cause=cause_of(outcome), error=outcome)
        case BaseException():
            return Verdict(0, Action.RETRY, cause=cause_of(outcome), error=outcome)
    if outcome is ROLLBACK:
        return Verdict(0, Action.ROLL_BACK, cause="the listener rolled back")
    return Verdict(count)


def cause_of(error: BaseException) -> str:
    """Return an exception and its place on one line: `ValueError: no such order (shop.py:42 in charge)`."""
    place = _place(error.__traceback__)
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return _printable(text)[: _MAX_CAUSE - len(place)] + place


def _place(trace: TracebackType | None) -> str:
    if trace is None:  # returned, not raised
        return ""
    while trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code
    return f" ({Path(code.co_filename).name}:{trace.tb_lineno} in {code.co_name})"


def _printable(text: str) -> str:
    # It becomes a property, whose separators are control characters, and a program can raise any text.
    plain = "".join(character if character.isprintable() else " " for character in text)
    return plain.encode(errors="replace").decode()


def _seconds(delay: Delay) -> float:
    seconds = delay.total_seconds() if isinstance(delay, timedelta) else float(delay)
    if not 0 <= seconds < float("inf"):
        raise ValueError(f"a delay must be finite and not negative: {delay!r}")
    return seconds
