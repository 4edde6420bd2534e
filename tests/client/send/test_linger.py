"""Sends that linger travel together, and each still has its own result."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from pyromq.client.hooks import SendContext, SendHook
from pyromq.client.poll.lite_pull_consumer import LitePullConsumer
from pyromq.client.send.producer import Producer
from pyromq.client.send_result import SendStatus
from pyromq.errors import BrokerError, InvalidMessage, PyroMQError
from pyromq.protocol.messages.message import Message
from pyromq.testing import LocalCluster
from tests.client.helpers import read


class Requests(SendHook):
    """Counts the messages of each request."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def before(self, context: SendContext) -> None:
        self.sizes.append(context.message_id.count(",") + 1)


async def test_messages_sent_together_travel_together(cluster: LocalCluster, topic: str, group: str) -> None:
    requests = Requests()
    bodies = [b"%d" % number for number in range(500)]
    async with Producer("p", cluster.namesrv, linger=0.02, hooks=[requests]) as producer:
        sends = [producer.send(Message(topic=topic, body=body, tags="t", keys=["k"])) for body in bodies]
        results = await asyncio.gather(*sends)
    assert len(requests.sizes) < 20
    assert sum(requests.sizes) == 500
    assert all(result.status is SendStatus.SEND_OK for result in results)
    places = {(result.queue, result.queue_offset): result for result in results}
    assert len(places) == len({result.message_id for result in results}) == 500
    async with LitePullConsumer(group, cluster.namesrv, {topic: "t"}, start_from="earliest") as consumer:
        for message in await read(consumer, 500):
            result = places[message.queue, message.queue_offset]
            assert message.message_id == result.message_id
            assert message.offset_message_id == result.offset_message_id
            assert message.body == bodies[results.index(result)]
            assert message.keys == ("k",)


async def test_messages_with_a_key_stay_in_their_queue_and_order(cluster: LocalCluster, topic: str, group: str) -> None:
    requests = Requests()
    async with Producer("p", cluster.namesrv, linger=0.02, hooks=[requests]) as producer:
        sends = [
            producer.send(Message(topic=topic, body=b"%d" % number), order_key=f"key-{number % 5}")
            for number in range(100)
        ]
        results = await asyncio.gather(*sends)
        plain = [await producer.queues(topic)]
    assert len(requests.sizes) <= len(plain[0])
    async with LitePullConsumer(group, cluster.namesrv, {topic: "*"}, start_from="earliest") as consumer:
        messages = await read(consumer, 100)
    for key in range(5):
        mine = [int(message.body) for message in messages if message.properties["__SHARDINGKEY"] == f"key-{key}"]
        assert mine == list(range(key, 100, 5))
    assert len({result.queue for result in results[::5]}) == 1


async def test_what_does_not_fit_together_goes_apart(cluster: LocalCluster, topic: str) -> None:
    requests = Requests()
    async with Producer("p", cluster.namesrv, linger=0.02, hooks=[requests], max_in_flight=5000) as producer:
        await asyncio.gather(
            *[producer.send(Message(topic=topic, body=b"x" * 4000)) for _ in range(100)],  # 400 kB: two batches
            producer.send(Message(topic=topic, body=b"y" * 5000)),  # compressed, so alone
            producer.send(Message(topic=topic, body=b"z"), timeout=3.0),  # with a time of its own
            producer.send(Message(topic=f"{topic}-b", body=b"x")),
            producer.send(Message(topic=topic, body=b"x", wait=False)),
        )
    assert Counter(size == 1 for size in requests.sizes) == {True: 4, False: 2}
    many = Requests()
    async with Producer("p", cluster.namesrv, linger=5.0, hooks=[many], max_in_flight=5000) as producer:
        await asyncio.gather(*[producer.send(Message(topic=topic, body=b"x")) for _ in range(2000)])
    assert many.sizes == [1000, 1000], "a thousand do not wait for more"


async def test_all_that_travelled_together_fail_together(topic: str) -> None:
    async with LocalCluster() as cluster, Producer("p", cluster.namesrv, linger=0.01, retries=0) as producer:
        await producer.send(Message(topic=topic, body=b"x"))
        server = cluster.brokers[0].server
        assert server is not None
        server.handlers[320] = refuse
        sends = [producer.send(Message(topic=topic, body=b"x")) for _ in range(10)]
        outcomes = await asyncio.gather(*sends, return_exceptions=True)
        assert all(isinstance(outcome, BrokerError) for outcome in outcomes)
        with pytest.raises(InvalidMessage, match="empty"):
            await producer.send(Message(topic=topic, body=b""))


def refuse(command: object, connection: object) -> None:
    raise BrokerError("not today")


async def test_closing_sends_what_waits(cluster: LocalCluster, topic: str) -> None:
    producer = Producer("p", cluster.namesrv, linger=60.0)
    await producer.start()
    sends = [asyncio.create_task(producer.send(Message(topic=topic, body=b"x"))) for _ in range(3)]
    await asyncio.sleep(0.01)
    await producer.close()
    assert all(result.status is SendStatus.SEND_OK for result in await asyncio.gather(*sends))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"tags": "created"},
        {"tags": 'größe "%d" \\', "keys": ["o-1", "o-2"]},
        {"keys": ["größe"], "wait": False},
        {"properties": {"a": "b"}, "tags": "t"},
        {"flag": 7},
    ],
)
@pytest.mark.parametrize("namespace", [None, "shop"])
async def test_the_first_and_the_next_message_of_a_kind_have_the_same_properties(
    cluster: LocalCluster, topic: str, group: str, options: dict[str, Any], namespace: str | None
) -> None:
    async with Producer("p", cluster.namesrv, linger=0.001, namespace=namespace) as producer:
        message = Message(topic=topic, body=b"x", **options)
        results = [await producer.send(message) for _ in range(3)]
    subscriptions = {topic: "*"}
    async with LitePullConsumer(
        group, cluster.namesrv, subscriptions, start_from="earliest", namespace=namespace
    ) as consumer:
        found = {message.message_id: message for message in await read(consumer, 3)}
    assert found.keys() == {result.message_id for result in results}
    shown = [
        ({**found[result.message_id].properties, "UNIQ_KEY": ""}, found[result.message_id].flag) for result in results
    ]
    assert shown[0] == shown[1] == shown[2]
    assert shown[0][1] == options.get("flag", 0)


async def test_whoever_waits_for_room_does_not_wait_for_the_time_to_pass(cluster: LocalCluster, topic: str) -> None:
    async with Producer("p", cluster.namesrv, linger=3600.0, max_in_flight=3) as producer:
        sends = [asyncio.create_task(producer.send(Message(topic=topic, body=b"x"))) for _ in range(7)]
        await asyncio.gather(*sends[:6])  # the seventh may wait alone
        await producer.close()
        assert (await sends[6]).status is SendStatus.SEND_OK


async def test_what_nobody_can_join_any_more_is_sent_at_once(cluster: LocalCluster, topic: str) -> None:
    async with Producer("p", cluster.namesrv, linger=3600.0, max_in_flight=3) as producer:
        for _ in range(2):  # the first message takes the general way
            results = await asyncio.gather(*[producer.send(Message(topic=topic, body=b"x")) for _ in range(3)])
            assert {result.status for result in results} == {SendStatus.SEND_OK}


async def test_a_wrong_message_and_a_cancelled_one_leave_no_trace_in_what_is_in_flight(
    cluster: LocalCluster, topic: str
) -> None:
    async with Producer("p", cluster.namesrv, linger=0.001, max_in_flight=1) as producer:
        for wrong in (Message(topic=topic, body=b""), Message(topic=topic, body=b"x", flag=1 << 40)):
            with pytest.raises(PyroMQError):
                await producer.send(wrong)
        leaving = asyncio.create_task(producer.send(Message(topic=topic, body=b"x")))
        await asyncio.sleep(0)
        leaving.cancel()
        assert (await producer.send(Message(topic=topic, body=b"x"))).status is SendStatus.SEND_OK
        assert producer._in_flight.try_enter(1)
        producer._in_flight.leave(1)


@pytest.mark.parametrize(
    "wrong",
    [{"body": b""}, {"keys": ["a b"]}, {"keys": [""]}, {"flag": 1 << 40}, {"properties": {"TAGS": "x"}}],
    ids=str,
)
async def test_a_wrong_message_of_a_known_kind_is_refused_as_the_first_would_be(
    cluster: LocalCluster, topic: str, wrong: dict[str, Any]
) -> None:
    refusals = []
    for known in (False, True):
        async with Producer("p", cluster.namesrv, linger=0.001) as producer:
            if known:
                await producer.send(Message(topic=topic, body=b"plain", tags="t"))
            with pytest.raises(PyroMQError) as caught:
                await producer.send(Message(**({"topic": topic, "body": b"x", "tags": "t"} | wrong)))
            assert (await producer.send(Message(topic=topic, body=b"next", tags="t"))).status is SendStatus.SEND_OK
        refusals.append((type(caught.value), str(caught.value)))
    assert refusals[0] == refusals[1]


@pytest.mark.parametrize("most", [1, 2, 7, 8, 9, 100])
async def test_no_more_than_allowed_are_in_flight_and_all_places_come_back(
    cluster: LocalCluster, topic: str, most: int
) -> None:
    async with Producer("p", cluster.namesrv, linger=0.001, max_in_flight=most) as producer:
        window, highest = producer._in_flight, 0

        async def send(number: int) -> None:
            nonlocal highest
            pending = await producer.send_soon(Message(topic=f"{topic}-{number % 3}", body=b"x" * (1 + number % 500)))
            highest = max(highest, window.count)
            assert (await pending).status is SendStatus.SEND_OK

        await asyncio.gather(*[send(number) for number in range(300)])
        await producer.flush()
        assert highest <= most
        assert (window.count, window._size) == (0, 0)


@pytest.mark.parametrize("small", [1, 2, 3, 10])
@pytest.mark.parametrize("most", [2, 3, 9, 20])
async def test_places_that_a_batch_has_reserved_hold_nobody_up(
    cluster: LocalCluster, topic: str, most: int, small: int
) -> None:
    async with Producer("p", cluster.namesrv, linger=3600.0, max_in_flight=most) as producer:
        gathered = [
            asyncio.create_task(producer.send(Message(topic=topic, body=b"x"))) for _ in range(min(small, most - 1))
        ]
        alone = [producer.send(Message(topic=topic, body=b"x"), timeout=3.0) for _ in range(3 * most)]
        results = await asyncio.wait_for(asyncio.gather(*alone), 10.0)
        assert {result.status for result in results} == {SendStatus.SEND_OK}
        await producer.flush()
        assert {result.status for result in await asyncio.gather(*gathered)} == {SendStatus.SEND_OK}
