"""PyroMQBroker against a real cluster: what a FastStream service does with it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
from faststream import AckPolicy, FastStream
from faststream.exceptions import IncorrectState, NackMessage, RejectMessage, StopConsume
from faststream.specification import AsyncAPI
from pydantic import BaseModel

from pyromq.client.send_result import SendStatus
from pyromq.faststream import PyroMQBroker, PyroMQMessage, PyroMQResponse, PyroMQRoute, PyroMQRouter
from pyromq.faststream.router import PyroMQPublisher
from pyromq.testing import LocalCluster, eventually


class Order(BaseModel):
    id: str
    cents: int = 0


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster() as running:
        yield running


@pytest.fixture
async def broker(cluster: LocalCluster) -> AsyncIterator[PyroMQBroker]:
    made = PyroMQBroker(cluster.namesrv, logger=None, producer={"send_timeout": 30})
    yield made
    await made.stop()


async def test_a_typed_message_goes_through(broker: PyroMQBroker, pyromq_topic: str) -> None:
    got: list[tuple[Order, tuple[str, ...], str]] = []

    @broker.subscriber(pyromq_topic, "billing", tags="created", start_from="earliest")
    async def bill(order: Order, message: PyroMQMessage) -> None:
        got.append((order, message.raw_message.keys, message.headers["region"]))

    await broker.start()
    sent = await broker.publish(Order(id="o-0"), pyromq_topic, tags="paid")
    assert sent.status is SendStatus.SEND_OK
    await broker.publish(
        Order(id="o-1", cents=5), pyromq_topic, tags="created", keys="o-1", headers={"region": "north"}
    )
    await eventually(lambda: got == [(Order(id="o-1", cents=5), ("o-1",), "north")])


async def test_what_a_handler_returns_is_published_with_the_router_s_prefix(
    broker: PyroMQBroker, cluster: LocalCluster, pyromq_topic: str
) -> None:
    router = PyroMQRouter(prefix=f"{pyromq_topic}-")

    @router.subscriber("orders", "charging", start_from="earliest")
    @router.publisher("paid", tags="usual", headers={"from": "charge"})
    async def charge(order: Order) -> object:
        return PyroMQResponse({"id": order.id}, keys=order.id) if order.cents else order.id

    broker.include_router(router)
    await broker.start()
    await broker.publish_batch(Order(id="o-1", cents=1), Order(id="o-2"), topic=f"{pyromq_topic}-orders")
    found = await cluster.expect(f"{pyromq_topic}-paid", count=2, tags="usual")
    assert {(message.body, message.keys, message.properties["from"]) for message in found} == {
        (b'{"id":"o-1"}', ("o-1",), "charge"),
        (b"o-2", (), "charge"),
    }


async def test_a_route_without_a_decorator(broker: PyroMQBroker, cluster: LocalCluster, pyromq_topic: str) -> None:
    async def double(number: int) -> int:
        return 2 * number

    publishers = [PyroMQPublisher(f"{pyromq_topic}-doubled")]
    route = PyroMQRoute(double, pyromq_topic, "doubling", publishers=publishers, start_from="earliest")
    broker.include_router(PyroMQRouter(handlers=[route]))
    await broker.start()
    await broker.publish(21, pyromq_topic)
    (found,) = await cluster.expect(f"{pyromq_topic}-doubled")
    assert found.body == b"42"


async def test_a_request_gets_what_the_handler_returns(broker: PyroMQBroker, pyromq_topic: str) -> None:
    @broker.subscriber(pyromq_topic, "quotes", start_from="earliest")
    async def quote(article: str) -> dict[str, str]:
        return {"price of": article}

    await broker.start()
    reply = await broker.request("a lamp", pyromq_topic, timeout=30)
    assert reply.body == b'{"price of":"a lamp"}'


class TestOutcomes:
    """What becomes of a message, by the way in which its handler ends."""

    @pytest.fixture
    def seen(self) -> list[int]:
        return []

    async def run(self, broker: PyroMQBroker, topic: str, seen: list[int], count: int) -> None:
        await broker.start()
        await broker.publish("x", topic)
        await eventually(lambda: len(seen) == count)

    async def test_an_exception_has_it_redelivered(
        self, broker: PyroMQBroker, cluster: LocalCluster, pyromq_topic: str, seen: list[int]
    ) -> None:
        @broker.subscriber(pyromq_topic, "failing", start_from="earliest", max_reconsume=0)
        async def fail(text: str) -> None:
            seen.append(1)
            raise ValueError("out of order")

        await self.run(broker, pyromq_topic, seen, 1)
        (letter,) = await cluster.expect("%DLQ%failing", where=lambda found: found.body == b"x")
        assert "out of order" in letter.properties["PYROMQ_CAUSE"]

    async def test_nack_with_a_delay(self, broker: PyroMQBroker, pyromq_topic: str, seen: list[int]) -> None:
        @broker.subscriber(pyromq_topic, "nacking", start_from="earliest")
        async def nack(text: str) -> None:
            seen.append(1)
            if len(seen) == 1:
                raise NackMessage(delay=0.1)

        await self.run(broker, pyromq_topic, seen, 2)

    async def test_reject_makes_a_dead_letter(
        self, broker: PyroMQBroker, cluster: LocalCluster, pyromq_topic: str, seen: list[int]
    ) -> None:
        @broker.subscriber(pyromq_topic, "rejecting", start_from="earliest")
        async def reject(text: str) -> None:
            seen.append(1)
            raise RejectMessage(reason="too ugly")

        await self.run(broker, pyromq_topic, seen, 1)
        (letter,) = await cluster.expect("%DLQ%rejecting")
        assert "too ugly" in letter.properties["PYROMQ_CAUSE"]

    async def test_by_hand_and_with_errors_that_acknowledge(
        self, broker: PyroMQBroker, pyromq_topic: str, seen: list[int]
    ) -> None:
        @broker.subscriber(pyromq_topic, "manual", start_from="earliest", ack_policy=AckPolicy.MANUAL)
        async def manual(text: str, message: PyroMQMessage) -> None:
            seen.append(1)
            if len(seen) == 1:
                await message.nack(delay=0.1)
            else:
                await message.ack()

        @broker.subscriber(pyromq_topic, "careless", start_from="earliest", ack_policy=AckPolicy.ACK)
        async def careless(text: str) -> None:
            raise ValueError("nobody cares")

        await self.run(broker, pyromq_topic, seen, 2)

    async def test_stop_consume_leaves_the_group(
        self, broker: PyroMQBroker, pyromq_topic: str, seen: list[int]
    ) -> None:
        @broker.subscriber(pyromq_topic, "stopping", start_from="earliest")
        async def stop(text: str) -> None:
            seen.append(1)
            raise StopConsume

        await self.run(broker, pyromq_topic, seen, 1)
        (subscriber,) = broker.subscribers
        await eventually(lambda: not subscriber.running)


async def test_a_subscriber_without_a_handler_is_asked_for_messages(broker: PyroMQBroker, pyromq_topic: str) -> None:
    await broker.connect()
    await broker.publish(Order(id="o-1"), pyromq_topic)
    subscriber = broker.subscriber(pyromq_topic, "asking", start_from="earliest")
    await subscriber.start()
    received = await subscriber.get_one(timeout=30)
    assert received is not None
    assert await received.decode() == {"id": "o-1", "cents": 0}
    await broker.publish(Order(id="o-2"), pyromq_topic)
    async for message in subscriber:
        assert await message.decode() == {"id": "o-2", "cents": 0}
        break


async def test_ping_and_a_broker_that_is_not_connected(broker: PyroMQBroker) -> None:
    assert not await broker.ping(1)
    with pytest.raises(IncorrectState, match="the broker is not connected"):
        await broker.publish("x", "orders")
    await broker.connect()
    assert await broker.ping(1)


async def test_an_application_finishes_what_is_in_hand(cluster: LocalCluster, pyromq_topic: str) -> None:
    broker = PyroMQBroker(cluster.namesrv, logger=None)
    app = FastStream(broker, logger=None)
    done: list[str] = []

    @broker.subscriber(pyromq_topic, "slow", start_from="earliest")
    async def slow(text: str) -> None:
        app.exit()
        await asyncio.sleep(0.1)
        done.append(text)

    @app.after_startup
    async def send() -> None:
        await broker.publish("x", pyromq_topic)

    await asyncio.wait_for(app.run(), 60)
    assert done == ["x"]


def test_the_asyncapi_document_names_topics_and_payloads() -> None:
    broker = PyroMQBroker("127.0.0.1:9876;127.0.0.1:9877")

    @broker.subscriber("orders", "billing", title="Orders", description="what customers want")
    @broker.publisher("paid")
    async def bill(order: Order) -> Order:
        return order

    document = AsyncAPI(broker, title="shop").to_specification().to_jsonable()
    assert {server["protocol"] for server in document["servers"].values()} == {"rocketmq"}
    assert {channel["address"] for channel in document["channels"].values()} == {"orders", "paid"}
    assert "Order" in document["components"]["schemas"]
