"""What a listener says about the messages it was given: by returning, by one of the values here, or by raising.

Returning None, or anything that is not named here, acknowledges. `RetryLater`, `DeadLetter` and `Suspend` may be raised
or returned; any other exception is a failure, and what failed comes again.
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
    """The first `first` messages of a batch are done; the others come again."""

    first: int

    def __post_init__(self) -> None:
        if self.first < 0:
            raise ValueError(f"Ack(first=...) counts messages from 0 on, not {self.first}")


class RetryLater(Exception):
    """The message shall come again, after `delay` or when the broker's own rule says."""

    def __init__(self, delay: Delay | None = None, reason: str = "") -> None:
        super().__init__(reason)
        self.delay = None if delay is None else _seconds(delay)


class DeadLetter(Exception):
    """The message is given up at once: it goes to the group's dead letters and does not come again."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)


class Suspend(Exception):
    """The whole queue shall wait for `delay` before the same messages come again; for orderly listeners."""

    def __init__(self, delay: Delay | None = None, reason: str = "") -> None:
        super().__init__(reason)
        self.delay = None if delay is None else _seconds(delay)


class Action(Enum):
    """What becomes of the messages that were not acknowledged."""

    NOTHING = "nothing"
    RETRY = "retry"
    GIVE_UP = "give up"
    ROLL_BACK = "roll back"
    """They come again as if they had never been handed out: this attempt does not count."""


class Verdict(Struct):
    """How a call of the listener ended."""

    acknowledged: int
    """So many of the messages, from the first on, are done."""
    action: Action = Action.NOTHING
    delay: float | None = None
    cause: str = ""
    error: BaseException | None = None


def judge(count: int, outcome: object) -> Verdict:
    """Return what a listener that was given `count` messages means by what it returned or raised."""
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
    """Return an exception and where it was raised, on one line: `ValueError: no such order (shop.py:42 in charge)`."""
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
    # It becomes a property, whose separators are control characters, and it may hold anything a program can raise.
    plain = "".join(character if character.isprintable() else " " for character in text)
    return plain.encode(errors="replace").decode()


def _seconds(delay: Delay) -> float:
    seconds = delay.total_seconds() if isinstance(delay, timedelta) else float(delay)
    if not 0 <= seconds < float("inf"):
        raise ValueError(f"a delay is a time from now on, not {delay!r}")
    return seconds
