"""A PushConsumer against a real broker: what the listener gets, what is committed, how it starts and stops."""

from __future__ import annotations

import asyncio
import logging
import threading
from contextlib import suppress
from datetime import datetime
from typing import Any

import pytest

from pyromq.client.hooks import ConsumeContext, ConsumeHook
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.client.push.push_consumer import PushConsumer
from pyromq.client.send.producer import Producer
from pyromq.errors import ClientError, ConnectFailed
from pyromq.protocol.messages.message import Message, MessageExt
from pyromq.testing import LocalCluster, eventually
from tests.client.helpers import Heard, MemoryOffsets, committed, fill, stored_count


async def test_the_listener_gets_every_message_once(
    cluster: LocalCluster, producer: Producer, topic: str, group: str
) -> None:
    sent = await fill(producer, topic, 1000)
    heard = Heard()
    async with PushConsumer(group, cluster.namesrv, {topic: "*"}, heard, start_from="earliest"):
        assert await heard.wait_for(1000) == sorted(sent)
    async with PushConsumer(group, cluster.namesrv, {topic: "*"}, heard):
        await producer.send(Message(topic=topic, body=b"new"))
        assert await heard.wait_for(1001) == sorted([*sent, b"new"])


async def test_messages_sent_while_it_runs_come_at_once(
    cluster: LocalCluster, producer: Producer, topic: str, group: str
) -> None:
    heard = Heard()
    async with PushConsumer(group, cluster.namesrv, {topic: "*"}, heard):
        sent = await fill(producer, topic, 100)  # this creates the topic
        assert await heard.wait_for(100) == sorted(sent)
        message = heard.messages[0]
        assert (message.topic, message.broker_name) == (topic, "broker-a")


async def test_plain_listeners_run_on_threads(
    cluster: LocalCluster, producer: Producer, topic: str, group: str
) -> None:
    sent = await fill(producer, topic, 100)
    found: list[bytes] = []
    names: set[str] = set()

    def listen(message: MessageExt) -> None:
        names.add(threading.current_thread().name)
        found.append(message.body)

    async with PushConsumer(group, cluster.namesrv, {topic: "*"}, listen, start_from="earliest"):
        await eventually(lambda: len(found) == 100)
    assert sorted(found) == sorted(sent)
    assert all(name.startswith("pyromq listener") for name in names)


async def test_a_listener_for_lists_gets_batches(
    cluster: LocalCluster, producer: Producer, topic: str, group: str
) -> None:
    await fill(producer, topic, 100)
    sizes: list[int] = []

    async def listen(messages: list[MessageExt]) -> None:
        assert len({message.queue for message in messages}) == 1
        sizes.append(len(messages))

    async with PushConsumer(group, cluster.namesrv, {topic: "*"}, listen, start_from="earliest", batch_size=10):
        await eventually(lambda: sum(sizes) == 100)
    assert max(sizes) == 10


@pytest.mark.parametrize("concurrency", [1, 3])
async def test_no_more_listeners_run_at_once_than_asked_for(
    cluster: LocalCluster, producer: Producer, topic: str, group: str, concurrency: int
) -> None:
    await fill(producer, topic, 40)
    running, most, seen = 0, 0, 0

    async def listen(message: MessageExt) -> None:
        nonlocal running, most, seen
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.002)
        running -= 1
        seen += 1

    consumer = PushConsumer(
        group, cluster.namesrv, {topic: "*"}, listen, start_from="earliest", concurrency=concurrency
    )
    async with consumer:
        await eventually(lambda: seen == 40)
    assert most == concurrency


async def test_only_the_tags_asked_for_come(cluster: LocalCluster, producer: Producer, topic: str, group: str) -> None:
    await fill(producer, topic, 90, tags=["created", "paid", "shipped"])
    heard = Heard()
    wanted = {topic: "created || paid"}
    async with PushConsumer(group, cluster.namesrv, wanted, heard, start_from="earliest", clock=cluster.clock):
        await heard.wait_for(60)
        await cluster.clock.advance_async(seconds=1)
    assert len(heard.messages) == 60
    assert {message.tags for message in heard.messages} == {"created", "paid"}


async def test_a_topic_can_be_subscribed_to_and_left_while_it_runs(
    cluster: LocalCluster, producer: Producer, topic: str, group: str
) -> None:
    other = f"{topic}-other"
    await fill(producer, topic, 4)
    await fill(producer, other, 4)
    heard = Heard()
    async with PushConsumer(group, cluster.namesrv, {topic: "*"}, heard, start_from="earliest") as consumer:
        await heard.wait_for(4)
        await consumer.subscribe(other)
        await heard.wait_for(8)
        assert len(consumer.assignment) == 8
        await consumer.unsubscribe(topic)
        assert {queue.topic for queue in consumer.assignment} == {other}
        await fill(producer, topic, 4)
        await fill(producer, other, 4)
        await heard.wait_for(12)
    assert [message.topic for message in heard.messages].count(topic) == 4


async def test_a_new_filter_reaches_the_broker_after_the_machines_clock_was_set_back(
    cluster: LocalCluster, producer: Producer, topic: str, group: str
) -> None:
    await fill(producer, topic, 4, tags=["created", "paid"])
    heard = Heard()
    async with PushConsumer(
        group, cluster.namesrv, {topic: "created"}, heard, start_from="earliest", clock=cluster.clock
    ) as consumer:
        await heard.wait_for(2)
        cluster.clock.set_wall_clock(minutes=-10)
        await consumer.subscribe(topic, "paid")
        server = cluster.brokers[0].server
        assert server is not None
        assert server.clients.consumers[group].subscriptions[topic].data.sub_string == "paid"


# --- where it starts --------------------------------------------------------------------------------------------------


async def test_latest_skips_what_was_there_and_a_time_finds_its_place(
    cluster: LocalCluster, producer: Producer, topic: str, group: str
) -> None:
    await fill(producer, topic, 8)
    await cluster.clock.advance_async(seconds=1)
    between = datetime.fromtimestamp(cluster.clock.now())
    await cluster.clock.advance_async(seconds=1)
    await producer.send(Message(topic=topic, body=b"later"))
    late, timed = Heard(), Heard()
    async with (
        PushConsumer(group, cluster.namesrv, {topic: "*"}, late, offset_store=MemoryOffsets()) as latest,
        PushConsumer(
            f"{group}-t", cluster.namesrv, {topic: "*"}, timed, start_from=between, offset_store=MemoryOffsets()
        ),
    ):
        assert await timed.wait_for(1) == [b"later"]
        held = list(latest._session.assignment)
        await eventually(lambda: all(queue.pull_offset is not None for queue in held))
        await producer.send(Message(topic=topic, body=b"new"))
        assert await late.wait_for(1) == [b"new"]
        assert await timed.wait_for(2) == [b"later", b"new"]


# --- commits ----------------------------------------------------------------------------------------------------------


async def test_progress_is_committed_every_five_seconds_and_on_demand(topic: str, group: str) -> None:
    async with (
        LocalCluster() as cluster,
        Producer("p", cluster.namesrv, clock=cluster.clock) as producer,
        await BrokerApi.connect(cluster.namesrv) as api,
    ):
        address = cluster.brokers[0].address
        await fill(producer, topic, 8)
        heard = Heard()
        consumer = PushConsumer(group, cluster.namesrv, {topic: "*"}, heard, start_from="earliest", clock=cluster.clock)
        async with consumer:
            await heard.wait_for(8)
            await cluster.clock.advance_async(seconds=6)
            await eventually(lambda: committed_is(api, address, group, topic, 8))
            await fill(producer, topic, 4)
            await heard.wait_for(12)
            await consumer.commit()
            assert sum(await committed(api, address, group, topic)) == 12


async def committed_is(api: BrokerApi, address: str, group: str, topic: str, count: int) -> bool:
    return sum(await committed(api, address, group, topic)) == count


async def test_a_message_in_hand_holds_the_commit_back(
    cluster: LocalCluster, producer: Producer, topic: str, group: str
) -> None:
    queue = (await producer.queues(topic))[0]
    for number in range(10):
        await producer.send(Message(topic=topic, body=b"%d" % number), queue=queue)
    gate = asyncio.Event()
    done: list[bytes] = []

    async def listen(message: MessageExt) -> None:
        if message.body == b"4":
            await gate.wait()
        done.append(message.body)

    async with (
        PushConsumer(group, cluster.namesrv, {topic: "*"}, listen, start_from="earliest") as consumer,
        await BrokerApi.connect(cluster.namesrv) as api,
    ):
        await eventually(lambda: len(done) == 9)
        await consumer.commit()
        assert (await committed(api, cluster.brokers[0].address, group, topic))[queue.queue_id] == 4
        gate.set()
        await eventually(lambda: len(done) == 10)
        await consumer.commit()
        assert (await committed(api, cluster.brokers[0].address, group, topic))[queue.queue_id] == 10


async def test_closing_finishes_what_is_in_hand_and_commits_it(
    cluster: LocalCluster, producer: Producer, topic: str, group: str
) -> None:
    sent = await fill(producer, topic, 400)
    finished: list[bytes] = []

    async def slow(message: MessageExt) -> None:
        await asyncio.sleep(0.01)
        finished.append(message.body)

    for _ in range(4):  # each stay ends in the middle of the work
        async with PushConsumer(group, cluster.namesrv, {topic: "*"}, slow, start_from="earliest"):
            before = len(finished)
            await eventually(lambda seen=before: len(finished) > seen + 30)  # type: ignore[misc]
    rest = Heard()
    async with PushConsumer(group, cluster.namesrv, {topic: "*"}, rest, clock=cluster.clock):
        await eventually(lambda: len(rest.messages) + len(finished) >= 400)
        await cluster.clock.advance_async(seconds=1)
    assert sorted([*finished, *rest.bodies]) == sorted(sent), "nothing is lost, and nothing comes twice"


async def test_a_listener_that_does_not_end_is_cancelled_at_the_end_and_its_message_comes_again(
    topic: str, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with LocalCluster() as cluster, Producer("p", cluster.namesrv) as producer:
        await fill(producer, topic, 1)
        cancelled = asyncio.Event()
        begun = asyncio.Event()

        async def hang(message: MessageExt) -> None:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.set()

        clock = cluster.clock
        consumer = PushConsumer(group, cluster.namesrv, {topic: "*"}, hang, start_from="earliest", clock=clock)
        await consumer.start()
        await begun.wait()
        closing = asyncio.create_task(consumer.close())
        await clock.advance_async(seconds=31)
        await closing
        assert cancelled.is_set()
        assert "cancelled: their messages are redelivered" in caplog.text
        heard = Heard()
        async with PushConsumer(group, cluster.namesrv, {topic: "*"}, heard):
            await heard.wait_for(1)


@pytest.mark.parametrize("orderly", [False, True])
async def test_a_listener_that_does_not_even_end_when_cancelled_is_left_behind(
    topic: str, group: str, caplog: pytest.LogCaptureFixture, orderly: bool
) -> None:
    async with LocalCluster() as cluster, Producer("p", cluster.namesrv) as producer:
        await fill(producer, topic, 1)
        begun, end = asyncio.Event(), asyncio.Event()

        async def hang(message: MessageExt) -> None:
            begun.set()
            while not end.is_set():
                with suppress(asyncio.CancelledError):
                    await end.wait()

        clock = cluster.clock
        options: dict[str, Any] = {"start_from": "earliest", "orderly": orderly, "clock": clock}
        consumer = PushConsumer(group, cluster.namesrv, {topic: "*"}, hang, **options)
        await consumer.start()
        await begun.wait()
        closing = asyncio.create_task(consumer.close())
        await clock.advance_async(seconds=31)
        await clock.advance_async(seconds=6)
        await closing
        end.set()
        assert "1 listeners are still running although they were cancelled: left behind" in caplog.text
        heard = Heard()
        async with PushConsumer(group, cluster.namesrv, {topic: "*"}, heard):
            await heard.wait_for(1)


async def test_an_offset_store_of_ones_own_is_used(
    cluster: LocalCluster, producer: Producer, topic: str, group: str
) -> None:
    await fill(producer, topic, 8)
    offsets = MemoryOffsets()
    heard = Heard()
    async with PushConsumer(group, cluster.namesrv, {topic: "*"}, heard, start_from="earliest", offset_store=offsets):
        await heard.wait_for(8)
    assert sum(offset for queue, offset in offsets.offsets.items() if queue.topic == topic) == 8
    async with await BrokerApi.connect(cluster.namesrv) as api:
        assert sum(await committed(api, cluster.brokers[0].address, group, topic)) == 0


# --- how fast ---------------------------------------------------------------------------------------------------------


# --- hooks ------------------------------------------------------------------------------------------------------------


class Watcher(ConsumeHook):
    def __init__(self) -> None:
        self.seen: list[tuple[str, str, bytes]] = []

    def accept(self, message: MessageExt) -> bool:
        return not message.body.endswith(b"3")

    def before(self, context: ConsumeContext) -> None:
        context.notes["begun"] = True
        raise RuntimeError("a hook's own trouble")

    def after(self, context: ConsumeContext) -> None:
        assert context.notes == {"begun": True}
        self.seen.append((context.group, context.status, context.messages[0].body))


async def test_hooks_see_every_call_and_may_leave_messages_out(
    cluster: LocalCluster, producer: Producer, topic: str, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    await fill(producer, topic, 10)
    watcher, heard = Watcher(), Heard()
    async with PushConsumer(
        group, cluster.namesrv, {topic: "*"}, heard, start_from="earliest", hooks=[watcher]
    ) as consumer:
        await heard.wait_for(9)
        await consumer.commit()
        async with await BrokerApi.connect(cluster.namesrv) as api:
            assert sum(await committed(api, cluster.brokers[0].address, group, topic)) == 10
    assert f"{topic}/3".encode() not in heard.bodies
    assert sorted(watcher.seen) == sorted((group, "SUCCESS", body) for body in heard.bodies)
    assert "Watcher.before failed and is ignored" in caplog.text


# --- what is wrong ----------------------------------------------------------------------------------------------------


async def test_it_is_open_once_and_not_after_it_was_closed(cluster: LocalCluster, topic: str, group: str) -> None:
    consumer = PushConsumer(group, cluster.namesrv, {topic: "*"}, Heard())
    with pytest.raises(ClientError, match="not open"):
        consumer.pause()
    async with consumer:
        with pytest.raises(ClientError, match="open already"):
            await consumer.start()
        running = asyncio.create_task(consumer.run())
        await asyncio.sleep(0)
    await asyncio.wait_for(running, 5)
    with pytest.raises(ClientError, match="not open"):
        await consumer.run()
    async with consumer:  # and again
        assert consumer.client_id


async def test_an_unreachable_name_server_is_said_at_the_start(topic: str, group: str) -> None:
    with pytest.raises(ConnectFailed, match="no name server answers"):
        async with PushConsumer(group, "127.0.0.1:1", {topic: "*"}, Heard()):
            pass


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"listener": None}, "needs a listener"),
        ({"listener": "no function"}, "needs a listener"),
        ({"group": "DEFAULT_CONSUMER"}, "reserved"),
        ({"concurrency": 0}, "concurrency must be between 1 and 1000, not 0"),
        ({"batch_size": 2000}, "batch_size must be between"),
        ({"batch_size": 5}, r"annotated list\[MessageExt\]"),
        ({"rate": 0}, "rate must be a positive number"),
        ({"max_reconsume": -1}, "max_reconsume must be between"),
        ({"consume_timeout": 0}, "consume_timeout must be positive"),
        ({"start_from": "middle"}, "start_from must be"),
        ({"subscriptions": {"t": 5}}, "expected tags"),
    ],
)
def test_wrong_options_are_refused_at_once(options: dict[str, object], text: str) -> None:
    with pytest.raises(ClientError, match=text):
        PushConsumer(**{"group": "g", "listener": Heard(), **options})  # type: ignore[arg-type]


async def test_a_listener_that_returns_nonsense_acknowledges_and_that_is_said_once(
    cluster: LocalCluster, producer: Producer, topic: str, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    await fill(producer, topic, 10)
    seen: list[bytes] = []

    async def listen(message: MessageExt) -> str:
        seen.append(message.body)
        return "RECONSUME_LATER"

    async with PushConsumer(group, cluster.namesrv, {topic: "*"}, listen, start_from="earliest"):
        await eventually(lambda: len(seen) == 10)
    said = [record for record in caplog.records if "that acknowledges" in record.getMessage()]
    assert len(said) == 1
    assert said[0].levelno == logging.WARNING


async def test_it_survives_the_restart_of_its_broker(topic: str, group: str) -> None:
    async with LocalCluster() as cluster, Producer("p", cluster.namesrv) as producer:
        heard = Heard()
        await fill(producer, topic, 40)
        async with PushConsumer(group, cluster.namesrv, {topic: "*"}, heard, start_from="earliest") as consumer:
            await heard.wait_for(40)
            await consumer.commit()
            await asyncio.to_thread(cluster.stop_broker)
            await asyncio.sleep(0.05)
            await asyncio.to_thread(cluster.start_broker)
            await producer.send(Message(topic=topic, body=b"after"))
            await heard.wait_for(41)
            assert len(consumer.assignment) == 4
        async with await BrokerApi.connect(cluster.namesrv) as api:
            assert await stored_count(api, topic) == 41
            assert sum(await committed(api, cluster.brokers[0].address, group, topic)) == 41
