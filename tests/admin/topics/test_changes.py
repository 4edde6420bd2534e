"""Topics created and changed on real brokers."""

from __future__ import annotations

import pytest

from pyromq import Message, Producer, blocking
from pyromq.admin import AdminClient
from pyromq.admin.topics.changes import parse_perm
from pyromq.client.net.calls.admin_calls import AdminCalls
from pyromq.errors import ClientError, InvalidName, NoPermission, NoRoute
from pyromq.testing import LocalCluster
from tests.client.helpers import register_broker


async def test_a_topic_is_created_on_the_whole_cluster(pair: LocalCluster, admin: AdminClient, topic: str) -> None:
    planned = await admin.topics.plan_create(topic, read_queues=3, write_queues=2)
    with pytest.raises(NoRoute):
        await admin.topics.describe(topic)
    assert planned == await admin.topics.create(topic, read_queues=3, write_queues=2)
    found = await admin.topics.describe(topic)
    shapes = {name: (data.read_queue_nums, data.write_queue_nums) for name, data in found.settings.items()}
    assert shapes == {"broker-a": (3, 2), "broker-b": (3, 2)}
    assert found.order is None
    async with Producer("shop", pair.namesrv) as producer:
        await producer.send(Message(topic=topic, body=b"x"))


async def test_some_brokers_get_a_topic_and_the_others_later(admin: AdminClient, topic: str) -> None:
    await admin.topics.create(topic, brokers=["broker-b"])
    assert (await admin.topics.describe(topic)).settings.keys() == {"broker-b"}
    with pytest.raises(ClientError, match="already exists on broker-b; change it with `topic set` or `topic resize`"):
        await admin.topics.create(topic)
    await admin.topics.create(topic, brokers=["broker-a"], perm="r")
    assert {name: data.perm for name, data in (await admin.topics.describe(topic)).settings.items()} == {
        "broker-a": 4,
        "broker-b": 6,
    }


async def order_flags(cluster: LocalCluster, admin: AdminClient, topic: str) -> list[bool]:
    """Return whether brokers know a topic as ordered."""
    calls = AdminCalls(admin.api.remoting)
    return [(await calls.topic_configs(broker.address))[topic].order for broker in cluster.brokers]


async def test_order_is_known_to_name_servers_and_brokers_at_once(
    pair: LocalCluster, admin: AdminClient, topic: str
) -> None:
    await admin.topics.create(topic, read_queues=2, write_queues=2, order=True)
    assert (await admin.topics.describe(topic)).order == "broker-a:2;broker-b:2"
    assert await order_flags(pair, admin, topic) == [True, True]
    await admin.topics.set(topic, order=False, broker="broker-a")
    assert (await admin.topics.describe(topic)).order == "broker-b:2"
    await admin.topics.set(topic, order=False)
    assert (await admin.topics.describe(topic)).order is None
    assert await order_flags(pair, admin, topic) == [False, False]


async def test_permissions_change_and_nothing_else(pair: LocalCluster, admin: AdminClient, topic: str) -> None:
    await admin.topics.create(topic, brokers=["broker-a"], read_queues=3, write_queues=2)
    planned = await admin.topics.plan_set(topic, perm="r")
    assert (await admin.topics.describe(topic)).settings["broker-a"].perm == 6
    assert planned == await admin.topics.set(topic, perm="r")
    found = (await admin.topics.describe(topic)).settings["broker-a"]
    assert (found.read_queue_nums, found.write_queue_nums, found.perm) == (3, 2, 4)
    async with Producer("shop", pair.namesrv, retries=0) as producer:
        with pytest.raises((NoPermission, ClientError)):
            await producer.send(Message(topic=topic, body=b"x"))


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"cluster": "DefaultClust"}, "there is no cluster 'DefaultClust'; did you mean DefaultCluster?"),
        ({"brokers": ["broker-c"]}, "there is no broker 'broker-c'; did you mean broker-"),
        ({"cluster": "DefaultCluster", "brokers": ["broker-a"]}, "not both"),
        ({"read_queues": 0}, "1 to 65535 read queues"),
        ({"write_queues": 65_536}, "1 to 65535 write queues"),
        ({"perm": "x"}, "rw .6., r .4. or w .2."),
        ({"perm": 0}, "rw .6., r .4. or w .2."),
    ],
)
async def test_what_cannot_be_created_is_refused(
    admin: AdminClient, topic: str, changes: dict[str, object], text: str
) -> None:
    with pytest.raises(ClientError, match=text):
        await admin.topics.create(topic, **changes)  # type: ignore[arg-type]
    assert topic not in await admin.topics.names()


async def test_names_are_checked(admin: AdminClient) -> None:
    with pytest.raises(InvalidName, match="characters other than"):
        await admin.topics.create("a topic")
    for name in ("TBW102", "SCHEDULE_TOPIC_XXXX", "DefaultCluster", "broker-a"):
        with pytest.raises(ClientError, match="RocketMQ's own"):
            await admin.topics.create(name)
        with pytest.raises(ClientError, match="RocketMQ's own"):
            await admin.topics.set(name, perm="r")


async def test_a_topic_to_change_must_exist(admin: AdminClient, topic: str) -> None:
    await admin.topics.create(topic, brokers=["broker-a"])
    with pytest.raises(NoRoute, match=f"no broker has the topic '{topic}x'; did you mean {topic}?"):
        await admin.topics.set(f"{topic}x", perm="r")
    with pytest.raises(ClientError, match=f"'broker-b' does not have the topic '{topic}'; broker-a"):
        await admin.topics.set(topic, perm="r", broker="broker-b")
    with pytest.raises(ClientError, match="nothing to change"):
        await admin.topics.set(topic)


async def test_with_a_broker_away_nothing_is_changed(topic: str) -> None:
    async with LocalCluster() as cluster, AdminClient(cluster.namesrv) as admin:
        await admin.topics.create(topic)
        await register_broker(admin.api, "broker-z", "127.0.0.1:1", "another")
        for change in (admin.topics.create("new"), admin.topics.set(topic, perm="r")):
            with pytest.raises(ClientError, match="broker-z does not answer, so nothing was changed"):
                await change
        assert "new" not in await admin.topics.names()
        assert (await admin.topics.describe(topic)).settings["broker-a"].perm == 6


def test_a_name_server_that_is_away_is_named(topic: str) -> None:
    with LocalCluster() as cluster, blocking.AdminClient(f"{cluster.namesrv};127.0.0.1:1") as admin:
        with pytest.raises(ClientError, match=r"name server 127\.0\.0\.1:1 was not told, so run this again later"):
            admin.topics.create(topic, order=True)
        assert admin.topics.describe(topic).order == "broker-a:8"


def test_blocking_clients_can_do_the_same(topic: str) -> None:
    with LocalCluster() as cluster, blocking.AdminClient(cluster.namesrv) as admin:
        assert admin.topics.plan_create(topic) == admin.topics.create(topic)
        assert admin.topics.plan_set(topic, perm="w") == admin.topics.set(topic, perm="w")
        assert admin.topics.describe(topic).settings["broker-a"].perm == 2


@pytest.mark.parametrize(("text", "number"), [("rw", 6), ("WR", 6), ("r", 4), ("w", 2), ("6", 6), (4, 4), ("2", 2)])
def test_permissions_are_letters_or_numbers(text: str | int, number: int) -> None:
    assert parse_perm(text) == number
