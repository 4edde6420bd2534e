"""One day in the demo's shop: opens everything, processes the orders, and compares what went in and came out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from datetime import timedelta

from msgspec import Struct

from pyromq.admin import AdminClient
from pyromq.client.consume.subscriptions import Sql
from pyromq.client.listener.outcomes import ROLLBACK
from pyromq.client.push.push_consumer import PushConsumer
from pyromq.client.send.transaction_producer import TransactionProducer
from pyromq.pipelines.demo.departments import EXPENSIVE, Logistics, Marketing, Stock, fails_once, has_no_address
from pyromq.pipelines.demo.shop import Fate, Shop
from pyromq.protocol.headers.transactions import TransactionState
from pyromq.protocol.messages.message import MessageExt

LOGISTICS_GROUP = "demo-logistics"
REPAIRED = "orders-repaired"
TOPICS = {"orders": 4, "order-timeouts": 4, REPAIRED: 4}
_CLOSING_TIME = 60.0  # seconds in which everything must have come out
_CATCH_UP_TIME = 20.0  # a broker answers a pull that finds nothing after 5 s, and a consumer commits every 5 s
_GLANCE = 0.25


class Claim(Struct, frozen=True):
    """One claim about the day: what should have come out and what did, with amounts of money if there are any."""

    name: str
    expected: int
    seen: int
    cents_expected: int | None = None
    cents_seen: int | None = None

    @property
    def is_true(self) -> bool:
        """Whether expected and seen agree."""
        return (self.expected, self.cents_expected) == (self.seen, self.cents_seen)


class ShopDay:
    """The shop, its departments, and the claims about them."""

    def __init__(self, orders: list[Fate], patience: timedelta) -> None:
        self.stock, self.marketing, self.logistics = Stock(), Marketing(), Logistics()
        self.shop = Shop(self.stock, patience)
        self._orders = orders
        self._dead_letters = 0

    async def run(self, namesrv: str) -> None:
        """Process all orders, resend the dead letters, and wait until everything has come out."""
        async with AsyncExitStack() as stack:
            admin = await stack.enter_async_context(AdminClient(namesrv))
            await _create_topics(admin)
            producer = TransactionProducer("demo-shop", namesrv, check=self.shop.was_paid, trace=True)
            await stack.enter_async_context(producer)
            for consumer in self._consumers(namesrv, producer):
                await stack.enter_async_context(consumer)
            await self.shop.open(producer, self._orders)
            await _until(lambda: self.logistics.given_up == self._shipped_if(has_no_address) and self._is_over())
            if self.logistics.given_up:
                resent = admin.dead_letters.resend_all(LOGISTICS_GROUP, to=REPAIRED)
                self._dead_letters = len([letter async for letter, _ in resent])
            await _until(lambda: all(claim.is_true for claim in self.claims()))
            await _until_caught_up(admin)

    @property
    def resent(self) -> dict[str, int]:
        """The dead letters that were sent again, by group."""
        return {LOGISTICS_GROUP: self._dead_letters}

    def _consumers(self, namesrv: str, producer: TransactionProducer) -> list[PushConsumer]:
        async def time_is_up(message: MessageExt) -> None:
            await self.shop.time_is_up(producer, message)

        expensive = Sql(f"cents > {EXPENSIVE}")
        shipped = {"orders": "shipped", REPAIRED: "*"}
        return [
            PushConsumer("demo-timeouts", namesrv, {"order-timeouts": "*"}, time_is_up, trace=True),
            PushConsumer("demo-stock", namesrv, {"orders": "*"}, self.stock.listen, orderly=True, trace=True),
            PushConsumer("demo-marketing", namesrv, {"orders": expensive}, self.marketing.listen, trace=True),
            PushConsumer(LOGISTICS_GROUP, namesrv, shipped, self.logistics.listen, trace=True),
        ]

    def _is_over(self) -> bool:
        """Return True if every order has reached its end, so that nothing more will be sent."""
        unpaid = sum(not fate.is_paid for fate in self._orders)
        return sum(state == "cancelled" for _, state in self.shop.sent) == unpaid

    def _shipped_if(self, condition: Callable[[int], bool]) -> set[int]:
        return {order for order, state in self.shop.sent if state == "shipped" and condition(order)}

    def claims(self) -> list[Claim]:
        """Return the claims about the day so far."""
        return [*self._delays(), *self._payments(), *self._departments(), *self._failures()]

    def _delays(self) -> list[Claim]:
        unpaid = sum(not fate.is_paid for fate in self._orders)
        cancelled = sum(state == "cancelled" for _, state in self.stock.seen)
        ended = len(self.shop.timeouts_cancelled) + len(self.shop.timeouts_delivered)
        return [
            Claim("unpaid orders, cancelled by a delayed message", unpaid, cancelled),
            Claim("delayed messages, delivered or cancelled by a payment", len(self._orders), ended),
        ]

    def _payments(self) -> list[Claim]:
        paid = {order for order, state in self.stock.seen if state == "paid"}
        tried = [fate for fate in self._orders if fate.steps > 1]
        unknown = {fate.order for fate in tried if fate.payment is TransactionState.UNKNOWN}
        rolled_back = {fate.order for fate in tried if fate.payment is ROLLBACK}
        return [
            Claim("payments committed", len(tried) - len(rolled_back), len(paid)),
            Claim("payments unknown, settled by the broker's check", len(unknown), len(unknown & self.shop.asked)),
            Claim(f"payments seen of {len(rolled_back)} that were rolled back", 0, len(rolled_back & paid)),
        ]

    def _departments(self) -> list[Claim]:
        cents = {fate.order: fate.cents for fate in self._orders}
        expensive = sum(cents[order] > EXPENSIVE for order, _ in self.shop.sent)
        shipped = len(self._shipped_if(lambda order: True))
        return [
            Claim("stock: every state", len(self.shop.sent), len(self.stock.seen)),
            Claim("stock: states out of order", 0, self.stock.out_of_order),
            Claim(f"marketing: cents > {EXPENSIVE:,}", expensive, len(self.marketing.seen)),
            Claim("logistics: shipped", shipped, len(self.logistics.seen)),
        ]

    def _failures(self) -> list[Claim]:
        again, hopeless = len(self._shipped_if(fails_once)), len(self._shipped_if(has_no_address))
        return [
            Claim("logistics: shipped at the second try", again, len(self.logistics.retried)),
            Claim("logistics: dead letters", hopeless, self._dead_letters),
            Claim("logistics: dead letters, shipped when sent again", hopeless, len(self.logistics.resent)),
        ]


async def _create_topics(admin: AdminClient) -> None:
    """Create the topics in advance, so that consumers need not wait for the first message."""
    for address in (await admin.masters()).values():
        for topic, queues in TOPICS.items():
            await admin.api.create_topic(address, topic, queues)


async def _until_caught_up(admin: AdminClient) -> None:
    """Wait until no group is behind: a filtered group passes over messages, and commits that, within seconds."""
    for _ in range(int(_CATCH_UP_TIME / _GLANCE)):
        if not any(group.lag for group in (await admin.groups.list()).groups if not group.is_built_in):
            return
        await asyncio.sleep(_GLANCE)


async def _until(condition: Callable[[], bool]) -> None:
    """Wait for a condition, but not for ever; what is missing then shows in the claims."""
    for _ in range(int(_CLOSING_TIME / 0.05)):
        if condition():
            return
        await asyncio.sleep(0.05)
