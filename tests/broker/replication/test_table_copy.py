"""Topics, groups and committed offsets go with the log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from pyromq import Message, MessageQueue
from pyromq.blocking import Producer
from pyromq.broker.tables.topic_table import topic_config
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.protocol.bodies import SubscriptionGroupConfig
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import request
from pyromq.protocol.headers.admin import DeleteTopicInBrokerRequestHeader
from pyromq.remoting.client import RemotingClient
from pyromq.testing import LocalCluster, wait_until
from tests.broker.replication.test_replication import same_logs, send, server


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[LocalCluster]:
    with LocalCluster(slaves=1, data=tmp_path) as cluster:
        send(cluster, b"one")
        wait_until(lambda: same_logs(cluster))
        wait_until(lambda: "orders" in server(cluster.slaves[0]).topics.by_name)
        yield cluster


def on_loop(cluster: LocalCluster, work: Callable[[], object]) -> None:
    async def run() -> None:
        work()

    cluster._portal.call(run())


def test_a_slave_knows_the_topics_and_groups_of_its_master(pair: LocalCluster) -> None:
    master, slave = server(pair.brokers[0]), server(pair.slaves[0])
    on_loop(pair, lambda: master.topics.update(topic_config("paid", 3)))
    on_loop(pair, lambda: master.groups.update(SubscriptionGroupConfig(group_name="billing", retry_max_times=2)))
    wait_until(lambda: (topic := slave.topics.get("paid")) is not None and topic.read_queues == 3)
    wait_until(lambda: "billing" in slave.groups.by_name)
    assert slave.groups.by_name["billing"].retry_max_times == 2
    assert slave.topics.version == master.topics.version


def test_a_topic_that_is_deleted_is_deleted_at_the_slave(pair: LocalCluster) -> None:
    slave = server(pair.slaves[0])
    on_loop(pair, lambda: server(pair.brokers[0]).groups.delete("billing"))
    _delete_topic(pair, "orders")
    wait_until(lambda: "orders" not in slave.topics.by_name)
    assert slave.store.queue_ids("orders") == []
    send(pair, b"two", b"three")
    wait_until(lambda: same_logs(pair))
    wait_until(lambda: _count(pair, "orders") == 2)


def test_committed_offsets_follow_also_back(pair: LocalCluster) -> None:
    master, slave = server(pair.brokers[0]), server(pair.slaves[0])
    on_loop(pair, lambda: master.offsets.commit("billing", "orders", 0, 7, "test"))
    wait_until(lambda: slave.offsets.get("billing", "orders", 0) == 7)
    on_loop(pair, lambda: master.offsets.commit("billing", "orders", 0, 2, "test"))
    wait_until(lambda: slave.offsets.get("billing", "orders", 0) == 2)


def test_what_was_committed_at_the_slave_meanwhile_counts_if_it_is_greater(pair: LocalCluster) -> None:
    with Producer("shop", pair.namesrv, clock=pair.clock) as producer:
        for _ in range(10):
            producer.send(Message("orders", b"x"), queue=MessageQueue("orders", "broker-a", 0))
    master, slave = server(pair.brokers[0]), server(pair.slaves[0])
    on_loop(pair, lambda: master.offsets.commit("billing", "orders", 0, 5, "test"))
    on_loop(pair, lambda: master.offsets.commit("audit", "orders", 0, 5, "test"))
    wait_until(lambda: slave.offsets.get("audit", "orders", 0) == 5)
    pair.stop_broker(0)
    on_loop(pair, lambda: slave.offsets.commit("billing", "orders", 0, 9, "test"))
    pair.start_broker(0)
    master = server(pair.brokers[0])
    wait_until(lambda: master.offsets.get("billing", "orders", 0) == 9)
    assert master.offsets.get("audit", "orders", 0) == 5
    assert slave.offsets.get("billing", "orders", 0) == 9


def test_a_reset_while_the_slave_was_away_is_not_undone(pair: LocalCluster) -> None:
    master, slave = server(pair.brokers[0]), server(pair.slaves[0])
    on_loop(pair, lambda: master.offsets.commit("billing", "orders", 0, 5, "test"))
    wait_until(lambda: slave.offsets.get("billing", "orders", 0) == 5)
    pair.stop_broker(pair.slaves[0])
    on_loop(pair, lambda: master.offsets.commit("billing", "orders", 0, 1, "test"))
    pair.start_broker(pair.slaves[0])
    wait_until(lambda: server(pair.slaves[0]).offsets.get("billing", "orders", 0) == 1)
    assert master.offsets.get("billing", "orders", 0) == 1


def test_a_promoted_slave_goes_on_with_delays_offsets_and_topics(pair: LocalCluster) -> None:
    master, slave = pair.brokers[0], pair.slaves[0]
    on_loop(pair, lambda: server(master).offsets.commit("billing", "orders", 0, 1, "test"))
    _send_delayed(pair, b"later")
    wait_until(lambda: same_logs(pair))
    wait_until(lambda: server(slave).offsets.get("billing", "orders", 0) == 1)
    pair.stop_broker(master)
    pair.promote(slave)
    pair.clock.advance(seconds=40)
    wait_until(lambda: server(slave).http_info()["timed_messages_delivered"] == 1)
    assert server(slave).offsets.get("billing", "orders", 0) == 1


def test_a_promoted_slave_takes_what_administrators_change(pair: LocalCluster) -> None:
    slave = pair.slaves[0]
    pair.stop_broker(pair.brokers[0])
    pair.promote(slave)

    async def create() -> None:
        async with await BrokerApi.connect(pair.namesrv, clock=pair.clock) as api:
            await api.create_topic(slave.address, "refunds", 3)

    pair._portal.call(create())
    assert server(slave).topics.get("refunds") is not None


def _send_delayed(cluster: LocalCluster, body: bytes) -> None:
    with Producer("shop", cluster.namesrv, clock=cluster.clock) as producer:
        producer.send(Message("orders", body), delay=timedelta(seconds=30))


def _delete_topic(cluster: LocalCluster, topic: str) -> None:
    async def ask() -> None:
        async with RemotingClient(cluster.clock) as remoting:
            command = request(RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicInBrokerRequestHeader(topic=topic))
            answer = await remoting.request(cluster.brokers[0].address, command)
            assert answer.code == 0

    cluster._portal.call(ask())


def _count(cluster: LocalCluster, topic: str) -> int:
    store = server(cluster.slaves[0]).store
    return sum(store.max_offset(topic, queue) for queue in store.queue_ids(topic))
