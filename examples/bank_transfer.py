"""A bank transfer as a transaction: one bank takes the money, another one adds it, and no crash loses or doubles it.

The first bank's rows and the message commit together. The second bank books each transfer once, by its key. Start a
broker with `pyromq up`, then: python examples/bank_transfer.py [NAMESRV]
"""

from __future__ import annotations

import os
import sqlite3
import sys
import threading

from pyromq import COMMIT, ROLLBACK, Message, MessageExt, TransactionState
from pyromq.blocking import PushConsumer, TransactionProducer

TOPIC = "example-transfers"
booked = threading.Semaphore(0)


class Bank:
    """An account in a database of its own, and the transfers that it has booked."""

    def __init__(self, balance: int) -> None:
        self._database = sqlite3.connect(":memory:", check_same_thread=False)
        self._lock = threading.Lock()
        self._database.execute("CREATE TABLE account (balance INTEGER CHECK (balance >= 0))")
        self._database.execute("CREATE TABLE transfers (id TEXT PRIMARY KEY)")
        self._database.execute("INSERT INTO account VALUES (?)", (balance,))

    def book(self, transfer: str, amount: int) -> bool:
        """Change the balance and remember the transfer, in one transaction; return whether the money was there."""
        with self._lock:
            try:
                with self._database:
                    self._database.execute("INSERT INTO transfers VALUES (?)", (transfer,))
                    self._database.execute("UPDATE account SET balance = balance + ?", (amount,))
            except sqlite3.IntegrityError:  # booked before, or not enough money
                return self._has(transfer)
            return True

    def has(self, transfer: str) -> bool:
        """Return whether a transfer is booked."""
        with self._lock:
            return self._has(transfer)

    def _has(self, transfer: str) -> bool:
        return self._database.execute("SELECT 1 FROM transfers WHERE id = ?", (transfer,)).fetchone() is not None

    @property
    def balance(self) -> int:
        with self._lock:
            return int(self._database.execute("SELECT balance FROM account").fetchone()[0])


here, there = Bank(balance=100), Bank(balance=0)


def take(message: MessageExt) -> TransactionState:
    """Take the money; the message is delivered only if this commits."""
    return COMMIT if here.book(message.keys[0], -int(message.body)) else ROLLBACK


def was_taken(message: MessageExt) -> TransactionState:
    """Answer the broker, which asks if it did not hear how a transfer ended."""
    return COMMIT if here.has(message.keys[0]) else ROLLBACK


def add(message: MessageExt) -> None:
    """Add the money at the other bank; a message that comes again changes nothing."""
    there.book(message.keys[0], int(message.body))
    print("received", message.body.decode(), "by", message.keys[0])
    booked.release()


def main(namesrv: str) -> None:
    with (
        PushConsumer("example-bank-there", namesrv, {TOPIC: "*"}, add, start_from="earliest"),
        TransactionProducer("example-bank-here", namesrv, check=was_taken) as producer,
    ):
        for number, amount in enumerate((30, 200, 50)):  # the second one has no cover
            transfer = Message(topic=TOPIC, body=str(amount).encode(), keys=[f"transfer-{number}"])
            producer.send_in_transaction(transfer, take)
        for _ in range(2):
            booked.acquire(timeout=30)
    print("balances:", here.balance, there.balance)
    assert (here.balance, there.balance) == (20, 80)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876"))
