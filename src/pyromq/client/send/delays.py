"""The properties that delay a message: by a duration, until a time, or by one of the broker's levels."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from pyromq.errors import InvalidMessage
from pyromq.protocol.messages.message import Message
from pyromq.protocol.messages.properties import (
    DELAY,
    START_DELIVER_TIME,
    TIMER_DELAY_MS,
    TIMER_DELAY_SEC,
    TIMER_DELIVER_MS,
    TIMER_OUT_MS,
)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TIMES = (TIMER_DELAY_SEC, TIMER_DELAY_MS, TIMER_DELIVER_MS, TIMER_OUT_MS, START_DELIVER_TIME)


def delay_properties(delay: timedelta | float | None, at: datetime | None, level: int | None) -> dict[str, str] | None:
    """Return the properties for `delay`, `at` or `level`, None if none is given; raises InvalidMessage.

    A delay that is a number is in seconds. A time without a zone is local, as everywhere in Python.
    """
    if (delay is not None) + (at is not None) + (level is not None) > 1:
        raise InvalidMessage("give only one of delay=, at= and level=")
    if delay is not None:
        return {TIMER_DELAY_MS: str(max(_whole_ms(_duration(delay)), 0))}
    if at is not None:
        if not isinstance(at, datetime):
            raise InvalidMessage(f"at= is a datetime, not {at!r}")
        return {TIMER_DELIVER_MS: str(_whole_ms(at.astimezone(UTC) - _EPOCH))}
    return None if level is None else level_properties(level)


def _duration(delay: object) -> timedelta:
    if isinstance(delay, timedelta):
        return delay
    if isinstance(delay, int | float) and not isinstance(delay, bool) and math.isfinite(delay):
        return timedelta(seconds=delay)
    raise InvalidMessage(f"delay= is a timedelta or a number of seconds, not {delay!r}")


def _whole_ms(time: timedelta) -> int:
    return -(-time // timedelta(milliseconds=1))  # rounded up: never early


def is_timed(properties: Mapping[str, str]) -> bool:
    """Return True if these delay a message other than by a level: only PyroMQ's brokers can do that."""
    return TIMER_DELAY_MS in properties or TIMER_DELIVER_MS in properties


def without_times(message: Message) -> Message:
    """Return a message without delivery times of its own: one that was received and is sent on has them."""
    if not any(name in message.properties for name in _TIMES):
        return message
    kept = {name: value for name, value in message.properties.items() if name not in _TIMES}
    return replace(message, properties=kept)


def level_properties(level: int) -> dict[str, str]:
    """Return the properties for one of the broker's delay levels; the first is 1, and 0 means no delay.

    Brokers take a level above their highest for the highest. Raises InvalidMessage if it cannot be a level.
    """
    if isinstance(level, bool) or not isinstance(level, int) or level < 0:
        raise InvalidMessage(f"a delay level is a number of 1 or more, not {level!r}")
    return {DELAY: str(level)} if level else {}
