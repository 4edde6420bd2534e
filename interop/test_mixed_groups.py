"""Members of both clients in one group share the queues, with any allocation strategy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import NamedTuple

import pytest

from interop.conftest import Cluster
from interop.inbox import Inbox
from interop.peer import JavaConsumer, Peer
from interop.servers import Broker, NameServer
from interop.toolkit import Toolkit
from pyromq import (
    Message,
    MessageQueue,
    Producer,
    PushConsumer,
    allocate_averagely,
    allocate_by_circle,
    allocate_by_config,
    allocate_by_consistent_hash,
    allocate_by_machine_room,
    allocate_nearby,
)
from pyromq.client.group.allocation import Allocate
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.testing import eventually

BROKERS = ("north@a", "south@b")  # machine room and name
QUEUES = 4  # on each
EACH = 5
PATIENCE = 100.0  # a lock that was not released expires after 60 s

Place = tuple[str, int]
"""A queue, by broker and number."""


class Member(NamedTuple):
    """A member of the group."""

    instance: str
    """Its machine room and name."""
    numbers: tuple[int, ...]
    """Its queues on each broker, if they are configured."""


JAVA = (Member("north-java", (0,)), Member("south-java", (1, 3)))
PYTHON = Member("north-python", (2,))


def by_config(topic: str, member: Member) -> Allocate:
    return allocate_by_config([MessageQueue(topic, broker, number) for broker in BROKERS for number in member.numbers])


def nearby(topic: str, member: Member) -> Allocate:
    return allocate_nearby(
        room_of_queue=lambda queue: queue.broker_name.split("@")[0],
        room_of_member=lambda client_id: client_id.split("@")[1].split("-")[0],
    )


WAYS: dict[str, Callable[[str, Member], Allocate]] = {
    "AllocateMessageQueueAveragely": lambda topic, member: allocate_averagely,
    "AllocateMessageQueueAveragelyByCircle": lambda topic, member: allocate_by_circle,
    "AllocateMessageQueueConsistentHash": lambda topic, member: allocate_by_consistent_hash(),
    "AllocateMessageQueueByConfig": by_config,
    "AllocateMessageQueueByMachineRoom": lambda topic, member: allocate_by_machine_room(["north"]),
    "AllocateMachineRoomNearby": nearby,
}
"""Apache's name of a strategy, and our equivalent for a member."""
ONLY_NORTH = "AllocateMessageQueueByMachineRoom"


@pytest.fixture(scope="module", params=["pyromq", "apache"])
def cluster(
    request: pytest.FixtureRequest, toolkit: Toolkit, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """Two brokers, each in a machine room of its own."""
    kind, directory = request.param, tmp_path_factory.mktemp("rooms")
    with ExitStack() as stack:
        namesrv = stack.enter_context(NameServer(kind, toolkit, directory / "namesrv")).address
        brokers = [
            stack.enter_context(Broker(kind, toolkit, directory / name, namesrv, {"brokerName": name}))
            for name in BROKERS
        ]
        yield Cluster(kind, namesrv, ",".join(broker.address for broker in brokers))


@pytest.mark.parametrize("orderly", [False, True], ids=["concurrent", "orderly"])
@pytest.mark.parametrize("way", WAYS)
async def test_java_and_python_members_share_the_queues(
    cluster: Cluster, java: Peer, name: str, way: str, orderly: bool
) -> None:
    await make_topic(cluster, name)
    inbox = Inbox()
    ours = PushConsumer(
        name,
        cluster.namesrv,
        {name: "*"},
        inbox,
        allocate=WAYS[way](name, PYTHON),
        orderly=orderly,
        instance_name=PYTHON.instance,
    )
    with ExitStack() as stack:
        theirs = [
            stack.enter_context(
                java.push(cluster.namesrv, name, name, allocate=way, orderly=orderly, **java_options(member))
            )
            for member in JAVA
        ]
        async with ours:
            shares = expected(name, way, [*(one.client_id for one in theirs), ours.client_id])
            await eventually(
                lambda: [*(javas(one, name) for one in theirs), pythons(ours)] == shares, seconds=PATIENCE, pause=0.05
            )
            await fill(cluster, name)
            *of_java, of_python = [dict.fromkeys(share, EACH) for share in shares]
            taken = await inbox.take(sum(of_python.values()))
            assert Counter((one.broker_name, one.queue_id) for one in taken) == of_python
            for one, share in zip(theirs, of_java, strict=True):
                facts = one.take(sum(share.values()))
                assert Counter((fact["broker"], fact["queue_id"]) for fact in facts) == share
            assert await inbox.rest() == []
            assert [one.rest(0.1) for one in theirs] == [[], []]


async def make_topic(cluster: Cluster, name: str) -> None:
    async with await BrokerApi.connect(cluster.namesrv) as api:
        for broker in cluster.broker.split(","):
            await api.create_topic(broker, name, QUEUES)


def java_options(member: Member) -> dict[str, str]:
    numbers = ",".join(str(number) for number in member.numbers)
    return {"instance": member.instance, "numbers": numbers, "brokers": ",".join(BROKERS), "room": "north"}


def expected(topic: str, way: str, client_ids: list[str]) -> list[set[Place]]:
    """Return what our strategy gives to each member: every queue of all relevant rooms, once."""
    queues = [MessageQueue(topic, broker, number) for broker in BROKERS for number in range(QUEUES)]
    shares = [
        {(queue.broker_name, queue.queue_id) for queue in WAYS[way](topic, member)(queues, sorted(client_ids), me)}
        for member, me in zip((*JAVA, PYTHON), client_ids, strict=True)
    ]
    brokers = BROKERS[:1] if way == ONLY_NORTH else BROKERS
    assert sorted(place for share in shares for place in share) == [(b, n) for b in brokers for n in range(QUEUES)]
    return shares


def javas(consumer: JavaConsumer, topic: str) -> set[Place]:
    return {(broker, number) for queue_topic, broker, number in consumer.queues() if queue_topic == topic}


def pythons(consumer: PushConsumer) -> set[Place]:
    return {(queue.broker_name, queue.queue_id) for queue in consumer.assignment}


async def fill(cluster: Cluster, topic: str, text: bytes = b"body") -> set[str]:
    """Send the same number of messages to every queue and return their bodies."""
    bodies = set()
    async with Producer("python-producers", cluster.namesrv) as producer:
        for queue in await producer.queues(topic):
            for number in range(EACH):
                body = b"%s %d of %s %d" % (text, number, queue.broker_name.encode(), queue.queue_id)
                await producer.send(Message(topic=topic, body=body), queue=queue)
                bodies.add(body.decode())
    return bodies


async def test_broadcasting_gives_each_of_them_every_message(
    cluster: Cluster,
    java: Peer,
    name: str,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path_factory.mktemp("home")))  # where broadcasting keeps its offsets
    await make_topic(cluster, name)
    inbox = Inbox()
    bodies = await fill(cluster, name)
    with java.push(cluster.namesrv, name, name, broadcasting=True) as theirs:
        async with PushConsumer(name, cluster.namesrv, {name: "*"}, inbox, broadcasting=True, start_from="earliest"):
            taken = [one.body.decode() for one in await inbox.take(len(bodies))]
            assert sorted(taken) == sorted(fact["body"] for fact in theirs.take(len(bodies))) == sorted(bodies)


@pytest.mark.parametrize("orderly", [False, True], ids=["concurrent", "orderly"])
async def test_each_takes_over_from_the_other(cluster: Cluster, java: Peer, name: str, orderly: bool) -> None:
    """Java asks for an offset before Python has committed it, so without locks the last messages arrive twice."""
    await make_topic(cluster, name)
    inbox = Inbox()
    everywhere = {(broker, number) for broker in BROKERS for number in range(QUEUES)}

    def ours() -> PushConsumer:
        return PushConsumer(name, cluster.namesrv, {name: "*"}, inbox, orderly=orderly, start_from="earliest")

    async with ours() as python:
        with java.push(cluster.namesrv, name, name, orderly=orderly) as theirs:
            await eventually(lambda: (len(pythons(python)), len(javas(theirs, name))) == (4, 4), pause=0.05)
            first = await fill(cluster, name, b"first")
            both = {one.body.decode() for one in await inbox.take(len(first) // 2)}
            assert both | {fact["body"] for fact in theirs.take(len(first) // 2)} == first
        await eventually(lambda: pythons(python) == everywhere, pause=0.05)
        second = await fill(cluster, name, b"second")
        assert {one.body.decode() for one in await inbox.take(len(second))} == second
        assert await inbox.rest() == []
        with java.push(cluster.namesrv, name, name, orderly=orderly) as theirs:
            await eventually(lambda: len(javas(theirs, name)) == 4, pause=0.05)
            await python.close()
            await eventually(lambda: javas(theirs, name) == everywhere, pause=0.05)
            third = await fill(cluster, name, b"third")
            theirs.take_all(third, repeats=set() if orderly else second)
