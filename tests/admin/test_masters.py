"""All brokers are asked at once, and some do not answer."""

from __future__ import annotations

import asyncio

import pytest

from pyromq.admin import AdminClient
from pyromq.admin.masters import Masters, gather_limited
from pyromq.admin.transactions import HalfMessage
from pyromq.client.send.producer import Producer
from pyromq.errors import BrokerError, ConnectFailed, NoMaster
from pyromq.protocol.messages.message import Message, MessageExt
from pyromq.testing import LocalCluster


async def test_who_cannot_be_reached_is_told_of_and_not_asked_again() -> None:
    asked: list[str] = []
    masters = Masters({"b": "host-b", "a": "host-a", "headless": None})

    async def question(address: str) -> int:
        asked.append(address)
        if address == "host-b":
            raise ConnectFailed("nobody listens")
        return 7

    assert await masters.ask(question) == {"a": 7}
    assert await masters.ask(question) == {"a": 7}
    assert asked == ["host-a", "host-b", "host-a"]
    assert masters.silent == {"headless": "it has no master now", "b": "nobody listens"}


async def test_who_refuses_one_question_is_told_of_and_asked_the_next() -> None:
    masters = Masters({"a": "host-a"})

    async def refused(address: str) -> int:
        raise BrokerError("not for you")

    async def answered(address: str) -> int:
        return 7

    assert await masters.ask(refused) == {}
    assert await masters.ask(answered) == {"a": 7}
    assert masters.silent == {"a": "SYSTEM_ERROR (1): not for you"}


async def test_only_some_are_at_work_at_a_time() -> None:
    running, most = 0, 0

    async def work(number: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return number * 2

    assert await gather_limited(range(10), work, at_a_time=3) == [number * 2 for number in range(10)]
    assert most == 3


async def test_a_broker_whose_master_is_away_is_named_instead_of_an_incomplete_answer() -> None:
    async with LocalCluster(brokers=2, slaves=1) as cluster:
        async with Producer("p", cluster.namesrv, clock=cluster.clock) as producer:
            sent = await producer.send(Message("orders", b"later"), delay=1000)
        gone = next(broker for broker in cluster.brokers if broker.name == sent.queue.broker_name)
        await asyncio.to_thread(cluster.stop_broker, gone)
        words = f"broker {gone.name} has no master now"
        async with AdminClient(cluster.namesrv, clock=cluster.clock) as admin:
            assert gone.name not in await admin.masters()
            with pytest.raises(NoMaster, match=words):
                await admin.timed_messages.count()
            with pytest.raises(NoMaster, match=words):
                await admin.timed_messages.cancel(sent.message_id)
            for listing in (
                admin.timed_messages.pending(),
                admin.transactions.pending(),
                admin.transactions.given_up(),
            ):
                with pytest.raises(NoMaster, match=words):
                    [one async for one in listing]
            half = HalfMessage(MessageExt("orders", b"", broker_name=gone.name), given_up=True)
            with pytest.raises(NoMaster, match=words):
                await admin.transactions.resume(half)
            described = await admin.topics.describe("orders")
            assert described.silent_brokers == {gone.name: "it has no master now"}
