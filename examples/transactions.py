"""Pay five orders: each payment is a local transaction and a message, delivered only if the transaction commits.

Start a broker with `pyromq up`, then: python examples/transactions.py [NAMESRV]
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import sys

from pyromq import COMMIT, ROLLBACK, LitePullConsumer, Message, MessageExt, TransactionProducer, TransactionState

TOPIC = "example-payments"
database = sqlite3.connect(":memory:")
database.execute("CREATE TABLE payments (message_id TEXT PRIMARY KEY, state TEXT)")


def decide(message: MessageExt, state: str) -> TransactionState:
    """Record the outcome of a payment unless it is recorded already, and return it."""
    with database:
        database.execute("INSERT OR IGNORE INTO payments VALUES (?, ?)", (message.message_id, state))
    query = "SELECT state FROM payments WHERE message_id = ?"
    (written,) = database.execute(query, (message.message_id,)).fetchone()
    return COMMIT if written == "paid" else ROLLBACK


async def pay(message: MessageExt) -> TransactionState:
    """Run the local transaction; odd orders have no money."""
    return decide(message, "paid" if int(message.keys[0]) % 2 == 0 else "refused")


async def was_paid(message: MessageExt) -> TransactionState:
    """Answer a broker's check; a payment that has not happened by now is rolled back for good."""
    return decide(message, "refused")


async def main(namesrv: str) -> None:
    async with TransactionProducer("example-payers", namesrv, check=was_paid) as producer:
        for number in range(5):
            message = Message(topic=TOPIC, body=b"payment of order %d" % number, keys=[str(number)])
            result = await producer.send_in_transaction(message, pay)
            print("sent", number, result.state.name)
    received = 0
    subscriptions = {TOPIC: "*"}
    async with LitePullConsumer("example-books", namesrv, subscriptions, start_from="earliest") as consumer:
        async for payment in consumer:
            received += 1
            print("received", payment.keys[0], payment.body.decode())
            if received == 3:
                break
        await consumer.commit()


if __name__ == "__main__":
    default = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else default))
