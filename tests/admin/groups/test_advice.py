"""Threads and members for a group: the formulas on reports, and real members that measure themselves."""

from __future__ import annotations

import asyncio
from time import thread_time

import pytest

from pyromq import LitePullConsumer, Message, MessageExt, Producer, PushConsumer
from pyromq.admin import AdminClient, GroupAdvice
from pyromq.admin.groups.advice import advise, member_load
from pyromq.admin.groups.snapshot import BrokerAnswer, GroupSnapshot, KnownMember
from pyromq.client.consume.consumer_stats import ListenerLoad
from pyromq.client.consume.listener_report import listener_property
from pyromq.errors import ClientError, GroupNotFound
from pyromq.protocol.bodies import (
    ClientConnection,
    ConsumerRunningInfo,
    ConsumeStats,
    ConsumeStatus,
    OffsetWrapper,
    ProcessQueueInfo,
)
from pyromq.protocol.codes import LanguageCode
from pyromq.protocol.messages.message import MessageQueue
from pyromq.testing import LocalCluster, eventually

QUEUES = [MessageQueue("orders", "broker-a", number) for number in range(4)]


def info(
    load: ListenerLoad | None,
    *,
    threads: int = 20,
    rate: float = 0.0,
    rt: float = 0.0,
    held: int = 0,
    consumed: int = 0,
    running: int = 0,
    orderly: bool = False,
    limit: float | None = None,
) -> ConsumerRunningInfo:
    """A member's report; without a load, one of Java's."""
    properties = {
        "PROP_CONSUME_TYPE": "CONSUME_PASSIVELY",
        "PROP_CONSUMEORDERLY": str(orderly).lower(),
        "PROP_THREADPOOL_CORE_SIZE": str(threads),
    }
    states = [ProcessQueueInfo(commit_offset=consumed, cached_msg_count=held // 4) for _ in QUEUES]
    return ConsumerRunningInfo(
        properties=properties | (listener_property(load, running, limit) if load else {}),
        mq_table=dict(zip(QUEUES, states, strict=True)),
        status_table={"orders": ConsumeStatus(consume_rt=rt, consume_ok_tps=rate)},
    )


def snapshot(*infos: ConsumerRunningInfo | str, end: int = 0, committed: int = 0) -> GroupSnapshot:
    """A group with these members; every queue has messages up to `end`."""
    rows = {queue: OffsetWrapper(broker_offset=end, consumer_offset=committed) for queue in QUEUES}
    names = [f"c-{number}" for number in range(len(infos))]
    languages = [
        LanguageCode.PYTHON if not isinstance(each, str) and "PYROMQ_LISTENER" in each.properties else LanguageCode.JAVA
        for each in infos
    ]
    members = {
        name: KnownMember(
            ClientConnection(client_id=name, client_addr="127.0.0.1:1", language=language, version=409), ["broker-a"]
        )
        for name, language in zip(names, languages, strict=True)
    }
    answer = BrokerAnswer({}, None, ConsumeStats(offset_table=rows))
    found = GroupSnapshot("billing", {"broker-a": answer}, {}, members, dict(zip(names, infos, strict=True)))
    found.subscriptions = {"orders": None}  # type: ignore[dict-item]
    return found


def advice(*infos: ConsumerRunningInfo | str, arrived: int = 0, peak: float | None = None, end: int = 0) -> GroupAdvice:
    before = snapshot(*infos, end=max(end - arrived, 0))
    return advise(before, snapshot(*infos, end=end), 10.0, peak)


def load(cpu_ms: float, wait_ms: float, *, calls: float = 0.0, peak: float = 0.0, measured: int = 100) -> ListenerLoad:
    return ListenerLoad(measured, cpu_ms, wait_ms, calls, peak)


# --- formulas


def test_threads_and_members_follow_the_formulas() -> None:
    found = advice(info(load(2.0, 80.0)), peak=1200)
    assert (found.cores, found.cpu_ms, found.wait_ms) == (1, 2.0, 80.0)
    assert found.threads == 41, "1 * (2 + 80) / 2"
    assert found.node_rate == pytest.approx(500.0), "a core has 1000 ms, a message needs 2"
    assert found.nodes == 3


def test_the_mean_of_members_counts_by_what_they_measured() -> None:
    found = advice(info(load(1.0, 9.0, measured=300)), info(load(5.0, 9.0, measured=100)), peak=100)
    assert (found.cpu_ms, found.wait_ms, found.threads) == (2.0, 9.0, 6)


def test_without_a_given_peak_the_highest_known_rate_counts() -> None:
    assert advice(info(load(1.0, 9.0, peak=300)), info(load(1.0, 9.0, peak=200))).peak_rate == 500.0
    found = advice(info(load(1.0, 9.0)), arrived=2000, end=2000)
    assert (found.arrival_rate, found.peak_rate) == (800.0, 800.0), "4 queues, 10 seconds"


def test_a_listener_that_hardly_computes_is_not_given_endless_threads() -> None:
    found = advice(info(load(0.0, 5000.0)), peak=1)
    assert found.threads == 1000
    assert any("its limit is what it waits for" in finding for finding in found.findings)


def test_more_members_than_queues_need_more_queues() -> None:
    found = advice(info(load(10.0, 0.0)), peak=1000)
    assert (found.nodes, found.queues) == (10, 4)
    assert "4 queues: 10 members need as many, see `pyromq topic resize`" in found.findings


# --- members of other kinds


def test_javas_members_say_what_is_missing_and_still_count() -> None:
    found = advice(info(None, threads=20, rate=100.0, rt=50.0), peak=1000)
    assert found.threads is None
    assert "member c-0: JAVA consumers report no CPU time" in found.findings
    assert found.node_rate == pytest.approx(400.0), "20 threads, 50 ms each"
    assert found.nodes == 3
    assert found.members[0].busy == pytest.approx(0.25), "5 of 20 threads"


def test_members_that_poll_or_are_silent_are_named() -> None:
    polling = ConsumerRunningInfo(properties={"PROP_CONSUME_TYPE": "CONSUME_ACTIVELY"})
    found = advice(polling, "it is old", peak=10)
    assert (found.threads, found.nodes) == (None, None)
    assert any(finding.startswith("member c-0: it polls") for finding in found.findings)
    assert "member c-1 does not report its state: it is old" in found.findings


def test_a_group_without_members_measured_nothing() -> None:
    with pytest.raises(ClientError, match="has no members: nothing was measured"):
        advice()


def test_an_orderly_member_has_as_many_places_as_queues() -> None:
    member = member_load("c", "PYTHON", info(load(1.0, 9.0, calls=3.0), threads=20, orderly=True))
    assert (member.places, member.busy) == (4, 0.75)
    assert member.capacity == pytest.approx(400.0)
    assert any("orderly" in finding for finding in advice(info(load(1.0, 9.0), orderly=True)).findings)


def test_a_limited_member_cannot_do_more() -> None:
    assert member_load("c", "PYTHON", info(load(1.0, 9.0), limit=30)).capacity == 30


# --- the bottleneck


@pytest.mark.parametrize(
    ("member", "end", "bottleneck", "reason"),
    [
        (info(load(1, 9, calls=19.0)), 1000, "handling", "listeners are busy 95% of the time"),
        (info(load(1, 9, calls=1.0), running=20), 1000, "handling", "listeners are busy 100% of the time"),
        (info(load(1, 1, calls=2.0), rate=900), 1000, "handling", "listeners compute 90% of the time"),
        (info(load(1, 9, calls=1.0), rate=10, limit=10, held=400), 100, "handling", "lets each handle 10 messages"),
        (info(load(1, 9, calls=4.0), held=400), 100, "handling", "400 messages were pulled and wait"),
        (info(load(1, 9, calls=4.0)), 1000, "pulling", "busy 20% of the time while 4,000 messages wait to be pulled"),
        (info(load(1, 9, calls=4.0)), 0, "none", "no message waits"),
        (info(load(1, 9, calls=4.0)), 5, "none", "hardly a message waits to be pulled"),
        (info(load(1, 9, calls=4.0), consumed=1000), 1000, "none", "no message waits"),
        (ConsumerRunningInfo(mq_table=dict.fromkeys(QUEUES, ProcessQueueInfo())), 1000, "none", "no member reports"),
    ],
)
def test_the_bottleneck_is_named(member: ConsumerRunningInfo, end: int, bottleneck: str, reason: str) -> None:
    found = advice(member, end=end)
    assert found.bottleneck == bottleneck
    assert reason in found.reason


# --- real members


async def send(cluster: LocalCluster, topic: str, count: int) -> None:
    async with Producer("filling", cluster.namesrv, clock=cluster.clock) as producer:
        for _ in range(count):
            await producer.send(Message(topic=topic, body=b"x"))


async def test_real_members_measure_themselves(cluster: LocalCluster, topic: str, group: str) -> None:
    await send(cluster, topic, 40)
    handled = 0

    async def listen(message: MessageExt) -> None:
        nonlocal handled
        end = thread_time() + 0.002
        while thread_time() < end:
            pass
        await asyncio.sleep(0.001)
        handled += 1

    async with (
        PushConsumer(group, cluster.namesrv, {topic: "*"}, listen, start_from="earliest", concurrency=4) as consumer,
        AdminClient(cluster.namesrv, clock=cluster.clock) as admin,
    ):
        await eventually(lambda: handled == 40)
        await consumer.commit()
        found = await admin.groups.advise(group, watch=0, peak=800)
    (member,) = found.members
    assert (member.language, member.threads, member.cores) == ("PYTHON", 4, 1)
    assert member.measured >= 3
    assert member.cpu_ms is not None
    assert 2.0 <= member.cpu_ms < 6.0
    assert (member.wait_ms or 0) >= 1.0
    assert found.threads is not None
    assert found.threads >= 2
    assert found.nodes is not None
    assert found.nodes >= 2, "a core handles at most 500 a second"
    assert found.queues == 4
    assert found.findings == ()


async def test_a_group_that_polls_and_one_that_does_not_exist(cluster: LocalCluster, topic: str, group: str) -> None:
    await send(cluster, topic, 1)
    async with AdminClient(cluster.namesrv, clock=cluster.clock) as admin:
        async with LitePullConsumer(group, cluster.namesrv, {topic: "*"}):
            found = await admin.groups.advise(group, watch=0)
            assert any("it polls" in finding for finding in found.findings)
        with pytest.raises(GroupNotFound, match="no broker knows the group 'nobody-here'"):
            await admin.groups.advise("nobody-here", watch=0)
