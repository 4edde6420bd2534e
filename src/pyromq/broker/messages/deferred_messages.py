"""Where a message is stored that its topic's consumers may not see yet: half of a transaction, or delayed.

Each of them changes the record in place: topic, queue and properties; the answer to the sender still names the queue
that was asked for. Whatever puts a message into the store on somebody's behalf asks here first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyromq.errors import MessageIllegal, NoPermission
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


class DeferredMessages:
    """Sends each record to whom it concerns."""

    def __init__(self) -> None:
        self.prepare: Defer = _refuse_transactions
        self.delay: Defer = _refuse_delays
        self.time: Defer = _refuse_delays

    def place(self, record: Record, properties: dict[str, str]) -> None:
        """Change a record that is not for consumers yet; leave any other alone."""
        # A consumer's retry is a copy with all properties of a message that was committed long ago.
        if is_prepared(properties) and not (record.reconsume_times > 0 and has_level(properties)):
            self.prepare(record, properties)
        elif has_level(properties):  # as in RocketMQ 5, a level wins over a time
            self.delay(record, properties)
        elif is_timed(properties):
            self.time(record, properties)


def may_be_special(properties: str) -> bool:
    """Tell, with few searches, whether a text of properties may be one that place() would act on."""
    return "DEL" in properties or "TRAN_MSG" in properties  # perhaps DELAY, TIMER_DELAY_SEC, __STARTDELIVERTIME …


def is_prepared(properties: Mapping[str, str]) -> bool:
    """Tell whether a message is the first half of a transaction."""
    return properties.get(TRANSACTION_PREPARED, "").lower() == "true"


def has_level(properties: Mapping[str, str]) -> bool:
    """Tell whether a message is delayed by one of the broker's levels."""
    return bool(properties.get(DELAY, "0").lstrip("+0"))


def is_timed(properties: Mapping[str, str]) -> bool:
    """Tell whether a message names its own delay or time of delivery; one that has waited already does so no more."""
    return TIMER_OUT_MS not in properties and any(name in properties for name in TIMER_PROPERTIES)


def _refuse_transactions(record: Record, properties: dict[str, str]) -> None:
    raise NoPermission("transactional messages are not supported yet by this broker")


def _refuse_delays(record: Record, properties: dict[str, str]) -> None:
    raise MessageIllegal("delayed messages are not supported yet by this broker")
