"""LocalCluster: real servers in this process, their files, their restarts, and time that the test moves."""

from __future__ import annotations

import asyncio
import os
import tempfile
import threading
import time
from pathlib import Path

import pytest

from pyromq import LitePullConsumer, Message, MessageExt, Producer, SendStatus, blocking
from pyromq.errors import ConfigError, PyroMQError
from pyromq.testing import LocalCluster, TestClock


def send(cluster: LocalCluster, *bodies: bytes, topic: str = "orders") -> None:
    with blocking.Producer(group="shop", namesrv=cluster.namesrv, clock=cluster.clock) as producer:
        for body in bodies:
            producer.send(Message(topic=topic, body=body))


def receive(cluster: LocalCluster, count: int, topic: str = "orders") -> set[bytes]:
    found: set[bytes] = set()
    with blocking.LitePullConsumer(
        group="audit", namesrv=cluster.namesrv, subscriptions={topic: "*"}, start_from="earliest", clock=cluster.clock
    ) as consumer:
        while len(found) < count:
            found |= {message.body for message in consumer.poll(timeout=1.0)}
    return found


def broker_names(cluster: LocalCluster) -> set[str]:
    """Return the brokers that a producer would send to."""
    with blocking.Producer(group="shop", namesrv=cluster.namesrv) as producer:
        return {queue.broker_name for queue in producer.queues("BenchmarkTest")}


def test_messages_go_through_a_cluster() -> None:
    with LocalCluster() as cluster:
        send(cluster, b"one", b"two")
        assert receive(cluster, 2) == {b"one", b"two"}


async def test_it_works_in_async_tests_too() -> None:
    async with LocalCluster() as cluster, Producer(group="shop", namesrv=cluster.namesrv) as producer:
        await producer.send(Message(topic="orders", body=b"one"))


def test_a_cluster_can_be_started_again() -> None:
    cluster = LocalCluster()
    for _ in range(2):
        with cluster:
            send(cluster, b"one")


def test_its_files_go_when_it_ends() -> None:
    with LocalCluster() as cluster:
        send(cluster, b"one")
        data = cluster.data
        assert (data / "store" / "commitlog").is_dir()
        assert data.parent == Path(tempfile.gettempdir())
    assert not data.exists()


def test_files_in_a_directory_that_was_given_stay(tmp_path: Path) -> None:
    with LocalCluster(data=tmp_path) as cluster:
        send(cluster, b"one")
    with LocalCluster(data=tmp_path) as cluster:
        assert receive(cluster, 1) == {b"one"}


def test_several_brokers_form_one_cluster() -> None:
    with LocalCluster(brokers=3) as cluster:
        assert [broker.name for broker in cluster.brokers] == ["broker-a", "broker-b", "broker-c"]
        assert len({broker.address for broker in cluster.brokers}) == 3
        assert broker_names(cluster) == {"broker-a", "broker-b", "broker-c"}


def test_a_broker_stops_and_comes_back_with_its_address_and_messages() -> None:
    with LocalCluster(brokers=2) as cluster:
        send(cluster, *(str(number).encode() for number in range(8)))
        address = cluster.brokers[0].address
        cluster.stop_broker(0)
        cluster.stop_broker(0)
        assert not cluster.brokers[0].running
        assert broker_names(cluster) == {"broker-b"}
        cluster.start_broker(0)
        cluster.start_broker(0)
        assert cluster.brokers[0].address == address
        assert broker_names(cluster) == {"broker-a", "broker-b"}
        assert len(receive(cluster, 8)) == 8


def test_settings_are_those_of_broker_conf() -> None:
    with LocalCluster(settings={"autoCreateTopicEnable": False, "brokerClusterName": "Other"}) as cluster:
        server = cluster.brokers[0].server
        assert server is not None
        assert server.config.cluster == "Other"
        with pytest.raises(PyroMQError):
            send(cluster, b"one")


def test_a_wrong_setting_is_an_error_and_leaves_nothing_behind() -> None:
    threads = threading.active_count()
    cluster = LocalCluster(settings={"brokerNam": "x"})
    with pytest.raises(ConfigError, match="brokerName"):
        cluster.__enter__()
    assert not cluster.data.exists()
    assert cluster.clock.busy == []
    assert threading.active_count() <= threads


def test_two_clusters_can_share_a_clock() -> None:
    clock = TestClock()
    with LocalCluster(clock=clock) as first, LocalCluster(clock=clock) as second:
        assert first.clock is second.clock
        clock.advance(hours=1)
        assert broker_names(first) == broker_names(second) == {"broker-a"}


def test_brokers_live_through_a_far_advance_and_messages_bear_the_new_time() -> None:
    with LocalCluster(brokers=2) as cluster:
        send(cluster, b"before")
        before = cluster.clock.now_ms()
        cluster.clock.advance(hours=2)
        assert broker_names(cluster) == {"broker-a", "broker-b"}
        send(cluster, b"after")
        with blocking.LitePullConsumer(
            group="audit", namesrv=cluster.namesrv, subscriptions={"orders": "*"}, start_from="earliest"
        ) as consumer:
            messages: list[MessageExt] = []
            while len(messages) < 2:
                messages += consumer.poll(timeout=1.0)
        stored = {message.body: message.store_timestamp_ms for message in messages}
        assert stored[b"before"] <= before
        assert stored[b"after"] >= before + 7_200_000


async def test_a_consumer_on_the_same_clock_lives_through_a_far_advance() -> None:
    async with LocalCluster() as cluster:
        clock = cluster.clock
        async with (
            Producer(group="shop", namesrv=cluster.namesrv, clock=clock) as producer,
            LitePullConsumer(
                group="audit",
                namesrv=cluster.namesrv,
                subscriptions={"orders": "*"},
                start_from="earliest",
                clock=clock,
            ) as consumer,
        ):
            await producer.send(Message(topic="orders", body=b"before"))
            assert await next_body(consumer) == b"before"
            server = cluster.brokers[0].server
            assert server is not None
            members = list(server.clients.consumers["audit"].members)
            await clock.advance_async(hours=2)
            assert list(server.clients.consumers["audit"].members) == members  # the same connection, never expired
            await producer.send(Message(topic="orders", body=b"after"))
            assert await next_body(consumer) == b"after"


async def next_body(consumer: LitePullConsumer) -> bytes:
    async with asyncio.timeout(20):
        return (await anext(consumer)).body


async def test_a_send_that_waits_for_the_disk_does_not_time_out_while_time_advances(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fdatasync = os.fdatasync

    def slowly(descriptor: int) -> None:
        time.sleep(0.2)
        fdatasync(descriptor)

    clock = TestClock()
    async with (
        LocalCluster(settings={"flushDiskType": "SYNC_FLUSH"}, clock=clock) as cluster,
        Producer(group="shop", namesrv=cluster.namesrv, clock=clock, retries=0) as producer,
    ):
        message = Message(topic="BenchmarkTest", body=b"one")  # the topic is there: no other file is written
        await producer.send(message)
        monkeypatch.setattr(os, "fdatasync", slowly)
        sending = asyncio.create_task(producer.send(message, timeout=3.0))
        await clock.advance_async(seconds=10)
        assert (await sending).status == SendStatus.SEND_OK
