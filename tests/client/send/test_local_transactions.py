from __future__ import annotations

import asyncio
import threading

import pytest

from pyromq.client.listener.outcomes import COMMIT
from pyromq.client.send import local_transactions
from pyromq.client.send.local_transactions import LocalTransactions
from pyromq.protocol.headers.transactions import TransactionState
from pyromq.protocol.messages.message import MessageExt
from pyromq.testing import eventually

MESSAGE = MessageExt(topic="T", stored_body=b"pay")


async def test_functions_that_hang_take_a_bounded_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_transactions, "THREADS", 2)
    local = LocalTransactions()
    gate = threading.Event()
    running = 0

    def execute(message: MessageExt) -> TransactionState:
        nonlocal running
        running += 1
        gate.wait(60)
        return COMMIT

    for _ in range(3):
        calls = [asyncio.create_task(local.run(execute, MESSAGE)) for _ in range(2)]
        await eventually(lambda: running == 2)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
    assert running == 2, "the others wait for a thread"
    gate.set()
    assert (await local.run(execute, MESSAGE)).state is COMMIT
    local.close()
