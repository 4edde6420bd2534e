"""Message traces of a producer and of a push consumer, written to a real broker and read back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from pyromq import blocking
from pyromq.admin import AdminClient, MessageTrace
from pyromq.client.hooks import SendHook
from pyromq.client.listener.outcomes import COMMIT, UNKNOWN, DeadLetter, RetryLater
from pyromq.client.poll.lite_pull_consumer import LitePullConsumer
from pyromq.client.push.push_consumer import PushConsumer
from pyromq.client.push.push_settings import PushConsumerOptions
from pyromq.client.send.producer import Producer
from pyromq.client.send.transaction_producer import TransactionProducer
from pyromq.client.trace.config import Trace
from pyromq.client.trace.dispatcher import TraceCounts
from pyromq.errors import ClientError, LocalProtocolError, NoRoute
from pyromq.protocol.headers.transactions import TransactionState
from pyromq.protocol.messages.message import Message, MessageExt
from pyromq.testing import LocalCluster, TestClock, eventually
from tests.client.helpers import Heard


@pytest.fixture
async def admin(cluster: LocalCluster) -> AsyncIterator[AdminClient]:
    async with AdminClient(cluster.namesrv) as opened:
        yield opened


async def wait_for_events(
    admin: AdminClient, message_id: str, count: int, clock: TestClock | None = None
) -> MessageTrace:
    """Return a trace once it has so many events, all of them with an end; the clock goes on meanwhile."""
    found = MessageTrace(message_id, [])

    async def complete() -> bool:
        nonlocal found
        if clock is not None:
            await clock.advance_async(seconds=5)
        try:
            found = await admin.traces.of(message_id)
        except NoRoute:
            return False  # the first trace of all makes the topic
        return len(found.events) == count and all(one.status for one in found.consumptions)

    await eventually(complete)
    return found


async def test_a_send_is_traced(cluster: LocalCluster, admin: AdminClient, topic: str) -> None:
    async with Producer("shop", cluster.namesrv, trace=True) as producer:
        result = await producer.send(Message(topic=topic, body=b"12345", tags="created", keys=["o-1", topic]))
    assert producer.trace_counts == TraceCounts(written=1)  # what waited was sent when it closed
    (sent,) = (await admin.traces.of(result.message_id)).sends
    assert (sent.group, sent.topic, sent.tags, sent.keys) == ("shop", topic, "created", ("o-1", topic))
    assert (sent.broker, sent.body_size) == (cluster.brokers[0].address, 5)
    assert (sent.offset_message_id, sent.message_type, sent.success) == (result.offset_message_id, "NORMAL", True)
    assert [trace.message_id for trace in await admin.traces.by_key(topic)] == [result.message_id]


async def test_a_trace_does_not_wait_for_the_end(cluster: LocalCluster, admin: AdminClient, topic: str) -> None:
    async with Producer("shop", cluster.namesrv, trace=True) as producer:
        result = await producer.send(Message(topic=topic, body=b"x"))
        await wait_for_events(admin, result.message_id, 1)


async def test_every_message_of_a_batch_has_a_trace_of_its_own(
    cluster: LocalCluster, admin: AdminClient, topic: str
) -> None:
    messages = [Message(topic=topic, body=b"x" * number, keys=[f"k-{number}"]) for number in (1, 2, 3)]
    async with Producer("shop", cluster.namesrv, trace=True) as producer:
        batch = await producer.send_batch(messages)
    async with Producer("shop", cluster.namesrv, trace=True, linger=0.01) as producer:
        others = await asyncio.gather(*[producer.send(message) for message in messages])
    ids = [one.message_id for one in (*batch, *others)]
    places = [one.offset_message_id for one in (*batch, *others)]
    for number, (message_id, place) in enumerate(zip(ids, places, strict=True)):
        (sent,) = (await admin.traces.of(message_id)).sends
        assert (sent.offset_message_id, sent.body_size) == (place, number % 3 + 1)
        assert sent.keys == (f"k-{number % 3 + 1}",)


async def test_a_delayed_message_and_a_compressed_one(cluster: LocalCluster, admin: AdminClient, topic: str) -> None:
    async with Producer("shop", cluster.namesrv, trace=True) as producer:
        timed = await producer.send(Message(topic=topic, body=b"x"), delay=3600)
        level = await producer.send(Message(topic=topic, body=b"x"), level=18)
        large = await producer.send(Message(topic=topic, body=b"x" * 100_000))
    kinds = [(await admin.traces.of(one.message_id)).sends[0].message_type for one in (timed, level, large)]
    assert kinds == ["DELAY", "DELAY", "NORMAL"]
    assert (await admin.traces.of(large.message_id)).sends[0].body_size < 1000  # bytes that travelled


async def test_every_call_of_the_listener_is_traced(
    cluster: LocalCluster, admin: AdminClient, topic: str, group: str
) -> None:
    async with Producer("shop", cluster.namesrv) as producer:
        result = await producer.send(Message(topic=topic, body=b"x", keys=["k"]))

    async def listen(message: MessageExt) -> None:
        if message.reconsume_times == 0:
            raise ValueError("not yet")
        if message.reconsume_times == 1:
            raise RetryLater(delay=0.1)
        if message.reconsume_times == 2:
            raise DeadLetter("enough")

    async with PushConsumer(
        group, cluster.namesrv, {topic: "*"}, listen, start_from="earliest", trace=True, clock=cluster.clock
    ):
        found = await wait_for_events(admin, result.message_id, 3, cluster.clock)
    assert [(one.group, one.retry_times, one.status, one.success, one.keys) for one in found.consumptions] == [
        (group, 0, "EXCEPTION", False, ("k",)),
        (group, 1, "FAILED", False, ("k",)),
        (group, 2, "FAILED", False, ("k",)),
    ]
    assert len({one.request_id for one in found.consumptions}) == 3


@pytest.mark.parametrize(("closes", "status"), [(False, "TIME_OUT"), (True, "EXCEPTION")])
async def test_a_listener_that_is_cancelled_leaves_an_end(
    cluster: LocalCluster, admin: AdminClient, topic: str, group: str, closes: bool, status: str
) -> None:
    begun = asyncio.Event()

    async def listen(message: MessageExt) -> None:
        begun.set()
        await asyncio.Event().wait()

    async with Producer("shop", cluster.namesrv) as producer:
        result = await producer.send(Message(topic=topic, body=b"x"))
    options: PushConsumerOptions = {"start_from": "earliest", "trace": True, "clock": cluster.clock}
    options["consume_timeout"] = 3600 if closes else 5
    async with PushConsumer(group, cluster.namesrv, {topic: "*"}, listen, **options) as consumer:
        await begun.wait()
        closing = asyncio.create_task(consumer.close()) if closes else None
        found = await wait_for_events(admin, result.message_id, 1, cluster.clock)
        if closing is not None:
            await closing
    assert [one.status for one in found.consumptions] == [status]


async def test_the_end_of_a_transaction_is_traced(cluster: LocalCluster, admin: AdminClient, topic: str) -> None:
    async def forget(half: MessageExt) -> TransactionState:
        return UNKNOWN

    async def commit(half: MessageExt) -> TransactionState:
        return COMMIT

    message = Message(topic=topic, body=b"x", tags="t", keys=["k"])
    async with TransactionProducer(
        "payers", cluster.namesrv, check=commit, trace=True, clock=cluster.clock
    ) as producer:
        known = await producer.send_in_transaction(message, commit)
        unknown = await producer.send_in_transaction(message, forget)
        asked = await wait_for_events(admin, unknown.message_id, 3, cluster.clock)
    told = await wait_for_events(admin, known.message_id, 2)
    assert told.sends[0].message_type == "HALF"
    (end,) = told.transactions
    assert (end.topic, end.tags, end.keys, end.broker) == (topic, "t", ("k",), cluster.brokers[0].address)
    assert (end.group, end.state, end.from_check) == ("payers", "COMMIT_MESSAGE", False)
    assert [(one.state, one.from_check) for one in asked.transactions] == [("UNKNOW", False), ("COMMIT_MESSAGE", True)]
    assert asked.transactions[1].topic == topic


async def test_names_stand_without_their_namespace(
    cluster: LocalCluster, admin: AdminClient, topic: str, group: str
) -> None:
    heard = Heard()
    async with Producer("shop", cluster.namesrv, trace=True, namespace="north") as producer:
        result = await producer.send(Message(topic=topic, body=b"x"))
    async with PushConsumer(
        group, cluster.namesrv, {topic: "*"}, heard, start_from="earliest", trace=True, namespace="north"
    ):
        await heard.wait_for(1)
    found = await admin.traces.of(result.message_id)
    assert (found.sends[0].topic, found.sends[0].group) == (topic, "shop")
    assert found.consumptions[0].group == group


async def test_traces_go_to_the_topic_that_was_chosen_and_are_never_traced_themselves(
    cluster: LocalCluster, admin: AdminClient, topic: str, group: str
) -> None:
    trace = Trace(topic=f"{topic}-traces", spans=False)
    heard = Heard()
    async with Producer("shop", cluster.namesrv, trace=True) as producer:  # its trace creates the default topic
        await producer.send(Message(topic=topic, body=b"x"))
    async with Producer("shop", cluster.namesrv, trace=trace) as producer:
        result = await producer.send(Message(topic=topic, body=b"x"))
        own = await producer.send(Message(topic=trace.topic, body=b"somebody's own", keys=["k"]))
    async with PushConsumer(
        group, cluster.namesrv, {trace.topic: "*"}, heard, start_from="earliest", trace=trace
    ) as consumer:
        await heard.wait_for(2)
    assert consumer.trace_counts == TraceCounts()
    assert len((await admin.traces.of(result.message_id, topic=trace.topic)).sends) == 1
    assert not (await admin.traces.of(own.message_id, topic=trace.topic)).events
    assert not (await admin.traces.of(result.message_id)).events


async def test_what_failed_or_was_sent_one_way_leaves_no_trace(
    cluster: LocalCluster, admin: AdminClient, topic: str
) -> None:
    class Refuse(SendHook):
        def check(self, context: object) -> None:
            raise PermissionError

    async with Producer("shop", cluster.namesrv, trace=True) as producer:
        await producer.send_oneway(Message(topic=topic, body=b"x", keys=[topic]))
    async with Producer("shop", cluster.namesrv, trace=True, hooks=[Refuse()]) as producer:
        with pytest.raises(PermissionError):
            await producer.send(Message(topic=topic, body=b"x", keys=[topic]))
    assert producer.trace_counts == TraceCounts()
    async with Producer("shop", cluster.namesrv, trace=True) as producer:  # its trace creates the topic of traces
        await producer.send(Message(topic=topic, body=b"x", keys=["another"]))
    assert await admin.traces.by_key(topic) == []


async def test_a_broker_may_forbid_traces(topic: str) -> None:
    async with (
        LocalCluster(settings={"traceOn": "false"}) as cluster,
        Producer("shop", cluster.namesrv, trace=True) as producer,
    ):
        await producer.send(Message(topic=topic, body=b"x"))
        await producer.close()
        assert producer.trace_counts == TraceCounts()


async def test_a_broker_without_the_topic_costs_the_traces_and_nothing_else(topic: str) -> None:
    settings = {"autoCreateTopicEnable": "false", "traceTopicEnable": "false"}
    async with LocalCluster(settings=settings) as cluster, AdminClient(cluster.namesrv) as admin:
        await admin.api.create_topic(cluster.brokers[0].address, topic)
        async with Producer("shop", cluster.namesrv, trace=True) as producer:
            await producer.send(Message(topic=topic, body=b"x"))
        assert producer.trace_counts == TraceCounts(failed=1)
    async with LocalCluster(settings={**settings, "traceTopicEnable": "true"}) as cluster:
        async with AdminClient(cluster.namesrv) as admin:
            await admin.api.create_topic(cluster.brokers[0].address, topic)
            async with Producer("shop", cluster.namesrv, trace=True) as producer:
                await producer.send(Message(topic=topic, body=b"x"))
            assert len((await admin.api.route("RMQ_SYS_TRACE_TOPIC")).queue_datas) == 1
        assert producer.trace_counts == TraceCounts(written=1)


async def test_a_closed_producer_may_be_opened_again(cluster: LocalCluster, admin: AdminClient, topic: str) -> None:
    producer = Producer("shop", cluster.namesrv, trace=True)
    for count in (1, 2):
        async with producer:
            result = await producer.send(Message(topic=topic, body=b"x"))
        assert producer.trace_counts.written == count
        assert len((await admin.traces.of(result.message_id)).events) == 1


def test_traces_without_async(cluster: LocalCluster, topic: str, group: str) -> None:
    with blocking.Producer("shop", cluster.namesrv, trace=True) as producer:
        result = producer.send(Message(topic=topic, body=b"x"))
    assert producer.trace_counts == TraceCounts(written=1)
    with blocking.AdminClient(cluster.namesrv) as admin:
        assert len(admin.traces.of(result.message_id).sends) == 1


def test_off_is_off() -> None:
    for trace in (False, Trace(messages=False, spans=False)):
        assert Producer("shop", trace=trace)._tracing is None
    with pytest.raises(ClientError, match="trace="):
        Producer("shop", trace="yes")  # type: ignore[arg-type]
    with pytest.raises(LocalProtocolError):
        Producer("shop", trace=Trace(topic="not a topic"))


def test_a_pull_consumer_has_no_such_switch() -> None:
    with pytest.raises(TypeError, match="trace"):
        LitePullConsumer("audit", trace=True)  # type: ignore[call-arg]
