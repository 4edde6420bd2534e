"""Orderly consumers: one message of a queue at a time, in order, whatever fails and whoever comes and goes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from itertools import pairwise

import pytest

from pyromq.client.group.queue_locks import RENEWAL_INTERVAL
from pyromq.client.listener.outcomes import COMMIT, ROLLBACK, Ack, DeadLetter, RetryLater, Suspend
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.client.push.push_consumer import PushConsumer
from pyromq.client.send.producer import Producer
from pyromq.protocol.messages.message import Message, MessageExt
from pyromq.protocol.messages.record import decode_messages
from pyromq.protocol.names import dlq_topic
from pyromq.testing import LocalCluster, eventually
from tests.client.helpers import Heard, SendBacks, committed, in_queue_order


@pytest.fixture
async def own_cluster() -> AsyncIterator[LocalCluster]:
    async with LocalCluster() as running:
        yield running


async def send_in_order(cluster: LocalCluster, topic: str, count: int, queues: int = 1) -> list[bytes]:
    """Send numbered messages to so many queues in turn, one after the other."""
    bodies = [b"%d" % number for number in range(count)]
    async with Producer("p", cluster.namesrv) as producer:
        found = (await producer.queues(topic))[:queues]
        for number, body in enumerate(bodies):
            await producer.send(Message(topic=topic, body=body), queue=found[number % queues])
    return bodies


async def test_each_queue_comes_in_order_and_one_at_a_time(own_cluster: LocalCluster, topic: str, group: str) -> None:
    sent = await send_in_order(own_cluster, topic, 200, queues=4)
    seen: list[MessageExt] = []
    at_work: set[int] = set()
    most = 0

    async def listen(message: MessageExt) -> None:
        nonlocal most
        assert message.queue_id not in at_work
        at_work.add(message.queue_id)
        most = max(most, len(at_work))
        await asyncio.sleep(0.001)
        at_work.remove(message.queue_id)
        seen.append(message)

    async with PushConsumer(group, own_cluster.namesrv, {topic: "*"}, listen, orderly=True, start_from="earliest"):
        await eventually(lambda: len(seen) == 200)
    assert in_queue_order(seen)
    assert sorted(message.body for message in seen) == sorted(sent)
    assert most > 1, "queues do not wait for each other"


async def test_batches_are_neighbours(own_cluster: LocalCluster, topic: str, group: str) -> None:
    await send_in_order(own_cluster, topic, 50)
    batches: list[list[int]] = []

    def listen(messages: list[MessageExt]) -> None:
        batches.append([message.queue_offset for message in messages])

    async with PushConsumer(
        group, own_cluster.namesrv, {topic: "*"}, listen, orderly=True, batch_size=8, start_from="earliest"
    ):
        await eventually(lambda: sum(map(len, batches)) == 50)
    assert [offset for batch in batches for offset in batch] == list(range(50))
    assert max(map(len, batches)) == 8


@pytest.mark.parametrize(
    ("failure", "rest"),
    [(ValueError("not yet"), 1.0), (Suspend(7), 7.0), (RetryLater(3), 3.0), (Suspend(), 1.0), (ROLLBACK, 1.0)],
)
async def test_a_failure_holds_up_its_queue_and_no_other(
    own_cluster: LocalCluster, topic: str, group: str, failure: object, rest: float
) -> None:
    clock = own_cluster.clock
    await send_in_order(own_cluster, topic, 40, queues=2)
    seen: list[tuple[bytes, int]] = []
    tries: list[float] = []

    async def listen(message: MessageExt) -> object:
        if message.body == b"10":
            tries.append(clock.now())
            if len(tries) < 4:
                if isinstance(failure, Exception):
                    raise failure
                return failure
        seen.append((message.body, message.reconsume_times))
        return COMMIT

    async with PushConsumer(
        group, own_cluster.namesrv, {topic: "*"}, listen, orderly=True, start_from="earliest", clock=clock
    ):
        await eventually(lambda: len(seen) == 5 + 20)  # those before it, and all of the other queue
        while len(tries) < 4:
            await clock.advance_async(seconds=rest / 4)
        await eventually(lambda: len(seen) == 40)
    evens = [body for body, _ in seen if int(body) % 2 == 0]
    assert evens == [b"%d" % number for number in range(0, 40, 2)]
    assert all(rest - 0.01 <= later - sooner < rest * 2 for sooner, later in pairwise(tries))
    counted = dict(seen)[b"10"]
    assert counted == (0 if failure is ROLLBACK else 3), "rolling back does not count"


async def test_a_partial_acknowledgement_comes_again_from_where_it_stopped(
    own_cluster: LocalCluster, topic: str, group: str
) -> None:
    await send_in_order(own_cluster, topic, 6)
    batches: list[list[bytes]] = []

    async def listen(messages: list[MessageExt]) -> Ack | None:
        batches.append([message.body for message in messages])
        return Ack(first=2) if len(batches) == 1 else None

    clock = own_cluster.clock
    async with PushConsumer(
        group, own_cluster.namesrv, {topic: "*"}, listen, orderly=True, batch_size=4, start_from="earliest", clock=clock
    ):
        while sum(map(len, batches)) < 8:
            await clock.advance_async(seconds=0.3)
    assert batches == [[b"0", b"1", b"2", b"3"], [b"2", b"3", b"4", b"5"]]


async def dead_letters(cluster: LocalCluster, group: str) -> list[MessageExt]:
    """Return what lies among a group's dead letters."""
    server = cluster.brokers[0].server
    assert server is not None
    return decode_messages(b"".join(map(bytes, server.store.get(dlq_topic(group), 0, 0, 32).views)))


async def test_a_message_that_was_tried_often_enough_is_given_up(
    own_cluster: LocalCluster, topic: str, group: str
) -> None:
    await send_in_order(own_cluster, topic, 5)
    seen: list[tuple[bytes, int]] = []

    async def listen(message: MessageExt) -> None:
        seen.append((message.body, message.reconsume_times))
        if message.body == b"2":
            raise ValueError("never")

    clock = own_cluster.clock
    consumer = PushConsumer(
        group,
        own_cluster.namesrv,
        {topic: "*"},
        listen,
        orderly=True,
        max_reconsume=2,
        start_from="earliest",
        clock=clock,
    )
    async with consumer:
        while len(seen) < 7:
            await clock.advance_async(seconds=0.3)
        assert consumer.blocked == []
    assert seen == [(b"0", 0), (b"1", 0), (b"2", 0), (b"2", 1), (b"2", 2), (b"3", 0), (b"4", 0)]
    (letter,) = await dead_letters(own_cluster, group)
    assert (letter.body, letter.reconsume_times) == (b"2", 3)
    assert letter.properties["RETRY_TOPIC"] == topic
    assert letter.properties["PYROMQ_CAUSE"].startswith("ValueError: never (test_push_orderly.py")


async def test_what_the_listener_gives_up_is_a_dead_letter_at_once(
    own_cluster: LocalCluster, topic: str, group: str
) -> None:
    await send_in_order(own_cluster, topic, 2)
    seen: list[bytes] = []

    async def listen(message: MessageExt) -> None:
        seen.append(message.body)
        if message.body == b"0":
            raise DeadLetter("hopeless")

    async with PushConsumer(group, own_cluster.namesrv, {topic: "*"}, listen, orderly=True, start_from="earliest"):
        await eventually(lambda: seen == [b"0", b"1"])
    (letter,) = await dead_letters(own_cluster, group)
    assert (letter.body, letter.reconsume_times) == (b"0", 1)


async def test_a_blocked_queue_says_since_when_and_by_which_message(
    own_cluster: LocalCluster, topic: str, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    await send_in_order(own_cluster, topic, 4)
    clock = own_cluster.clock
    tries: list[MessageExt] = []
    gate = False

    async def listen(message: MessageExt) -> None:
        if message.body == b"1" and not gate:
            tries.append(message)
            raise ValueError(f"attempt {len(tries)}")

    consumer = PushConsumer(
        group, own_cluster.namesrv, {topic: "*"}, listen, orderly=True, start_from="earliest", clock=clock
    )
    async with consumer:
        while len(tries) < 3:
            await clock.advance_async(seconds=0.5)
        await eventually(lambda: len(consumer.blocked) == 1)
        (blocked,) = consumer.blocked
        assert blocked.queue == tries[0].queue
        assert (blocked.queue_offset, blocked.message_id) == (1, tries[0].message_id)
        assert blocked.times >= 3
        assert blocked.cause.startswith("ValueError: attempt ")
        assert clock.now() - 60 < blocked.since.timestamp() < clock.now() - 1.9, "since the first failure"
        (told,) = json.loads(consumer._session.running_info().properties["PYROMQ_BLOCKED"])
        assert (told["topic"], told["queue_offset"], told["message_id"]) == (topic, 1, blocked.message_id)
        gate = True
        while consumer.blocked:
            await clock.advance_async(seconds=0.5)
        assert "PYROMQ_BLOCKED" not in consumer._session.running_info().properties
    said = [record.getMessage() for record in caplog.records if "is blocked by" in record.getMessage()]
    assert len(said) == 1
    assert blocked.message_id in said[0]


async def test_a_dead_letter_that_cannot_be_kept_holds_the_queue_up(
    own_cluster: LocalCluster, topic: str, group: str
) -> None:
    backs = SendBacks(own_cluster)
    await send_in_order(own_cluster, topic, 2)
    seen: list[bytes] = []

    async def listen(message: MessageExt) -> None:
        seen.append(message.body)
        if message.body == b"0":
            raise DeadLetter("hopeless")

    clock = own_cluster.clock
    async with PushConsumer(
        group, own_cluster.namesrv, {topic: "*"}, listen, orderly=True, start_from="earliest", clock=clock
    ):
        while len(seen) < 3:
            await clock.advance_async(seconds=0.5)
        assert seen == [b"0", b"0", b"0"]
        backs.takes_copies = True
        while len(seen) < 5:
            await clock.advance_async(seconds=0.5)
    assert seen[-1] == b"1"


# --- who may consume --------------------------------------------------------------------------------------------------


async def test_a_queue_locked_by_another_is_not_read_until_it_is_free(
    own_cluster: LocalCluster, topic: str, group: str
) -> None:
    await send_in_order(own_cluster, topic, 8, queues=4)
    heard = Heard()
    clock = own_cluster.clock
    address = own_cluster.brokers[0].address
    async with await BrokerApi.connect(own_cluster.namesrv) as api, Producer("p", own_cluster.namesrv) as producer:
        taken = (await producer.queues(topic))[1]
        assert await api.lock(address, group, "somebody-else", [taken]) == [taken]
        async with PushConsumer(
            group, own_cluster.namesrv, {topic: "*"}, heard, orderly=True, start_from="earliest", clock=clock
        ):
            await heard.wait_for(6)
            await clock.advance_async(seconds=30)
            assert len(heard.messages) == 6
            await api.unlock(address, group, "somebody-else", [taken])
            while len(heard.messages) < 8:
                await clock.advance_async(seconds=0.5)
            # Renewed every 20 s, our lock outlives the broker's 60 s.
            await clock.advance_async(seconds=100)
            assert await api.lock(address, group, "somebody-else", [taken]) == []
        assert await api.lock(address, group, "somebody-else", [taken]) == [taken], "closing unlocks"


async def test_after_its_connection_was_lost_a_queue_waits_until_its_lock_is_renewed(
    own_cluster: LocalCluster, topic: str, group: str
) -> None:
    """A broker that was restarted has forgotten the lock, and another member may have been quicker."""
    await send_in_order(own_cluster, topic, 2)
    heard, clock, broker = Heard(), own_cluster.clock, own_cluster.brokers[0]
    async with (
        await BrokerApi.connect(own_cluster.namesrv) as api,
        Producer("p", own_cluster.namesrv) as producer,
        PushConsumer(
            group, own_cluster.namesrv, {topic: "*"}, heard, orderly=True, start_from="earliest", clock=clock
        ) as consumer,
    ):
        await heard.wait_for(2)
        await consumer.commit()
        queue = (await producer.queues(topic))[0]
        await api.unlock(broker.address, group, consumer.client_id, [queue])
        assert await api.lock(broker.address, group, "somebody-else", [queue]) == [queue]
        await (await consumer._session.instance.api.remoting.connection(broker.address)).close()
        await producer.send(Message(topic=topic, body=b"2"), queue=queue)
        for _ in range(20):
            await clock.advance_async(seconds=0.5)
        assert len(heard.messages) == 2, "it is somebody else's"
        await api.unlock(broker.address, group, "somebody-else", [queue])
        while len(heard.messages) < 3:
            await clock.advance_async(seconds=0.5)
    assert [message.body for message in heard.messages] == [b"0", b"1", b"2"]


async def test_a_lost_lock_stops_the_queue_and_when_regained_it_goes_on_where_others_came_to(
    own_cluster: LocalCluster, topic: str, group: str
) -> None:
    await send_in_order(own_cluster, topic, 4)
    heard = Heard()
    clock = own_cluster.clock
    address = own_cluster.brokers[0].address
    async with (
        await BrokerApi.connect(own_cluster.namesrv) as api,
        Producer("p", own_cluster.namesrv) as producer,
        PushConsumer(
            group, own_cluster.namesrv, {topic: "*"}, heard, orderly=True, start_from="earliest", clock=clock
        ) as consumer,
    ):
        await heard.wait_for(4)
        await consumer.commit()
        queue = (await producer.queues(topic))[0]
        server = own_cluster.brokers[0].server
        assert server is not None
        server.service.reading.clients._locks._locks[group, queue].owner = "somebody-else"
        await clock.advance_async(seconds=21)  # the renewal is refused
        for number in range(4, 8):
            await producer.send(Message(topic=topic, body=b"%d" % number), queue=queue)
        await clock.advance_async(seconds=2)
        assert len(heard.messages) == 4, "nothing is consumed without the lock"
        await api.commit_offset(address, group, topic, queue.queue_id, 6)  # what somebody else did
        await api.unlock(address, group, "somebody-else", [queue])
        while len(heard.messages) < 6:
            await clock.advance_async(seconds=1)
    assert heard.bodies == [b"0", b"1", b"2", b"3", b"6", b"7"]


async def test_a_clock_that_is_set_forward_costs_no_lock(own_cluster: LocalCluster, topic: str, group: str) -> None:
    await send_in_order(own_cluster, topic, 2)
    heard = Heard()
    clock = own_cluster.clock
    async with PushConsumer(
        group, own_cluster.namesrv, {topic: "*"}, heard, orderly=True, start_from="earliest", clock=clock
    ) as consumer:
        await heard.wait_for(2)
        clock.set_wall_clock(minutes=10)
        started = clock.monotonic()
        await send_in_order(own_cluster, topic, 2)
        await heard.wait_for(4)
        assert clock.monotonic() - started < RENEWAL_INTERVAL * 0.75, "the queue did not wait for a renewal"
        queues = consumer._session.running_info().mq_table
        info = next(info for queue, info in queues.items() if queue.topic == topic and queue.queue_id == 0)
        assert info.locked
        assert 0 <= clock.now_ms() - info.last_lock_timestamp < 120_000, "shown by the clock as it is now"
        assert 0 <= clock.now_ms() - info.last_pull_timestamp < 120_000


async def test_order_holds_while_members_come_and_go(own_cluster: LocalCluster, topic: str, group: str) -> None:
    seen: list[MessageExt] = []
    at_work: set[int] = set()
    overlaps: list[int] = []

    async def listen(message: MessageExt) -> None:
        if message.queue_id in at_work:
            overlaps.append(message.queue_id)
        at_work.add(message.queue_id)
        await asyncio.sleep(0.002)
        at_work.discard(message.queue_id)
        seen.append(message)

    async def stay(seconds: float) -> None:
        async with PushConsumer(group, own_cluster.namesrv, {topic: "*"}, listen, orderly=True, start_from="earliest"):
            await asyncio.sleep(seconds)

    sending = asyncio.create_task(send_in_order(own_cluster, topic, 1200, queues=4))
    async with asyncio.TaskGroup() as tasks:
        for seconds in (1.0, 0.4, 0.8, 0.3, 1.2):
            tasks.create_task(stay(seconds))
            await asyncio.sleep(0.15)
    sent = await sending
    clock = own_cluster.clock
    async with PushConsumer(group, own_cluster.namesrv, {topic: "*"}, listen, orderly=True, clock=clock):
        await eventually(lambda: len(seen) >= len(sent))
        await clock.advance_async(seconds=1)
    assert not overlaps
    assert in_queue_order(seen), "in order, and nothing twice"
    assert sorted(message.body for message in seen) == sorted(sent)


async def test_a_slow_listener_keeps_its_queue_until_it_is_done(
    own_cluster: LocalCluster, topic: str, group: str
) -> None:
    """A new member gets queues at once, but one that is in hand only when its listener has ended."""
    await send_in_order(own_cluster, topic, 4, queues=4)
    clock = own_cluster.clock
    gates = {number: asyncio.Event() for number in range(4)}
    begun: set[int] = set()
    done: list[tuple[str, int]] = []

    async def slow(message: MessageExt) -> None:
        begun.add(message.queue_id)
        await gates[message.queue_id].wait()
        done.append(("first", message.queue_id))

    async def quick(message: MessageExt) -> None:
        done.append(("second", message.queue_id))

    def member(listener: object) -> PushConsumer:
        return PushConsumer(
            group,
            own_cluster.namesrv,
            {topic: "*"},
            listener,  # type: ignore[arg-type]
            orderly=True,
            start_from="earliest",
            clock=clock,
        )

    async with member(slow) as first, await BrokerApi.connect(own_cluster.namesrv) as api:
        await eventually(lambda: len(begun) == 4)
        async with member(quick) as second:
            await eventually(lambda: len(second.assignment) == 2)
            await clock.advance_async(seconds=90)
            assert done == [], "the second one waits, though a lock that is not renewed would have expired"
            for gate in gates.values():
                gate.set()
            await eventually(lambda: len(done) >= 4)
            await clock.advance_async(seconds=5)
            assert sorted(done) == [("first", number) for number in range(4)]
            await eventually(lambda: len(first.assignment) == 2)
    async with await BrokerApi.connect(own_cluster.namesrv) as api:
        assert await committed(api, own_cluster.brokers[0].address, group, topic) == [1, 1, 1, 1]
