"""Where a message is stored that its topic's consumers may not see yet: half of a transaction, or delayed.

Each of them changes the record in place: topic, queue and properties; the answer to the sender still names the queue
that was asked for. Whatever puts a message into the store on somebody's behalf asks here first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from pyromq.protocol.messages.properties import (
    DELAY,
    START_DELIVER_TIME,
    TIMER_DELAY_MS,
    TIMER_DELAY_SEC,
    TIMER_DELIVER_MS,
    TIMER_OUT_MS,
    TRANSACTION_PREPARED,
)
from pyromq.protocol.messages.record import Record

Defer = Callable[[Record, dict[str, str]], None]
"""Changes a record, given its properties taken apart; raises BrokerError to refuse it."""

TIMER_PROPERTIES = (TIMER_DELAY_SEC, TIMER_DELAY_MS, TIMER_DELIVER_MS, START_DELIVER_TIME)
"""RocketMQ 5's properties of a delivery at any time, and that of other 4.x clients."""


class DelayedMessages(NamedTuple):
    """Where messages wait for their time: at one of the broker's levels, or with the timer."""

    by_level: Defer
    by_time: Defer

    def place(self, record: Record, properties: dict[str, str]) -> None:
        """Make a delayed record wait; leave any other alone."""
        if has_level(properties):  # as in RocketMQ 5, a level wins over a time
            self.by_level(record, properties)
        elif is_timed(properties):
            self.by_time(record, properties)


class DeferredMessages(NamedTuple):
    """Sends each record that is not for consumers yet to whom it concerns."""

    prepare: Defer
    delayed: DelayedMessages

    def place(self, record: Record, properties: dict[str, str]) -> None:
        """Change a record that is not for consumers yet; leave any other alone."""
        # A consumer's retry is a copy with all properties of a message that was committed long ago.
        if is_prepared(properties) and not (record.reconsume_times > 0 and has_level(properties)):
            self.prepare(record, properties)
        else:
            self.delayed.place(record, properties)


def is_prepared(properties: Mapping[str, str]) -> bool:
    """Return True if a message is the first half of a transaction."""
    return properties.get(TRANSACTION_PREPARED, "").lower() == "true"


def has_level(properties: Mapping[str, str]) -> bool:
    """Return True if a message is delayed by one of the broker's levels."""
    return bool(properties.get(DELAY, "0").lstrip("+0"))


def is_timed(properties: Mapping[str, str]) -> bool:
    """Return True if a message names its own delay or time of delivery; one that has waited already does so no more."""
    return TIMER_OUT_MS not in properties and any(name in properties for name in TIMER_PROPERTIES)
