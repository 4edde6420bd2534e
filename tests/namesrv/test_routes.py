"""RouteTable by itself: who is known, who is routed to, and what goes when somebody leaves."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from pyromq.errors import BrokerError
from pyromq.namesrv.broker_registration import BrokerRegistration, TopicQueues
from pyromq.namesrv.routes import MasterAddress, RouteTable
from pyromq.protocol.bodies import DataVersion
from pyromq.protocol.bodies.json_steps import finish

A = "10.0.0.1:10911"
B = "10.0.0.2:10911"
C = "10.0.0.3:10911"
V1 = DataVersion(timestamp=1, counter=1)
V2 = DataVersion(timestamp=2, counter=2)


def topic(queues: int = 8, perm: int = 6, flag: int = 0) -> TopicQueues:
    return TopicQueues(read_queue_nums=queues, write_queue_nums=queues, perm=perm, topic_sys_flag=flag)


ORDERS = {"orders": topic()}


def broker(
    address: str = A,
    *,
    name: str = "broker-a",
    broker_id: int = 0,
    cluster: str = "C1",
    version: DataVersion = V1,
    topics: Mapping[str, TopicQueues] = ORDERS,
    filters: list[str] | None = None,
) -> BrokerRegistration:
    return BrokerRegistration(
        cluster=cluster,
        broker_name=name,
        broker_id=broker_id,
        address=address,
        ha_address=address.replace("10911", "10912"),
        data_version=version,
        topics=topics,
        filter_servers=filters,
    )


def table(*brokers: BrokerRegistration, now: float = 0.0, routes: RouteTable | None = None) -> RouteTable:
    """Return a table where these brokers registered, each over a connection that is its address."""
    routes = routes or RouteTable()
    for registration in brokers:
        routes.register(registration, registration.address, now)
    return routes


def addresses(routes: RouteTable, name: str = "orders") -> dict[str, dict[int, str]]:
    route = routes.route(name)
    return {data.broker_name: data.broker_addrs for data in route.broker_datas} if route else {}


def permissions(routes: RouteTable, name: str = "orders") -> dict[str, int]:
    route = routes.route(name)
    return {data.broker_name: data.perm for data in route.queue_datas} if route else {}


class TestRegistration:
    def test_a_master_brings_its_topics(self) -> None:
        route = table(broker()).route("orders")
        assert route is not None
        assert [(q.broker_name, q.read_queue_nums, q.write_queue_nums, q.perm) for q in route.queue_datas] == [
            ("broker-a", 8, 8, 6)
        ]
        assert [(b.cluster, b.broker_name, b.broker_addrs) for b in route.broker_datas] == [("C1", "broker-a", {0: A})]
        assert route.order_topic_conf is None
        assert route.filter_server_table == {}

    def test_an_unknown_topic_has_no_route(self) -> None:
        assert table(broker()).route("payments") is None

    def test_a_slave_adds_its_address_and_no_topics(self) -> None:
        routes = table(broker(), broker(B, broker_id=1, topics={"other": topic()}))
        assert addresses(routes) == {"broker-a": {0: A, 1: B}}
        assert routes.route("other") is None

    def test_two_masters_share_a_topic(self) -> None:
        routes = table(broker(), broker(B, name="broker-b", topics={"orders": topic(4)}))
        assert addresses(routes) == {"broker-a": {0: A}, "broker-b": {0: B}}

    def test_a_slave_learns_where_its_master_is(self) -> None:
        routes = table(broker())
        assert routes.register(broker(B, broker_id=1), B, 0) == MasterAddress(A, "10.0.0.1:10912")

    def test_a_slave_without_a_master_and_a_master_learn_nothing(self) -> None:
        routes = RouteTable()
        assert routes.register(broker(B, broker_id=1), B, 0) is None
        assert routes.register(broker(), A, 0) is None

    def test_a_slave_does_not_hear_of_a_master_that_is_gone(self) -> None:
        routes = table(broker(), broker(B, broker_id=1))
        routes.connection_lost(A)
        assert routes.register(broker(B, broker_id=1), B, 0) is None

    def test_a_changed_version_changes_a_topic(self) -> None:
        routes = table(broker(), broker(version=V2, topics={"orders": topic(16, perm=4)}))
        route = routes.route("orders")
        assert route is not None
        assert [(q.read_queue_nums, q.perm) for q in route.queue_datas] == [(16, 4)]

    def test_a_topic_left_out_stays_routed(self) -> None:
        routes = table(broker(), broker(version=V2, topics={"payments": topic()}))
        assert sorted(finish(routes.topics())) == ["orders", "payments"]

    def test_a_registration_of_one_topic_after_a_restart_hides_no_other(self) -> None:
        both = {"orders": topic(), "payments": topic()}
        routes = table(broker(topics={"payments": topic()}), broker(topics=both))
        assert sorted(finish(routes.topics())) == ["orders", "payments"]

    def test_a_slave_that_becomes_master_keeps_one_id(self) -> None:
        routes = table(broker(), broker(B, broker_id=1))
        routes.unregister(A)
        routes.register(broker(B, broker_id=0, topics={"orders": topic(2)}), B, 0)
        assert addresses(routes) == {"broker-a": {0: B}}
        route = routes.route("orders")
        assert route is not None
        assert route.queue_datas[0].read_queue_nums == 2

    def test_filter_servers_are_kept_left_and_removed(self) -> None:
        routes = table(broker(filters=["f:1"]))
        assert filters(routes) == {A: ["f:1"]}
        routes.register(broker(filters=None), A, 0)
        assert filters(routes) == {A: ["f:1"]}
        routes.register(broker(filters=[]), A, 0)
        assert filters(routes) == {}


def filters(routes: RouteTable) -> dict[str, list[str]]:
    route = routes.route("orders")
    return route.filter_server_table if route else {}


class TestVersions:
    def test_an_unknown_broker_has_changed(self) -> None:
        assert RouteTable().query_version(A, V1, 0) == (True, None)

    def test_another_version_has_changed_and_is_no_sign_of_life(self) -> None:
        routes = table(broker())
        assert routes.query_version(A, V2, 100) == (True, V1)
        assert routes.expire(121, 120) == [A]

    def test_the_same_version_is_a_sign_of_life(self) -> None:
        routes = table(broker())
        assert routes.query_version(A, V1, 100) == (False, V1)
        assert routes.expire(121, 120) == []


class TestLeaving:
    def test_the_last_address_takes_topics_and_cluster_with_it(self) -> None:
        routes = table(broker())
        routes.unregister(A)
        assert finish(routes.topics()) == []
        assert routes.cluster_info().cluster_addr_table == {}
        assert routes.cluster_info().broker_addr_table == {}

    def test_others_keep_what_they_share_with_the_one_that_left(self) -> None:
        routes = table(broker(), broker(B, name="broker-b"))
        routes.unregister(A)
        assert addresses(routes) == {"broker-b": {0: B}}
        assert routes.cluster_info().cluster_addr_table == {"C1": ["broker-b"]}

    def test_a_slave_stays_readable_without_its_master(self) -> None:
        routes = table(broker(), broker(B, broker_id=1))
        routes.unregister(A)
        assert addresses(routes) == {"broker-a": {1: B}}

    def test_a_late_goodbye_does_not_remove_the_successor(self) -> None:
        routes = table(broker(), broker(B))
        routes.unregister(A)
        assert addresses(routes) == {"broker-a": {0: B}}

    def test_a_goodbye_of_somebody_unknown_changes_nothing(self) -> None:
        routes = table(broker())
        routes.unregister(C)
        assert addresses(routes) == {"broker-a": {0: A}}

    def test_a_lost_connection_removes_its_broker(self) -> None:
        routes = table(broker(), broker(B, broker_id=1))
        routes.connection_lost(B)
        assert addresses(routes) == {"broker-a": {0: A}}

    def test_an_old_connection_does_not_take_a_broker_that_came_back_over_a_new_one(self) -> None:
        routes = RouteTable()
        old, new = object(), object()
        routes.register(broker(), old, 0)
        routes.register(broker(), new, 0)
        routes.connection_lost(old)
        assert addresses(routes) == {"broker-a": {0: A}}
        routes.connection_lost(new)
        assert addresses(routes) == {}

    def test_connections_are_told_apart_by_identity(self) -> None:
        routes = RouteTable()
        routes.register(broker(), [1], 0)
        routes.connection_lost([1])  # equal, and not the same
        assert addresses(routes) == {"broker-a": {0: A}}

    def test_silence_of_more_than_the_limit_removes_a_broker_and_names_its_connection(self) -> None:
        routes = table(broker(), now=5)
        routes.register(broker(B, broker_id=1), B, 100)
        assert routes.expire(125, 120) == []
        assert routes.expire(125.5, 120) == [A]
        assert addresses(routes) == {"broker-a": {1: B}}

    def test_a_restart_under_another_name_leaves_no_trace_of_the_old_one(self) -> None:
        routes = table(broker(name="old"), broker(name="new"))
        routes.connection_lost(A)
        assert routes.cluster_info().broker_addr_table == {}


class TestPermissions:
    def test_wiping_takes_writing_and_leaves_the_rest(self) -> None:
        routes = table(broker(topics={"orders": topic(perm=7), "payments": topic()}), broker(B, name="broker-b"))
        assert finish(routes.wipe_write("broker-a")) == 2
        assert permissions(routes) == {"broker-a": 5, "broker-b": 6}

    def test_wiped_topics_stay_so_while_the_broker_registers_unchanged(self) -> None:
        routes = table(broker())
        finish(routes.wipe_write("broker-a"))
        routes.register(broker(), A, 0)
        assert permissions(routes) == {"broker-a": 4}

    def test_a_changed_version_ends_a_wipe(self) -> None:
        routes = table(broker())
        finish(routes.wipe_write("broker-a"))
        routes.register(broker(version=V2), A, 0)
        assert permissions(routes) == {"broker-a": 6}

    def test_adding_gives_writing_back_and_keeps_the_inherit_bit(self) -> None:
        routes = table(broker(topics={"TBW102": topic(perm=7)}))
        finish(routes.wipe_write("broker-a"))
        assert finish(routes.add_write("broker-a")) == 1
        assert permissions(routes, "TBW102") == {"broker-a": 7}

    def test_an_unknown_broker_has_no_topics_to_touch(self) -> None:
        assert finish(table(broker()).wipe_write("broker-x")) == 0


class TestDeletingTopics:
    def test_a_deleted_topic_is_gone_and_one_that_never_was_does_no_harm(self) -> None:
        routes = table(broker())
        routes.delete_topic("orders")
        routes.delete_topic("orders")
        assert finish(routes.topics()) == []

    def test_a_cluster_limits_the_deletion(self) -> None:
        routes = table(broker(), broker(B, name="broker-b", cluster="C2"))
        routes.delete_topic("orders", "C2")
        assert addresses(routes) == {"broker-a": {0: A}}
        routes.delete_topic("orders", "no such cluster")
        assert addresses(routes) == {"broker-a": {0: A}}

    def test_a_deleted_topic_stays_away_until_its_broker_changes(self) -> None:
        routes = table(broker())
        routes.delete_topic("orders")
        routes.register(broker(), A, 0)
        assert finish(routes.topics()) == []
        routes.register(broker(version=V2), A, 0)
        assert finish(routes.topics()) == ["orders"]


class TestLists:
    def test_topics_of_a_cluster_are_those_of_its_brokers(self) -> None:
        routes = table(broker(), broker(B, name="broker-b", cluster="C2", topics={"payments": topic()}))
        assert finish(routes.topics_of_cluster("C1")) == ["orders"]
        assert finish(routes.topics_of_cluster("C3")) == []

    def test_topics_are_chosen_by_the_flag_of_their_first_broker(self) -> None:
        first = broker(topics={"unit": topic(flag=1), "plain": topic()})
        routes = table(first, broker(B, name="b", topics={"plain": topic(flag=1)}))
        assert finish(routes.topics(lambda flag: flag == 1)) == ["unit"]

    def test_system_topics_are_clusters_and_brokers(self) -> None:
        routes = table(broker(), broker(B, name="broker-b", cluster="C2"))
        assert routes.system_topics() == (["C1", "broker-a", "C2", "broker-b"], A)
        assert RouteTable().system_topics() == ([], None)

    def test_what_was_handed_out_does_not_change_later(self) -> None:
        routes = table(broker())
        info, route = routes.cluster_info(), routes.route("orders")
        routes.register(broker(B, broker_id=1), B, 0)
        finish(routes.wipe_write("broker-a"))
        assert info.broker_addr_table["broker-a"].broker_addrs == {0: A}
        assert route is not None
        assert route.queue_datas[0].perm == 6


class TestRoom:
    def test_brokers_members_and_clusters_are_limited(self) -> None:
        routes = table(broker(), broker(B, name="broker-b", cluster="C2"), routes=RouteTable(max_brokers=2))
        with pytest.raises(BrokerError, match="2 broker names"):
            routes.register(broker(C, name="broker-c"), C, 0)
        with pytest.raises(BrokerError, match="2 clusters"):
            routes.register(broker(cluster="C3"), A, 0)
        routes.register(broker(C, broker_id=1), C, 0)
        with pytest.raises(BrokerError, match="2 brokers of the name broker-a"):
            routes.register(broker("10.0.0.4:1", broker_id=2), 0, 0)
        routes.register(broker(), A, 0)
        assert addresses(routes) == {"broker-a": {0: A, 1: C}, "broker-b": {0: B}}

    def test_topics_of_all_brokers_together_are_limited(self) -> None:
        first, second = broker(topics={"a": topic(), "b": topic()}), broker(B, name="broker-b", topics={"a": topic()})
        routes = table(first, second, routes=RouteTable(max_topics=3))
        with pytest.raises(BrokerError, match="3 topics are registered already"):
            routes.register(broker(version=V2, topics={"a": topic(), "b": topic(), "c": topic()}), A, 0)
        routes.register(broker(version=V2, topics={"a": topic(4), "b": topic()}), A, 0)  # those it has it can change
        assert routes.counts().topics == 2

    def test_brokers_may_come_and_go_while_topics_are_listed(self) -> None:
        many = {f"t{number}": topic() for number in range(1500)}
        routes = table(broker(topics=many), broker(B, name="broker-b", topics={"other": topic()}))
        steps = routes.topics()
        next(steps)
        routes.unregister(A)
        routes.register(broker(C, name="broker-c", topics={"late": topic()}), C, 0)
        assert finish(steps) == [*many, "other"]
