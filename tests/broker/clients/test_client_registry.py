from __future__ import annotations

from typing import cast

import pytest
from msgspec import structs

from pyromq.broker.clients.client_registry import Client, ClientRegistry, group_subscription
from pyromq.broker.config.limits import BrokerLimits
from pyromq.errors import BrokerError
from pyromq.protocol.bodies import ConsumerData, HeartbeatData, MessageModel, ProducerData, SubscriptionData
from pyromq.protocol.codes import LanguageCode
from pyromq.protocol.tag_filter import java_hash
from pyromq.remoting.connection import Connection


class Socket:
    """Stands for a connection: the registry only tells them apart."""

    peer = "10.0.0.1:1"


def client(name: str, seen: float = 0.0) -> Client:
    connection = cast(Connection, Socket())
    return Client(connection=connection, client_id=name, language=LanguageCode.JAVA, version=409, seen=seen)


def consumer(group: str = "billing", version: int = 1, **topics: str) -> ConsumerData:
    wanted = [SubscriptionData(topic=topic, sub_string=tags, sub_version=version) for topic, tags in topics.items()]
    return ConsumerData(group_name=group, subscription_data_set=wanted)


def register(registry: ClientRegistry, data: ConsumerData, member: Client) -> bool:
    return registry.register_consumer(data, member, map(group_subscription, data.subscription_data_set))


def test_a_group_changes_when_a_member_or_a_topic_comes_or_goes() -> None:
    registry = ClientRegistry()
    first, second = client("first"), client("second")
    assert register(registry, consumer(orders="*"), first)
    assert not register(registry, consumer(orders="*"), first)
    assert register(registry, consumer(orders="*"), second)
    assert register(registry, consumer(orders="*", refunds="*"), second)
    assert register(registry, consumer(refunds="*"), second)
    assert registry.consumer_ids("billing") == ["first", "second"]
    assert registry.unregister_consumer("billing", first.connection)
    assert not registry.unregister_consumer("billing", first.connection)
    assert registry.consumer_ids("billing") == ["second"]


def test_only_what_changes_for_pulls_is_told() -> None:
    registry = ClientRegistry()
    member, other = client("first"), client("second")
    told: list[int] = []
    registry.subscribed.subscribe(lambda: told.append(1))

    def tells(data: ConsumerData, who: Client) -> bool:
        told.clear()
        register(registry, data, who)
        return bool(told)

    assert tells(consumer(orders="a"), member)
    assert not tells(consumer(orders="a"), member)
    assert not tells(consumer(orders="a"), other)
    assert tells(consumer(version=2, orders="b"), other)
    assert not tells(consumer(version=1, orders="c"), member), "an older one replaces nothing"
    assert tells(structs.replace(consumer(version=2, orders="b"), message_model=MessageModel.BROADCASTING), member)
    told.clear()
    registry.drop(member.connection)
    assert not told
    registry.drop(other.connection)
    assert told, "the group is gone"


def test_only_a_newer_subscription_replaces_one() -> None:
    registry = ClientRegistry()
    member = client("first")
    register(registry, consumer(version=5, orders="a"), member)
    assert not register(registry, consumer(version=4, orders="b"), member)
    assert registry.consumers["billing"].subscriptions["orders"].data.sub_string == "a"
    assert not register(registry, consumer(version=6, orders="b"), member)
    assert registry.consumers["billing"].subscriptions["orders"].codes == frozenset({java_hash("b")})


def test_a_closed_connection_leaves_all_its_groups() -> None:
    registry = ClientRegistry()
    first, second = client("first"), client("second")
    registry.register_producer("shop", first)
    register(registry, consumer("g1", orders="*"), first)
    register(registry, consumer("g2", orders="*"), first)
    register(registry, consumer("g2", orders="*"), second)
    assert sorted(registry.drop(first.connection)) == ["g1", "g2"]
    assert list(registry.consumers) == ["g2"]
    assert registry.producers == {}
    assert registry.drop(first.connection) == []


def test_every_client_id_of_a_closed_connection_is_forgotten() -> None:
    registry = ClientRegistry()
    first = client("first")
    registry.register_producer("shop", first)
    registry.register_producer("mill", first)
    registry.register_producer("mill", structs.replace(first, client_id="second"))
    registry.register_producer("mint", structs.replace(first, client_id="third"))
    assert registry.producer_connection("first") is first.connection
    registry.drop(first.connection)
    assert [registry.producer_connection(name) for name in ("first", "second", "third")] == [None] * 3


def test_clients_that_went_silent_are_found_once() -> None:
    registry = ClientRegistry()
    silent, loud = client("silent", seen=10.0), client("loud", seen=200.0)
    for member in (silent, loud):
        registry.register_producer("shop", member)
        register(registry, consumer(orders="*"), member)
    assert registry.silent(since=100.0) == [silent]


@pytest.mark.parametrize(
    ("expression", "codes", "expected"),
    [
        ("*", [], None),
        ("", [], None),
        ("a || b", [], {java_hash("a"), java_hash("b")}),  # some clients leave the hashes out
        ("a", [7], {7}),
        ("||", [], set()),
        (" ", [], set()),
    ],
)
def test_a_subscription_knows_the_tags_it_wants(expression: str, codes: list[int], expected: set[int] | None) -> None:
    found = group_subscription(SubscriptionData(topic="orders", sub_string=expression, code_set=codes))
    assert found.codes == expected
    assert found.is_tags


def test_an_sql_expression_is_not_taken_for_tags() -> None:
    found = group_subscription(SubscriptionData(topic="orders", sub_string="a > 5", expression_type="SQL92"))
    assert found.codes is None
    assert not found.is_tags


def test_a_client_has_so_many_subscriptions() -> None:
    registry = ClientRegistry(BrokerLimits(max_subscriptions_per_client=3))
    member = client("first")
    subscriptions = [SubscriptionData(topic=name, sub_string="*") for name in ("a", "b")]
    consumers = [ConsumerData(group_name=name, subscription_data_set=subscriptions) for name in ("g1", "g2")]
    registry.check_room(member.connection, HeartbeatData(client_id="first", consumer_data_set=consumers[:1]))
    with pytest.raises(BrokerError, match="has 4 subscriptions, the limit is 3") as raised:
        registry.check_room(member.connection, HeartbeatData(client_id="first", consumer_data_set=consumers))
    assert raised.value.limit == "pyromqMaxSubscriptionsPerClient"


def test_a_client_can_be_in_so_many_groups_and_all_together_in_so_many() -> None:
    registry = ClientRegistry(BrokerLimits(max_groups_per_client=3, max_members=4))

    def beat(member: Client, *groups: str) -> None:
        data = HeartbeatData(client_id=member.client_id, producer_data_set=[ProducerData(group) for group in groups])
        registry.check_room(member.connection, data)
        for group in groups:
            registry.register_producer(group, member)

    first, second = client("first"), client("second")
    beat(first, "a", "b")
    beat(first, "a", "b", "c")
    with pytest.raises(BrokerError, match="a client can be in 3 groups"):
        beat(first, "d")
    beat(second, "a")
    with pytest.raises(BrokerError, match="have 4 members already"):
        beat(second, "b")
    registry.drop(first.connection)
    beat(second, "b", "c")


def test_names_that_a_client_makes_up_for_itself_are_forgotten() -> None:
    registry = ClientRegistry()
    connection = client("0").connection
    for number in range(10):
        registry.register_producer("shop", structs.replace(client(str(number)), connection=connection))
    assert [registry.producer_connection(str(number)) for number in (8, 9)] == [None, connection]
    registry.drop(connection)
    assert registry._producer_ids == {}
