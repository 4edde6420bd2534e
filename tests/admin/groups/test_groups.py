"""Consumer groups as an operator sees them, on real brokers with real members."""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import Awaitable, Callable

import pytest

from pyromq import DeadLetter, LitePullConsumer, Message, MessageExt, MessageQueue, Producer, PushConsumer
from pyromq.admin import AdminClient, GroupDescription
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.errors import GroupNotFound
from pyromq.protocol.bodies import ConsumerData, HeartbeatData, MessageModel, SubscriptionData
from pyromq.testing import LocalCluster, eventually
from tests.client.helpers import Heard, MemoryOffsets, register_broker

COUNT = 16


async def fill(cluster: LocalCluster, topic: str, count: int = COUNT, *, queues: int = 4) -> None:
    """Create a topic with this many queues on each broker, and send to all of them in turn."""
    async with Producer("filling", cluster.namesrv) as producer, await BrokerApi.connect(cluster.namesrv) as api:
        for broker in cluster.brokers:
            await api.create_topic(broker.address, topic, queues)
        places = sorted(await producer.queues(topic))
        for number in range(count):
            message = Message(topic=topic, body=b"%d" % number, tags="paid", keys=[f"o-{number}"])
            await producer.send(message, queue=places[number % len(places)])


async def described(
    admin: AdminClient, group: str, until: Callable[[GroupDescription], bool], *, watch: float = 0, slow: float = 10
) -> GroupDescription:
    """Describe a group again and again until it is as expected."""
    found: GroupDescription | None = None

    async def is_so() -> bool:
        nonlocal found
        found = await admin.groups.describe(group, watch=watch, slow=slow)
        return until(found)

    await eventually(is_so)
    assert found is not None
    return found


async def test_members_share_the_queues_of_all_brokers(
    pair: LocalCluster, admin: AdminClient, topic: str, group: str
) -> None:
    await fill(pair, topic)
    heard = Heard()
    async with (
        PushConsumer(group, pair.namesrv, {topic: "*"}, heard, start_from="earliest", clock=pair.clock) as first,
        PushConsumer(group, pair.namesrv, {topic: "*"}, heard, start_from="earliest", clock=pair.clock) as second,
    ):
        await heard.wait_for(COUNT)
        await asyncio.gather(first.commit(), second.commit())
        found = await described(admin, group, lambda it: not it.lag and not it.idle_members)
        ids = sorted([first.client_id, second.client_id])
    assert (found.model, found.lag, found.behind, found.findings) == (MessageModel.CLUSTERING, 0, 0, ())
    assert [member.client_id for member in found.members] == ids
    member = found.members[0]
    assert (member.language, member.version, member.brokers) == ("PYTHON", "4.9.8", ("broker-a", "broker-b"))
    assert member.address.startswith("127.0.0.1:")
    assert [str(wanted) for wanted in found.subscriptions] == [f"{topic} (*)"]
    owners = {row.queue: row.owners for row in found.queues if row.queue.topic == topic}
    assert owners.keys() == {
        MessageQueue(topic, name, number) for name in ("broker-a", "broker-b") for number in range(4)
    }
    assert {len(owner) for owner in owners.values()} == {1}
    assert {owner[0] for owner in owners.values()} == set(ids)


async def test_a_group_that_only_has_offsets_has_its_lag_too(topic: str, group: str) -> None:
    async with LocalCluster(brokers=2) as cluster, await BrokerApi.connect(cluster.namesrv) as api:
        await fill(cluster, topic, 8)
        await cluster.clock.advance_async(seconds=100)
        await fill(cluster, topic, 8)
        for number in range(4):  # like a Spark stream: half of one broker's messages, all of the other's
            await api.commit_offset(cluster.brokers[0].address, group, topic, number, 1)
            await api.commit_offset(cluster.brokers[1].address, group, topic, number, 2)
        async with AdminClient(cluster.namesrv, clock=cluster.clock) as admin:
            await cluster.clock.advance_async(seconds=50)
            found = await admin.groups.describe(group, watch=0)
            (summary,) = [each for each in (await admin.groups.list()).groups if each.group == group]
    assert (found.model, found.members, found.lag) == (None, (), 4)
    assert found.behind is not None
    assert 50 <= found.behind < 100
    rows = {row.queue: row for row in found.queues}
    row = rows[MessageQueue(topic, "broker-a", 2)]
    assert (row.committed_offset, row.end_offset, row.lag, row.owners, row.blocked) == (1, 2, 1, (), None)
    assert row.head is not None
    assert (row.head.queue_offset, row.head.keys, row.head.tags) == (1, ("o-2",), "paid")
    done = rows[MessageQueue(topic, "broker-b", 2)]
    assert (done.lag, done.behind, done.head) == (0, 0, None)
    assert (summary.members, summary.topics, summary.lag) == (0, (topic,), 4)


async def test_topics_that_a_group_has_left_count_no_more(
    pair: LocalCluster, admin: AdminClient, topic: str, group: str
) -> None:
    first, second = pair.brokers
    await admin.api.create_topic(second.address, f"{topic}-left", 1)  # on a broker that the members do not know
    await admin.api.create_topic(first.address, topic, 1)
    await admin.api.commit_offset(second.address, group, f"{topic}-left", 0, 0)
    assert [row.queue.topic for row in (await admin.groups.describe(group, watch=0)).queues] == [f"{topic}-left"]
    async with LitePullConsumer(group, pair.namesrv, {topic: "*"}):
        found = await described(admin, group, lambda it: not it.idle_members)
        (summary,) = [each for each in (await admin.groups.list()).groups if each.group == group]
    assert ([row.queue.topic for row in found.queues], found.findings) == ([topic], ())
    assert summary.topics == (topic,)


async def test_a_group_that_has_offsets_of_deleted_topics_only_is_known(
    pair: LocalCluster, admin: AdminClient, topic: str, group: str
) -> None:
    """Our broker drops the offsets of a topic that it deletes; a table that Apache's broker has left keeps them."""
    server = pair.brokers[0].server
    assert server is not None
    server.offsets.commit(group, topic, 0, 0, "an older table")
    found = await admin.groups.describe(group, watch=0)
    assert (found.members, found.queues, found.lag) == ((), (), 0)


async def test_members_that_subscribe_differently_are_named(
    pair: LocalCluster, admin: AdminClient, topic: str, group: str
) -> None:
    await fill(pair, topic, 0)
    heard = Heard()
    async with (
        PushConsumer(group, pair.namesrv, {topic: "paid||created"}, heard) as one,
        PushConsumer(group, pair.namesrv, {topic: "created || paid"}, heard) as same,
        PushConsumer(group, pair.namesrv, {topic: "sent"}, heard) as other,
    ):
        found = await described(admin, group, lambda it: len(it.opinions) == 2)
        alike, alone = {one.client_id, same.client_id}, other.client_id
    by_expression = {opinion.subscriptions[0].expression: set(opinion.members) for opinion in found.opinions}
    assert by_expression["sent"] == {alone}
    assert alike in by_expression.values(), "the order of tags makes no difference"
    assert any(alone in line and "subscribe differently" in line for line in found.findings)


async def test_a_member_without_a_queue_is_idle(cluster: LocalCluster, topic: str, group: str) -> None:
    await fill(cluster, topic, 1, queues=1)
    async with (
        LitePullConsumer(group, cluster.namesrv, {topic: "*"}),
        LitePullConsumer(group, cluster.namesrv, {topic: "*"}),
        AdminClient(cluster.namesrv) as admin,
    ):
        found = await described(admin, group, lambda it: len(it.idle_members) == 1)
    assert f"member {found.idle_members[0].client_id} has no queue" in found.findings[-1]


async def test_the_message_that_a_listener_has_for_long_is_what_blocks(
    pair: LocalCluster, admin: AdminClient, topic: str, group: str
) -> None:
    await fill(pair, topic, 4, queues=1)
    gate = asyncio.Event()

    async def listen(message: MessageExt) -> None:
        if message.queue.broker_name == "broker-b":
            await gate.wait()

    async with PushConsumer(group, pair.namesrv, {topic: "*"}, listen, start_from="earliest", clock=pair.clock):
        await described(admin, group, lambda it: any(row.head and row.head.listening for row in it.queues))
        await pair.clock.advance_async(seconds=30)
        found = await described(admin, group, lambda it: it.lag == 2)
        quick = await admin.groups.describe(group, watch=0, slow=1000)
        gate.set()
    (row,) = found.blocked
    assert (row.queue, row.lag, row.held) == (MessageQueue(topic, "broker-b", 0), 2, 2)
    assert row.head is not None
    assert row.head.listening is not None
    assert row.head.listening >= 30
    assert f"the listener has had message {row.head.message_id} at offset 0 for " in str(row.blocked)
    assert found.findings == (f"{topic} broker-b:0 with 2 waiting: {row.blocked}",)
    assert quick.blocked == []


async def test_an_orderly_queue_that_fails_is_told_with_its_cause(
    cluster: LocalCluster, topic: str, group: str
) -> None:
    await fill(cluster, topic, 1, queues=1)

    async def listen(message: MessageExt) -> None:
        raise ValueError("no account")

    async with (
        PushConsumer(group, cluster.namesrv, {topic: "*"}, listen, start_from="earliest", orderly=True),
        AdminClient(cluster.namesrv) as admin,
    ):
        found = await described(admin, group, lambda it: bool(it.blocked))
    said = str(found.blocked[0].blocked)
    assert re.search(r"message \w+ at offset 0 has failed \d+ times within \d+ s: ValueError: no account", said)
    assert found.members[0].orderly


async def test_a_caller_that_does_not_come_back_is_what_blocks(
    pair: LocalCluster, admin: AdminClient, topic: str, group: str
) -> None:
    await fill(pair, topic, 4, queues=1)
    async with LitePullConsumer(
        group, pair.namesrv, {topic: "*"}, start_from="earliest", auto_commit=False, clock=pair.clock
    ) as consumer:
        while not await consumer.poll(timeout=1, max_messages=1):
            pass
        await pair.clock.advance_async(seconds=30)
        found = await admin.groups.describe(group, watch=0)
        waiting = asyncio.create_task(described(admin, group, lambda it: not it.blocked))
        while not waiting.done():
            await consumer.poll(timeout=0.01, max_messages=1)
        await waiting
    assert len(found.blocked) == 2
    assert re.fullmatch(r"its member has not polled for \d+ s", str(found.blocked[0].blocked))


async def test_a_queue_that_is_watched_moves_or_does_not(cluster: LocalCluster, topic: str, group: str) -> None:
    await fill(cluster, topic, 4, queues=1)
    async with await BrokerApi.connect(cluster.namesrv) as api, AdminClient(cluster.namesrv) as admin:
        address = cluster.brokers[0].address
        await api.commit_offset(address, group, topic, 0, 1)
        still = await admin.groups.describe(group, watch=0.01, slow=0.005)
        watching = asyncio.create_task(described(admin, group, lambda it: it.queues[0].moved is True, watch=0.01))
        for offset in itertools.cycle((2, 3)):
            if watching.done():
                break
            await api.commit_offset(address, group, topic, 0, offset)
        assert (await watching).blocked == []
    assert (still.queues[0].moved, still.queues[0].blocked) == (False, "its offset did not move within 0.01 s")


async def test_a_member_that_does_not_answer_is_told(cluster: LocalCluster, topic: str, group: str) -> None:
    await fill(cluster, topic, 1, queues=1)
    wanted = SubscriptionData(topic=topic, sub_version=1)
    data = HeartbeatData("mute@1", consumer_data_set=[ConsumerData(group, subscription_data_set=[wanted])])
    async with await BrokerApi.connect(cluster.namesrv) as mute, AdminClient(cluster.namesrv) as admin:
        await mute.heartbeat(cluster.brokers[0].address, data)
        found = await admin.groups.describe(group, watch=0)
    (member,) = found.members
    assert member.silence is not None
    assert (member.client_id, member.is_idle) == ("mute@1", False)
    assert f"member mute@1 does not report its state: {member.silence}" in found.findings
    row = next(row for row in found.queues if row.queue.topic == topic)
    assert (row.lag, row.owners, row.blocked) == (1, (), None), "who has it is not known"


async def test_each_member_of_a_broadcasting_group_has_a_place_of_its_own(
    cluster: LocalCluster, topic: str, group: str
) -> None:
    await fill(cluster, topic, 2, queues=1)
    gate, heard = asyncio.Event(), Heard()

    async def stuck(message: MessageExt) -> None:
        await gate.wait()

    def member(name: str, listen: Callable[[MessageExt], Awaitable[None]]) -> PushConsumer:
        return PushConsumer(
            group,
            cluster.namesrv,
            {topic: "*"},
            listen,
            start_from="earliest",
            broadcasting=True,
            offset_store=MemoryOffsets(),
            instance_name=name,
        )

    quick, slow = member("quick", heard), member("slow", stuck)
    async with quick, slow, AdminClient(cluster.namesrv) as admin:
        await heard.wait_for(2)
        found = await described(admin, group, lambda it: sorted(row.lag for row in it.queues) == [0, 2])
        expected = {(quick.client_id,): 0, (slow.client_id,): 2}
        gate.set()
    assert found.model is MessageModel.BROADCASTING
    assert {row.owners: row.lag for row in found.queues} == expected


async def test_retries_and_dead_letters_are_counted(cluster: LocalCluster, topic: str, group: str) -> None:
    await fill(cluster, topic, 2, queues=1)

    async def listen(message: MessageExt) -> None:
        raise DeadLetter("no account")

    async with (
        PushConsumer(group, cluster.namesrv, {topic: "*"}, listen, start_from="earliest"),
        AdminClient(cluster.namesrv) as admin,
    ):
        found = await described(admin, group, lambda it: bool(it.dead_letters and it.dead_letters.messages == 2))
    assert found.retries is not None
    assert (found.retries.topic, found.retries.messages) == (f"%RETRY%{group}", 0)
    assert found.findings[-1] == f"2 dead letters: see `pyromq dlq show {group}`"


async def test_what_is_missing_is_told(topic: str, group: str) -> None:
    async with LocalCluster() as cluster, await BrokerApi.connect(cluster.namesrv) as api:
        await register_broker(api, "broker-z", "127.0.0.1:1")
        async with (
            PushConsumer(group, cluster.namesrv, {"TBW102": "*", topic: "*"}, Heard()),
            AdminClient(cluster.namesrv) as admin,
        ):
            found = await admin.groups.describe(group, watch=0)
            listing = await admin.groups.list()
            with pytest.raises(GroupNotFound, match=f"broker-z did not answer; did you mean {group}"):
                await admin.groups.describe(group + "x")
    assert found.silent_brokers.keys() == listing.silent_brokers.keys() == {"broker-z"}
    assert found.findings[0].startswith("broker-z does not answer: ")
    assert f"no broker has the topic {topic}, which it subscribes to" in found.findings
    assert group in {each.group for each in listing.groups}


async def test_nobody_knows_a_group_that_never_was(cluster: LocalCluster) -> None:
    async with AdminClient(cluster.namesrv) as admin:
        with pytest.raises(GroupNotFound, match=r"no broker knows the group 'zzz'$"):
            await admin.groups.describe("zzz")


async def test_rocketmqs_own_groups_can_be_told_apart(cluster: LocalCluster, topic: str, group: str) -> None:
    await fill(cluster, topic, 3, queues=1)
    async with LitePullConsumer(group, cluster.namesrv, {topic: "*"}), AdminClient(cluster.namesrv) as admin:
        groups = {each.group: each for each in (await admin.groups.list()).groups}
    assert groups["TOOLS_CONSUMER"].is_built_in
    own = groups[group]
    assert (own.is_built_in, own.members, own.model, own.topics) == (False, 1, MessageModel.CLUSTERING, (topic,))
    assert own.lag == 3, "nothing is committed yet"
