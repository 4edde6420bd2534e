"""TestPyroMQBroker: handlers without a network."""

from __future__ import annotations

import pytest
from faststream.exceptions import SubscriberNotFound

from pyromq.faststream import PyroMQBroker, PyroMQMessage, TestPyroMQBroker


@pytest.fixture
def broker() -> PyroMQBroker:
    return PyroMQBroker("127.0.0.1:1")  # nobody is there


async def test_handlers_are_called_and_what_they_publish_is_recorded(broker: PyroMQBroker) -> None:
    publisher = broker.publisher("paid")

    @broker.subscriber("orders", "billing", tags="created || changed")
    @publisher
    async def bill(order: dict[str, str]) -> str:
        return order["id"]

    async with TestPyroMQBroker(broker) as test:
        await test.publish({"id": "o-1"}, "orders", tags="created")
        await test.publish({"id": "o-2"}, "orders", tags="deleted")
        bill.mock.assert_called_once_with({"id": "o-1"})
        publisher.mock.assert_called_once_with("o-1")


async def test_each_group_gets_a_message_once_and_sql_chooses(broker: PyroMQBroker) -> None:
    got: list[str] = []

    @broker.subscriber("orders", "one")
    async def first(text: str) -> None:
        got.append("first")

    @broker.subscriber("orders", "one")
    async def second(text: str) -> None:
        got.append("second")

    @broker.subscriber("orders", "two", sql="region = 'north'")
    async def north(text: str, message: PyroMQMessage) -> None:
        got.append(message.headers["region"])

    async with TestPyroMQBroker(broker) as test:
        await test.publish_batch("x", "y", topic="orders")
        assert len(got) == 2
        await test.publish("z", "orders", headers={"region": "north"})
        assert len(got) == 4
        assert "north" in got


async def test_requests_and_errors(broker: PyroMQBroker) -> None:
    @broker.subscriber("quotes", "prices")
    async def quote(article: str) -> str:
        if article == "air":
            raise ValueError("not for sale")
        return f"42 for {article}"

    async with TestPyroMQBroker(broker) as test:
        reply = await test.request("a lamp", "quotes")
        assert await reply.decode() == "42 for a lamp"
        with pytest.raises(ValueError, match="not for sale"):
            await test.publish("air", "quotes")
        with pytest.raises(SubscriberNotFound):
            await test.request("x", "nobody")
