"""Messages that wait for their delivery time, on all brokers."""

from __future__ import annotations

from pyromq import Message, Producer
from pyromq.admin import AdminClient
from pyromq.testing import LocalCluster


async def test_waiting_messages_are_listed_and_cancelled_on_all_brokers(topic: str) -> None:
    async with LocalCluster(brokers=2) as cluster, Producer("timed", cluster.namesrv) as producer:
        results = [
            await producer.send(Message(topic=topic, body=b"%d" % number), delay=1000 - number) for number in range(20)
        ]
        await producer.send(Message(topic=f"{topic}-other", body=b"other"), delay=60)
        async with AdminClient(cluster.namesrv) as admin:
            found = [message async for message in admin.timed_messages.pending(topic)]
            assert {message.stored.message_id for message in found} == {result.message_id for result in results}
            assert {message.broker_name for message in found} == {"broker-a", "broker-b"}
            for name in ("broker-a", "broker-b"):
                due = [message.due_ms for message in found if message.broker_name == name]
                assert due == sorted(due)
            assert await admin.timed_messages.count() == 21
            first = results[0]
            assert await admin.timed_messages.cancel(first.message_id, "elsewhere") == []
            assert await admin.timed_messages.plan_cancel(first.message_id, "elsewhere") == []
            for message_id in (first.message_id, first.offset_message_id):
                assert await admin.timed_messages.plan_cancel(message_id) == [first.queue.broker_name]
            assert await admin.timed_messages.count() == 21, "a plan cancels nothing"
            assert await admin.timed_messages.cancel(first.message_id) == [first.queue.broker_name]
            assert await admin.timed_messages.cancel(results[1].offset_message_id) == [results[1].queue.broker_name]
            assert await admin.timed_messages.count() == 19


async def test_a_histogram_says_when_messages_are_due(topic: str) -> None:
    async with (
        LocalCluster() as cluster,
        Producer("timed", cluster.namesrv, clock=cluster.clock) as producer,
        AdminClient(cluster.namesrv, clock=cluster.clock) as admin,
    ):
        empty = await admin.timed_messages.histogram()
        assert (empty.counts, empty.counted, empty.waiting, empty.is_whole) == ((0,), 0, 0, True)
        for delay in (30, 31, 32, 600, 1190):
            await producer.send(Message(topic=topic, body=b"later"), delay=delay)
        await producer.send(Message(topic=f"{topic}-other", body=b"other"), delay=60)
        found = await admin.timed_messages.histogram(topic, bins=25)
        assert (found.step_ms, found.counted, found.waiting, found.is_whole) == (60_000, 5, 6, True)
        assert sum(found.counts) == 5
        assert sum(found.counts[:2]) == 3, "those of the next half minute"
        assert found.counts[-1] == 1
        cut = await admin.timed_messages.histogram(topic, most=3)
        assert (cut.counted, cut.is_whole) == (3, False)
