"""The demo's shop: orders pass through their states, are paid in transactions, and cancelled if not paid in time.

created ──► paid ──► shipped ──► finished          all in topic `orders`, in order for each
   │          ▲ a transaction: committed, rolled back, or unknown and settled by the broker's check
   └─ a delayed message in `order-timeouts` cancels the order; paying cancels that message
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from datetime import timedelta

from msgspec import Struct

from pyromq.client.listener.outcomes import COMMIT, ROLLBACK
from pyromq.client.send.transaction_producer import TransactionProducer
from pyromq.client.send_result import SendResult
from pyromq.pipelines.demo.departments import Seen, Stock
from pyromq.pipelines.orders import REASONS, STATES
from pyromq.protocol.headers.transactions import TransactionState
from pyromq.protocol.messages.message import Message, MessageExt

RUBBISH = (
    b"an order for 3 lamps, please",
    b'{"state": "created", "cents": 100}',
    b'{"order_id": 1, "state": "dreamt of", "cents": 100}',
    b'{"order_id": 1, "state": "created", "cents": -5}',
)
"""Invalid messages in the topic: one body for each reason why a message is not an order."""
Totals = dict[str, tuple[int, int]]

_WALKS_AT_ONCE = 100


class Fate(Struct, frozen=True):
    """What will happen to an order; the shop does not know it in advance."""

    order: int
    cents: int
    steps: int
    """How many of created, paid, shipped and finished it reaches, unless its payment is refused."""
    payment: TransactionState

    @property
    def is_paid(self) -> bool:
        """Whether the payment succeeds, sooner or later."""
        return self.steps > 1 and self.payment is not ROLLBACK


def fates(count: int, seed: int) -> list[Fate]:
    """Return the fate of each order; every tenth payment is refused, and every fiftieth is first unknown."""
    chance = random.Random(seed)

    def payment(number: int) -> TransactionState:
        if number % 10 == 4:
            return ROLLBACK
        return TransactionState.UNKNOWN if number % 50 == 7 else COMMIT

    return [Fate(n, chance.randrange(100, 50_000), chance.randint(1, 4), payment(n)) for n in range(count)]


class Shop:
    """Takes orders and money; `paid` is its database."""

    def __init__(self, stock: Stock, patience: timedelta) -> None:
        self.paid: set[int] = set()
        self.sent: Seen = set()
        self.timeouts_cancelled: set[int] = set()
        self.timeouts_delivered: set[int] = set()
        self.asked: set[int] = set()
        self.rubbish: Counter[str] = Counter()
        self.repeated = 0
        self.orders: dict[int, Fate] = {}
        self._stock = stock
        self._patience = patience

    def totals(self) -> Totals:
        """Return messages and cents that went in, by state."""
        cents = {state: [self.orders[order].cents for order, sent in self.sent if sent == state] for state in STATES}
        return {state: (len(amounts), sum(amounts)) for state, amounts in cents.items()}

    async def open(self, producer: TransactionProducer, orders: list[Fate]) -> None:
        """Process all orders, some at a time."""
        self.orders = {fate.order: fate for fate in orders}
        doors = asyncio.Semaphore(_WALKS_AT_ONCE)

        async def walk(fate: Fate) -> None:
            async with doors:
                await self._walk(producer, fate)

        await asyncio.gather(*[walk(fate) for fate in orders])

    async def _walk(self, producer: TransactionProducer, fate: Fate) -> None:
        await self._send_state(producer, fate, "created")
        await self._disturb(producer, fate)
        timeout = Message(topic="order-timeouts", body=b"unpaid", keys=[f"o-{fate.order}"])
        later = await producer.send(timeout, delay=self._patience)
        if fate.steps > 1 and await self._pay(producer, fate, later):
            for state in STATES[2 : fate.steps]:
                await self._send_state(producer, fate, state)

    async def _disturb(self, producer: TransactionProducer, fate: Fate) -> None:
        """Send some orders twice, and some messages that are not orders."""
        if fate.order % 25 == 2:
            await producer.send(self._message(fate, "created"), order_key=f"o-{fate.order}")
            self.repeated += 1
        if fate.order % 15 == 5:
            kind = fate.order // 15 % len(REASONS)
            rubbish = Message(topic="orders", body=RUBBISH[kind], tags="created", keys=[f"o-{fate.order}"])
            await producer.send(rubbish, order_key=f"o-{fate.order}")
            self.rubbish[REASONS[kind]] += 1

    async def _pay(self, producer: TransactionProducer, fate: Fate, later: SendResult) -> bool:
        await producer.send_in_transaction(self._message(fate, "paid"), self.pay, order_key=f"o-{fate.order}")
        if fate.order not in self.paid:
            return False
        self.sent.add((fate.order, "paid"))
        if await producer.cancel(later):
            self.timeouts_cancelled.add(fate.order)
        if fate.payment is TransactionState.UNKNOWN:
            await self._stock.saw(fate.order, "paid")  # else later states would overtake it
        return True

    async def pay(self, message: MessageExt) -> TransactionState:
        """Run the local transaction; some outcomes are recorded but lost on the way to the broker."""
        fate = self._fate(message)
        if fate.is_paid:
            self.paid.add(fate.order)
        return fate.payment

    async def was_paid(self, message: MessageExt) -> TransactionState:
        """Answer the broker's check of a transaction."""
        order = self._fate(message).order
        self.asked.add(order)
        return COMMIT if order in self.paid else ROLLBACK

    async def time_is_up(self, producer: TransactionProducer, message: MessageExt) -> None:
        """Cancel an order that is still unpaid; one paid at the last moment continues."""
        fate = self._fate(message)
        self.timeouts_delivered.add(fate.order)
        if fate.order not in self.paid:
            await self._send_state(producer, fate, "cancelled")

    async def _send_state(self, producer: TransactionProducer, fate: Fate, state: str) -> None:
        await producer.send(self._message(fate, state), order_key=f"o-{fate.order}")
        self.sent.add((fate.order, state))

    def _fate(self, message: MessageExt) -> Fate:
        return self.orders[int(message.keys[0].removeprefix("o-"))]

    def _message(self, fate: Fate, state: str) -> Message:
        return Message(
            topic="orders",
            body=json.dumps({"order_id": fate.order, "state": state, "cents": fate.cents}).encode(),
            tags=state,
            keys=[f"o-{fate.order}"],
            properties={"cents": str(fate.cents)},
        )
