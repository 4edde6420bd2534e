from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

import pytest

from pyromq.client.config import FlowControl
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.client.poll.lite_pull_consumer import LitePullConsumer
from pyromq.client.send.producer import Producer
from pyromq.errors import ClientError, ConnectFailed, LocalProtocolError, NoRoute
from pyromq.protocol.messages.message import Message, MessageExt, MessageQueue
from pyromq.testing import LocalCluster, eventually
from tests.client.helpers import MemoryOffsets, bodies_by_queue, fill, in_queue_order, read, stored_count


def bodies(messages: list[MessageExt]) -> list[bytes]:
    return [message.body for message in messages]


async def test_everything_is_read_in_the_order_of_each_queue(
    cluster: LocalCluster, producer: Producer, topic: str, group: str
) -> None:
    sent = await fill(producer, topic, 1000)
    async with LitePullConsumer(group, cluster.namesrv, {topic: "*"}, start_from="earliest") as consumer:
        messages = await read(consumer, 1000)
        assert await consumer.poll(timeout=0.05) == []
    assert sorted(bodies(messages)) == sorted(sent)
    assert in_queue_order(messages)
    assert len(bodies_by_queue(messages)) == 4


async def test_iterating_gives_one_message_after_the_other(
    cluster: LocalCluster, producer: Producer, topic: str, group: str
) -> None:
    sent = await fill(producer, topic, 100)
    found = []
    async with LitePullConsumer(group, cluster.namesrv, {topic: "*"}, start_from="earliest") as consumer:
        async for message in consumer:
            found.append(message.body)
            if len(found) == 100:
                break
    assert sorted(found) == sorted(sent)


async def test_a_message_sent_while_the_consumer_waits_comes_at_once(
    cluster: LocalCluster, producer: Producer, topic: str, group: str
) -> None:
    await fill(producer, topic, 4)
    async with LitePullConsumer(group, cluster.namesrv, {topic: "*"}, start_from="earliest") as consumer:
        await read(consumer, 4)
        waiting = asyncio.create_task(consumer.poll(timeout=20))
        await eventually(lambda: consumer._session.ready.idle_since is None)
        await producer.send(Message(topic=topic, body=b"now"))
        assert bodies(await asyncio.wait_for(waiting, 5)) == [b"now"]


async def test_poll_returns_no_more_than_asked_for(
    cluster: LocalCluster, producer: Producer, topic: str, group: str
) -> None:
    await fill(producer, topic, 50)
    async with LitePullConsumer(group, cluster.namesrv, {topic: "*"}, start_from="earliest", pull_batch=8) as consumer:
        assert 0 < len(await consumer.poll(max_messages=3)) <= 3
        assert 0 < len(await consumer.poll()) <= 8


# --- where reading starts ---------------------------------------------------------------------------------------------


async def test_latest_starts_at_the_end_where_no_offset_is_known(
    cluster: LocalCluster, producer: Producer, topic: str, group: str
) -> None:
    await fill(producer, topic, 8)
    async with LitePullConsumer(group, cluster.namesrv, {topic: "*"}, offset_store=MemoryOffsets()) as consumer:
        await eventually(lambda: all(consumer.position(queue) == 2 for queue in consumer.assignment))
        await producer.send(Message(topic=topic, body=b"new"))
        assert bodies(await read(consumer, 1)) == [b"new"]


async def test_a_time_starts_at_the_first_message_stored_since(
    cluster: LocalCluster, producer: Producer, topic: str, group: str
) -> None:
    await fill(producer, topic, 40)
    await cluster.clock.advance_async(seconds=1)
    between = datetime.fromtimestamp(cluster.clock.now())
    await cluster.clock.advance_async(seconds=1)
    later = [b"later-%d" % number for number in range(12)]
    for body in later:
        await producer.send(Message(topic=topic, body=body))
    async with LitePullConsumer(
        group, cluster.namesrv, {topic: "*"}, start_from=between, offset_store=MemoryOffsets()
    ) as consumer:
        assert sorted(bodies(await read(consumer, 12))) == sorted(later)
        assert await consumer.poll(timeout=0.05) == []


async def test_the_committed_offset_wins_over_start_from(
    cluster: LocalCluster, producer: Producer, topic: str, group: str
) -> None:
    await fill(producer, topic, 8)
    async with LitePullConsumer(group, cluster.namesrv, {topic: "*"}, start_from="earliest") as consumer:
        await read(consumer, 8)
    await producer.send(Message(topic=topic, body=b"new"))
    async with LitePullConsumer(group, cluster.namesrv, {topic: "*"}, start_from="earliest") as consumer:
        assert bodies(await read(consumer, 1)) == [b"new"]


async def test_a_topic_that_comes_later_is_read_from_its_start(
    cluster: LocalCluster, producer: Producer, topic: str, group: str
) -> None:
    async with LitePullConsumer(group, cluster.namesrv, {topic: "*"}) as consumer:
        assert consumer.assignment == []
        sent = await fill(producer, topic, 8)
        assert sorted(bodies(await read(consumer, 8))) == sorted(sent)


@pytest.mark.parametrize("start_from", ["middle", None, 5])
def test_an_unknown_start_is_refused(start_from: object) -> None:
    with pytest.raises(ClientError, match="start_from must be"):
        LitePullConsumer("g", subscriptions={"t": "*"}, start_from=start_from)  # type: ignore[arg-type]


# --- filters ----------------------------------------------------------------------------------------------------------


async def test_only_the_tags_asked_for_are_handed_out(
    cluster: LocalCluster, producer: Producer, topic: str, group: str
) -> None:
    await fill(producer, topic, 90, tags=["created", "paid", "shipped"])
    async with LitePullConsumer(group, cluster.namesrv, {topic: "created || paid"}, start_from="earliest") as consumer:
        messages = await read(consumer, 60)
        assert await consumer.poll(timeout=0.05) == []
    assert {message.tags for message in messages} == {"created", "paid"}


async def test_tags_with_the_same_hash_are_told_apart(
    cluster: LocalCluster, producer: Producer, topic: str, group: str
) -> None:
    await fill(producer, topic, 20, tags=["Aa", "BB"])  # one hash in Java
    async with LitePullConsumer(group, cluster.namesrv, {topic: "BB"}, start_from="earliest") as consumer:
        assert {message.tags for message in await read(consumer, 10)} == {"BB"}
        assert await consumer.poll(timeout=0.05) == []


async def test_the_offset_moves_past_messages_that_nobody_wants(
    cluster: LocalCluster, producer: Producer, topic: str, group: str
) -> None:
    await fill(producer, topic, 40, tags=["other"])
    async with LitePullConsumer(group, cluster.namesrv, {topic: "wanted"}, start_from="earliest") as consumer:
        await eventually(lambda: all(consumer.position(queue) == 10 for queue in consumer.assignment))
        await consumer.commit()
        assert [await consumer.committed(queue) for queue in consumer.assignment] == [10] * 4


def test_an_illegal_subscription_is_refused_at_once() -> None:
    with pytest.raises(LocalProtocolError, match="topic"):
        LitePullConsumer("g", subscriptions={"no spaces": "*"})
    with pytest.raises(LocalProtocolError, match="no tag"):
        LitePullConsumer("g", subscriptions={"t": "||"})
    with pytest.raises(ClientError, match="expected tags such as"):
        LitePullConsumer("g", subscriptions={"t": 5})  # type: ignore[dict-item]


# --- commits ----------------------------------------------------------------------------------------------------------


async def test_commit_covers_what_was_handed_out_and_no_more(
    cluster: LocalCluster, producer: Producer, topic: str, group: str
) -> None:
    await fill(producer, topic, 100)
    first = LitePullConsumer(group, cluster.namesrv, {topic: "*"}, start_from="earliest", auto_commit=False)
    async with first as consumer:
        before = await read(consumer, 37)
        await consumer.commit()
        after = await read(consumer, 20)
    second = LitePullConsumer(group, cluster.namesrv, {topic: "*"}, auto_commit=False)
    async with second as consumer:
        again = await read(consumer, 63)
        assert await consumer.poll(timeout=0.05) == []
    assert set(bodies(after)) <= set(bodies(again))
    assert not set(bodies(before)) & set(bodies(again))


async def test_iterating_commits_one_message_at_a_time(
    cluster: LocalCluster, producer: Producer, topic: str, group: str
) -> None:
    queue = (await producer.queues(topic))[0]
    for number in range(10):
        await producer.send(Message(topic=topic, body=b"%d" % number), queue=queue)
    first = LitePullConsumer(group, cluster.namesrv, {topic: "*"}, start_from="earliest", auto_commit=False)
    async with first as consumer:
        async for message in consumer:
            if message.body == b"3":
                await consumer.commit()
            if message.body == b"6":
                break
        assert await consumer.committed(queue) == 4


async def test_auto_commit_happens_by_itself(cluster: LocalCluster, producer: Producer, topic: str, group: str) -> None:
    await fill(producer, topic, 8)
    async with LitePullConsumer(
        group, cluster.namesrv, {topic: "*"}, start_from="earliest", auto_commit_interval=0.05
    ) as consumer:
        await read(consumer, 8)
        await consumer.poll(timeout=0)  # coming back says that the eight are done

        async def committed() -> bool:
            return sum([await consumer.committed(queue) or 0 for queue in consumer.assignment]) == 8

        await eventually(committed)


async def test_what_was_being_handled_when_it_failed_comes_again(
    cluster: LocalCluster, producer: Producer, topic: str, group: str
) -> None:
    await fill(producer, topic, 20)
    handled: list[bytes] = []

    async def fail_at_the_eighth() -> None:
        async with LitePullConsumer(group, cluster.namesrv, {topic: "*"}, start_from="earliest") as consumer:
            async for message in consumer:
                if len(handled) == 7:
                    raise ZeroDivisionError
                handled.append(message.body)

    with pytest.raises(ZeroDivisionError):
        await fail_at_the_eighth()
    async with LitePullConsumer(group, cluster.namesrv, {topic: "*"}) as consumer:
        again = bodies(await read(consumer, 13))
        assert await consumer.poll(timeout=0.05) == []
    assert not set(handled) & set(again)


async def test_a_clean_end_commits_the_last_message_too(
    cluster: LocalCluster, producer: Producer, topic: str, group: str
) -> None:
    await fill(producer, topic, 4)
    async with LitePullConsumer(group, cluster.namesrv, {topic: "*"}, start_from="earliest") as consumer:
        await read(consumer, 4)
    async with LitePullConsumer(group, cluster.namesrv, {topic: "*"}) as consumer:
        assert await consumer.poll(timeout=0.1) == []
        assert sum([await consumer.committed(queue) or 0 for queue in consumer.assignment]) == 4


# --- queues by hand ---------------------------------------------------------------------------------------------------


async def test_assigned_queues_are_read_without_joining_the_group(
    cluster: LocalCluster, producer: Producer, topic: str, group: str
) -> None:
    await fill(producer, topic, 40)
    async with (
        LitePullConsumer(group, cluster.namesrv, {topic: "*"}, start_from="earliest") as member,
        LitePullConsumer(group, cluster.namesrv, start_from="earliest") as reader,
    ):
        queues = await reader.queues(topic)
        await reader.assign(queues[:2])
        assert len(await read(reader, 20)) == 20
        assert await reader.poll(timeout=0.05) == []
        assert reader.assignment == queues[:2]
        assert member.assignment == queues
        await reader.assign(queues[3:])
        assert len(await read(reader, 10)) == 10


async def test_assigned_queues_can_be_filtered(
    cluster: LocalCluster, producer: Producer, topic: str, group: str
) -> None:
    await fill(producer, topic, 40, tags=["a", "b"])
    async with LitePullConsumer(group, cluster.namesrv, start_from="earliest") as consumer:
        await consumer.assign(await consumer.queues(topic), tags="b")
        assert {message.tags for message in await read(consumer, 20)} == {"b"}


async def test_assigning_and_subscribing_exclude_each_other(
    cluster: LocalCluster, producer: Producer, topic: str, group: str
) -> None:
    await fill(producer, topic, 1)
    async with LitePullConsumer(group, cluster.namesrv, {topic: "*"}) as consumer:
        with pytest.raises(ClientError, match="not possible with subscriptions"):
            await consumer.assign(consumer.assignment)


async def test_the_queues_of_an_unknown_topic_are_no_route(cluster: LocalCluster, topic: str, group: str) -> None:
    async with LitePullConsumer(group, cluster.namesrv) as consumer:
        with pytest.raises(NoRoute, match=f"'{topic}'"):
            await consumer.queues(topic)


async def test_seeking_goes_to_an_offset_an_end_or_a_time(
    cluster: LocalCluster, producer: Producer, topic: str, group: str
) -> None:
    queue = (await producer.queues(topic))[0]
    for number in range(10):
        if number == 5:
            await cluster.clock.advance_async(seconds=1)
            middle = datetime.fromtimestamp(cluster.clock.now())
            await cluster.clock.advance_async(seconds=1)
        await producer.send(Message(topic=topic, body=b"%d" % number), queue=queue)
    async with LitePullConsumer(group, cluster.namesrv, start_from="earliest") as consumer:
        await consumer.assign([queue])
        assert bodies(await read(consumer, 10)) == [b"%d" % number for number in range(10)]
        await consumer.seek(queue, 8)
        assert bodies(await read(consumer, 2)) == [b"8", b"9"]
        await consumer.seek_to_time(queue, middle)
        assert bodies(await read(consumer, 5)) == [b"5", b"6", b"7", b"8", b"9"]
        await consumer.seek_to_time(queue, middle + timedelta(days=1))
        assert await consumer.poll(timeout=0.05) == []
        await consumer.seek_to_begin(queue)
        assert bodies(await consumer.poll(max_messages=1)) == [b"0"]
        await consumer.seek_to_end(queue)
        assert await consumer.poll(timeout=0.05) == []
        await producer.send(Message(topic=topic, body=b"new"), queue=queue)
        assert bodies(await read(consumer, 1)) == [b"new"]
        with pytest.raises(ClientError, match="from 0 to 11, not 12"):
            await consumer.seek(queue, 12)
        with pytest.raises(ClientError, match="not assigned"):
            await consumer.seek(queue._replace(queue_id=3), 0)


async def test_a_commit_after_seeking_back_is_obeyed(
    cluster: LocalCluster, producer: Producer, topic: str, group: str
) -> None:
    queue = (await producer.queues(topic))[0]
    for _ in range(10):
        await producer.send(Message(topic=topic, body=b"x"), queue=queue)
    async with LitePullConsumer(group, cluster.namesrv, start_from="earliest") as consumer:
        await consumer.assign([queue])
        await read(consumer, 10)
        await consumer.commit()
        await consumer.seek(queue, 3)
        await consumer.commit()
        assert await consumer.committed(queue) == 3


async def test_a_paused_queue_hands_out_nothing_until_it_is_resumed(
    cluster: LocalCluster, producer: Producer, topic: str, group: str
) -> None:
    await fill(producer, topic, 40)
    async with LitePullConsumer(group, cluster.namesrv, {topic: "*"}, start_from="earliest") as consumer:
        paused = consumer.assignment[0]
        await consumer.poll(max_messages=1)
        await eventually(lambda: all(consumer.position(queue) is not None for queue in consumer.assignment))
        consumer.pause(paused)
        others = [message for message in await read(consumer, 29) if message.queue != paused]
        assert len(others) >= 29
        consumer.resume(paused)
        await read(consumer, 10)


async def test_no_more_is_held_than_flow_control_allows(
    cluster: LocalCluster, producer: Producer, topic: str, group: str
) -> None:
    sent = await fill(producer, topic, 2000)
    flow = FlowControl(messages=50)
    async with LitePullConsumer(
        group, cluster.namesrv, {topic: "*"}, start_from="earliest", flow_control=flow, clock=cluster.clock
    ) as consumer:
        held = list(consumer._session.assignment)
        await eventually(lambda: all(len(queue) >= 50 for queue in held))
        await cluster.clock.advance_async(seconds=1)
        assert all(len(queue) < 50 + 32 for queue in held)
        assert sorted(bodies(await read(consumer, 2000))) == sorted(sent)


async def test_bytes_count_for_flow_control_too(
    cluster: LocalCluster, producer: Producer, topic: str, group: str
) -> None:
    queue = (await producer.queues(topic))[0]
    for _ in range(40):
        await producer.send(Message(topic=topic, body=b"x" * 3000), queue=queue)
    async with LitePullConsumer(
        group,
        cluster.namesrv,
        start_from="earliest",
        pull_batch=1,
        flow_control=FlowControl(size=10_000),
        clock=cluster.clock,
    ) as consumer:
        await consumer.assign([queue])
        (held,) = consumer._session.assignment
        await eventually(lambda: held.size >= 10_000)
        await cluster.clock.advance_async(seconds=1)
        assert held.size < 10_000 + 2 * 3200
        await read(consumer, 40)


# --- life -------------------------------------------------------------------------------------------------------------


async def test_a_namespace_is_on_the_wire_only(cluster: LocalCluster, topic: str, group: str) -> None:
    async with (
        Producer("p", cluster.namesrv, namespace="N1") as producer,
        LitePullConsumer(group, cluster.namesrv, {topic: "*"}, start_from="earliest", namespace="N1") as subscribed,
        LitePullConsumer(group, cluster.namesrv, namespace="N1", auto_commit=False) as assigned,
    ):
        await fill(producer, topic, 8)
        messages = await read(subscribed, 8)
        assert {message.topic for message in messages} == {queue.topic for queue in subscribed.assignment} == {topic}
        await subscribed.commit()
        queues = await assigned.queues(topic)
        assert sum([await assigned.committed(queue) or 0 for queue in queues]) == 8
        await assigned.assign(queues)
        for queue in queues:
            await eventually(lambda queue=queue: assigned.position(queue) is not None)  # type: ignore[misc]
            await assigned.seek_to_begin(queue)
        assert len(await read(assigned, 8)) == 8
    async with await BrokerApi.connect(cluster.namesrv) as api:
        assert await stored_count(api, f"N1%{topic}") == 8


async def test_an_unreachable_name_server_is_said_at_the_start(topic: str, group: str) -> None:
    with pytest.raises(ConnectFailed, match="no name server answers"):
        async with LitePullConsumer(group, "127.0.0.1:1", {topic: "*"}):
            pass


async def test_iteration_ends_when_the_consumer_is_closed(
    cluster: LocalCluster, producer: Producer, topic: str, group: str
) -> None:
    await fill(producer, topic, 1)
    consumer = LitePullConsumer(group, cluster.namesrv, {topic: "*"}, start_from="earliest")
    await consumer.start()

    async def iterate() -> int:
        return len([message async for message in consumer])

    iterating = asyncio.create_task(iterate())
    await eventually(lambda: any(consumer.position(queue) for queue in consumer.assignment))
    await consumer.close()
    assert await asyncio.wait_for(iterating, 5) == 1
    with pytest.raises(ClientError, match="not open"):
        await consumer.poll()


class UnsteadyOffsets(MemoryOffsets):
    """An offset store whose first call fails, in a way that its author did not expect."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.errors = [error]

    async def load(self, queue: MessageQueue) -> int | None:
        if self.errors:
            raise self.errors.pop()
        return await super().load(queue)


@pytest.mark.parametrize("error", [asyncio.CancelledError(), ConnectionError("away")])
async def test_a_queue_is_read_although_the_first_look_at_its_offset_failed(
    cluster: LocalCluster, producer: Producer, topic: str, group: str, error: BaseException
) -> None:
    sent = await fill(producer, topic, 8)
    async with LitePullConsumer(
        group, cluster.namesrv, {topic: "*"}, start_from="earliest", offset_store=UnsteadyOffsets(error)
    ) as consumer:
        assert sorted(bodies(await read(consumer, 8))) == sorted(sent)
