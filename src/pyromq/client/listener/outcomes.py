"""Outcomes: what a listener may return or raise, and what that means for its messages.

Returning None, or any value not defined here, acknowledges them. `RetryLater`, `DeadLetter` and `Suspend` may be raised
or returned. Any other exception is a failure: the messages are redelivered.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from datetime import timedelta
from enum import Enum
from pathlib import Path
from types import TracebackType

from msgspec import Struct

from pyromq.client.background import error_text, log_failure
from pyromq.protocol.headers.transactions import TransactionState

logger = logging.getLogger(__name__)

COMMIT = TransactionState.COMMIT
ROLLBACK = TransactionState.ROLLBACK
UNKNOWN = TransactionState.UNKNOWN

Delay = timedelta | float
"""A time to wait; a number is in seconds."""

_MAX_CAUSE = 500  # characters: it travels in a header and is kept among the message's properties


class Ack(Struct, frozen=True):
    """The first `first` messages of a batch are acknowledged; the others are redelivered.

    In an orderly queue the next one counts as failed, and those behind it as not tried yet.
    """

    first: int

    def __post_init__(self) -> None:
        if not isinstance(self.first, int):
            raise TypeError(f"Ack(first=...) must be a whole number: {self.first!r}")
        if self.first < 0:
            raise ValueError(f"Ack(first=...) must not be negative: {self.first}")


class RetryLater(Exception):
    """Redeliver the message after `delay`, or after the broker's own delay."""

    delay: float | None = None

    def __init__(self, delay: Delay | None = None, reason: str = "") -> None:
        super().__init__(reason)
        self.delay = None if delay is None else _seconds(delay)


class DeadLetter(Exception):
    """Give the message up at once: it goes to the group's dead letters and is not redelivered."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)


class Suspend(Exception):
    """Pause the queue for `delay`, then consume the same messages again; for orderly listeners."""

    delay: float | None = None

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
    tried: int = 0
    """How many of the others count as tried, counted from the first of them."""
    delay: float | None = None
    cause: str = ""
    error: BaseException | None = None


def judge(count: int, outcome: object) -> Verdict:
    """Return the meaning of what a listener returned or raised for `count` messages; never raises."""
    try:
        return _judge(count, outcome)
    except Exception as error:  # what users return and raise may do anything when it is looked at
        log_failure(
            logger, logging.ERROR, "the outcome of a listener cannot be read: it counts as a failure", error=error
        )
        return _failure(count, outcome)


def _judge(count: int, outcome: object) -> Verdict:
    match outcome:
        case Ack(first=first) if first < count:
            return Verdict(first, Action.RETRY, 1, cause=f"the listener acknowledged {first} of {count} messages")
        case RetryLater() | Suspend():
            delay = None if outcome.delay is None else _seconds(outcome.delay)
            return Verdict(0, Action.RETRY, count, delay, cause_of(outcome), outcome)
        case DeadLetter():
            return Verdict(0, Action.GIVE_UP, count, cause=cause_of(outcome), error=outcome)
        case BaseException():
            return _failure(count, outcome)
    if outcome is ROLLBACK:
        return Verdict(0, Action.ROLL_BACK, cause="the listener rolled back")
    if _never_ran(outcome):
        kind = type(outcome).__name__
        return _failure(count, TypeError(f"the listener returned a {kind}, which nobody runs: was `await` forgotten?"))
    return Verdict(count)


def _failure(count: int, outcome: object) -> Verdict:
    if isinstance(outcome, BaseException):
        return Verdict(0, Action.RETRY, count, cause=cause_of(outcome), error=outcome)
    return Verdict(0, Action.RETRY, count, cause=f"the listener returned a {type(outcome).__name__}")


def _never_ran(outcome: object) -> bool:
    """Return True for what does its work only when somebody iterates over it or awaits it."""
    if inspect.iscoroutine(outcome):
        outcome.close()  # or Python warns about it as well
        return True
    return inspect.isgenerator(outcome) or inspect.isasyncgen(outcome)


def cause_of(error: BaseException) -> str:
    """Return an exception and its place on one line: `ValueError: no such order (shop.py:42 in charge)`."""
    text = error_text(error)
    if isinstance(error, asyncio.CancelledError):
        text = text or "what the listener waited for was cancelled"
    place = _printable(_place(error.__traceback__))[:_MAX_CAUSE]
    name = type(error).__name__
    return _printable(f"{name}: {text}" if text else name)[: _MAX_CAUSE - len(place)] + place


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
