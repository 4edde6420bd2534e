"""The demo's departments: three groups that consume the same topic, each in its own way."""

from __future__ import annotations

import asyncio
import json

from pyromq.client.listener.outcomes import DeadLetter, RetryLater
from pyromq.pipelines.orders import STATES
from pyromq.protocol.messages.message import MessageExt
from pyromq.protocol.messages.properties import RESENDS

EXPENSIVE = 25_000
_RETRY_AFTER = 1.0
_IN_ORDER = ("created", "paid", "shipped", "finished")
Seen = set[tuple[int, str]]
"""Orders and states; a set, because a message may arrive more than once."""


def order_and_state(message: MessageExt) -> tuple[int, str] | None:
    """Return order and state of a message, None if it is invalid: departments ignore it, Spark rejects it."""
    try:
        order = json.loads(message.body)
        return (order["order_id"], order["state"]) if order["state"] in STATES and order["cents"] >= 0 else None
    except (ValueError, KeyError):
        return None


class Stock:
    """Consumes everything in order: an orderly group."""

    def __init__(self) -> None:
        self.seen: Seen = set()
        self.out_of_order = 0
        self._waiting: dict[tuple[int, str], asyncio.Event] = {}

    async def listen(self, message: MessageExt) -> None:
        """Record a state."""
        seen = order_and_state(message)
        if seen is not None:
            self._record(seen)

    def _record(self, seen: tuple[int, str]) -> None:
        order, state = seen
        if state in _IN_ORDER[1:] and (order, _IN_ORDER[_IN_ORDER.index(state) - 1]) not in self.seen:
            self.out_of_order += 1
        self.seen.add(seen)
        if seen in self._waiting:
            self._waiting.pop(seen).set()

    async def saw(self, order: int, state: str) -> None:
        """Wait until an order has reached a state."""
        if (order, state) not in self.seen:
            await self._waiting.setdefault((order, state), asyncio.Event()).wait()


class Marketing:
    """Consumes expensive orders: a group with a SQL filter, which the broker applies."""

    def __init__(self) -> None:
        self.seen: Seen = set()

    async def listen(self, message: MessageExt) -> None:
        """Record an order."""
        seen = order_and_state(message)
        if seen is not None:
            self.seen.add(seen)


def fails_once(order: int) -> bool:
    """Return True if an order is shipped only at the second attempt."""
    return order % 10 == 1


def has_no_address(order: int) -> bool:
    """Return True if an order cannot be shipped until someone repairs it."""
    return order % 20 == 3


class Logistics:
    """Ships orders; some succeed only at the second attempt, and some lack an address until they are repaired."""

    def __init__(self) -> None:
        self.seen: Seen = set()
        self.retried: set[int] = set()
        self.given_up: set[int] = set()
        self.resent: set[int] = set()

    async def listen(self, message: MessageExt) -> None:
        """Ship an order."""
        seen = order_and_state(message)
        if seen is None:
            return
        order = seen[0]
        if RESENDS in message.properties:
            self.resent.add(order)
        elif has_no_address(order):
            self.given_up.add(order)
            raise DeadLetter(f"order {order} has no address")
        elif fails_once(order) and message.reconsume_times == 0:
            self.retried.add(order)
            raise RetryLater(_RETRY_AFTER, "the van is full")
        self.seen.add(seen)
