"""The scenario of Apache's own integration test for transactions (TransactionalMsgIT), with our client and broker."""

from __future__ import annotations

import asyncio

from pyromq import COMMIT, ROLLBACK, UNKNOWN, Message, MessageExt, PushConsumer, TransactionProducer, TransactionState
from pyromq.testing import LocalCluster
from tests.client.helpers import Heard

STATES = {"commit": COMMIT, "rollback": ROLLBACK, "unknown": UNKNOWN}
KINDS = [(first, second) for first in STATES for second in STATES]  # the answers of execute and check


def said(message: MessageExt, place: int) -> TransactionState:
    return STATES[message.body.decode().split()[place]]


async def execute(message: MessageExt) -> TransactionState:
    return said(message, 1)


async def check(message: MessageExt) -> TransactionState:
    return said(message, 2)


async def test_exactly_the_committed_ones_are_received() -> None:
    bodies = [f"{number} {' '.join(KINDS[number % len(KINDS)])}".encode() for number in range(120)]
    ends = (b" commit commit", b" commit rollback", b" commit unknown", b" unknown commit")
    committed = sorted(body for body in bodies if body.endswith(ends))
    heard = Heard()
    async with LocalCluster(brokers=2) as cluster:
        clock = cluster.clock
        async with TransactionProducer("payers", cluster.namesrv, check=check, clock=clock) as producer:
            messages = [Message(topic="payments", body=body) for body in bodies]
            await asyncio.gather(*[producer.send_in_transaction(message, execute) for message in messages])
            await clock.advance_async(seconds=61)
            subscriptions = {"payments": "*"}
            async with PushConsumer("books", cluster.namesrv, subscriptions, heard, start_from="earliest", clock=clock):
                assert await heard.wait_for(len(committed)) == committed
                await clock.advance_async(minutes=20)  # all checks are made, and the rest is given up
    assert sorted(heard.bodies) == committed
