"""An operator changes masters: with both alive, and by force; and a handover that breaks off ends with one master."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyromq import Message, SendStatus
from pyromq.blocking import Portal, Producer
from pyromq.broker.replication.handover.by_hand import ByHand
from pyromq.client.net.calls.admin_calls import AdminCalls
from pyromq.errors import BrokerError, PyroMQError
from pyromq.protocol.bodies.replication import Promotion, SteppedDown
from pyromq.protocol.headers.replication import StepDownRequestHeader
from pyromq.remoting.client import RemotingClient
from pyromq.testing import LocalCluster, wait_until
from pyromq.testing.cluster import LocalBroker
from tests.broker.replication.test_replication import same_logs, server

SYNC = {"brokerRole": "SYNC_MASTER", "defaultTopicQueueNums": 1}


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[LocalCluster]:
    with LocalCluster(slaves=1, data=tmp_path, settings=SYNC) as cluster:
        wait_until(lambda: follows(cluster.slaves[0]) and server(cluster.brokers[0]).replication.in_sync())
        yield cluster


def follows(slave: LocalBroker) -> bool:
    how = server(slave).replication.state().follows
    return how is not None and how.is_connected


def promote(cluster: LocalCluster, broker: LocalBroker, *, force: bool = False) -> Promotion:
    async def ask() -> Promotion:
        async with RemotingClient(cluster.clock) as remoting:
            return await AdminCalls(remoting).promote_broker(broker.address, force=force)

    return Portal.shared().call(ask())


def step_down(cluster: LocalCluster, step: str, epoch: int = 0) -> SteppedDown:
    """Say to the master, in the slave's name, what a handover says."""
    slave, master = cluster.slaves[0], cluster.brokers[0]
    header = StepDownRequestHeader(
        step=step,
        broker_id=slave.broker_id,
        address=slave.address,
        store=server(slave).replication.state().store,
        epoch=epoch,
        patience_ms=5_000,
    )
    return cluster._portal.call(server(master).handover.step_down(header))


def bodies(broker: LocalBroker, topic: str) -> list[bytes]:
    """Return the bodies of a topic of one queue, each of the form `<number>`, in order."""
    store = server(broker).store
    found, offset = b"", 0
    while (result := store.get(topic, 0, offset, 32)).views:
        found += b"".join(map(bytes, result.views))
        offset = result.next_offset
    return re.findall(rb"<\d+>", found)


# --- both alive


def test_a_handover_makes_the_slave_master_and_the_master_its_slave(pair: LocalCluster) -> None:
    master, slave = pair.brokers[0], pair.slaves[0]
    with Producer("shop", pair.namesrv, clock=pair.clock) as producer:
        producer.send(Message("orders", b"one"))
        done = promote(pair, slave)
        assert (done.is_forced, done.old_master_told, done.role, done.epoch) == (False, True, "SYNC_MASTER", 2)
        assert server(slave).is_master
        assert not server(master).is_master
        wait_until(lambda: follows(master))
        assert server(master).service.registration.broker_id == 1
        wait_until(lambda: server(slave).replication.in_sync() == ["1"])
    wait_until(lambda: same_logs(pair))


def test_the_master_can_be_handed_back(pair: LocalCluster) -> None:
    promote(pair, pair.slaves[0])
    wait_until(lambda: follows(pair.brokers[0]) and server(pair.slaves[0]).replication.in_sync())
    assert promote(pair, pair.brokers[0]).epoch == 3
    wait_until(lambda: follows(pair.slaves[0]))
    assert server(pair.brokers[0]).is_master


def test_no_send_fails_and_order_is_kept_when_masters_change_under_load(pair: LocalCluster) -> None:
    """Three producers, each in order into a topic of one queue,."""
    failures: list[Exception] = []
    stored: dict[str, list[bytes]] = {f"orders-{number}": [] for number in range(3)}
    enough = threading.Event()

    def work(topic: str) -> None:
        with Producer(topic, pair.namesrv, clock=pair.clock, topic_queues=1) as producer:
            while not enough.is_set():
                body = b"<%d>" % len(stored[topic])
                try:
                    producer.send(Message(topic, body))
                except PyroMQError as error:
                    failures.append(error)
                stored[topic].append(body)

    threads = [threading.Thread(target=work, args=(topic,)) for topic in stored]
    for thread in threads:
        thread.start()
    wait_until(lambda: all(len(sent) > 10 for sent in stored.values()))
    promote(pair, pair.slaves[0])
    counts = {topic: len(sent) for topic, sent in stored.items()}
    wait_until(lambda: all(len(sent) > counts[topic] + 10 for topic, sent in stored.items()))
    enough.set()
    for thread in threads:
        thread.join()
    assert failures == []
    for topic, sent in stored.items():
        assert bodies(pair.slaves[0], topic) == sent
    wait_until(lambda: same_logs(pair))


def test_a_broker_that_is_master_refuses_to_become_it(pair: LocalCluster) -> None:
    with pytest.raises(BrokerError, match="this broker is master already"):
        promote(pair, pair.brokers[0])


# --- a handover that breaks off


def test_a_master_whose_successor_never_comes_goes_back_to_work_and_takes_what_it_held(pair: LocalCluster) -> None:
    master = pair.brokers[0]
    there = step_down(pair, "PREPARE")
    assert (there.is_master, there.epoch) == (False, 1)
    handover = server(master).handover
    assert isinstance(handover, ByHand)
    results: list[SendStatus] = []
    with Producer("shop", pair.namesrv, clock=pair.clock) as producer:
        sender = threading.Thread(
            target=lambda: results.append(producer.send(Message("orders", b"held"), timeout=30.0).status)
        )
        sender.start()
        wait_until(lambda: len(handover._stepping_down._held))
        assert not server(master).is_master
        pair.clock.advance(seconds=6)
        sender.join()
    assert results[0] in (SendStatus.SEND_OK, SendStatus.SLAVE_NOT_AVAILABLE)
    assert server(master).is_master
    assert server(master).replication.epoch == 3  # later than the one that its successor may have begun
    wait_until(lambda: follows(pair.slaves[0]) and same_logs(pair))


def test_a_master_goes_back_to_work_at_once_when_its_successor_gives_up(pair: LocalCluster) -> None:
    step_down(pair, "PREPARE")
    assert step_down(pair, "GIVE_UP").is_master


def test_a_master_whose_successor_leads_follows_it_though_it_was_not_told(pair: LocalCluster) -> None:
    step_down(pair, "PREPARE")
    pair.promote(pair.slaves[0])
    pair.clock.advance(seconds=6)
    wait_until(lambda: follows(pair.brokers[0]))
    assert not server(pair.brokers[0]).is_master


def test_a_broker_that_leads_the_later_epoch_stays_master(pair: LocalCluster) -> None:
    step_down(pair, "PREPARE")
    step_down(pair, "GIVE_UP")
    assert step_down(pair, "DONE", epoch=2).is_master
    assert not step_down(pair, "DONE", epoch=3).is_master


def test_a_master_hands_over_to_one_slave_at_a_time_and_only_to_one_that_follows(pair: LocalCluster) -> None:
    step_down(pair, "PREPARE")
    with pytest.raises(BrokerError, match="already hands over to"):
        step_down(pair, "PREPARE")
    step_down(pair, "GIVE_UP")
    pair.clock.advance(seconds=2)
    wait_until(lambda: follows(pair.slaves[0]))
    pair._portal.call(server(pair.slaves[0])._follower.stop())
    wait_until(lambda: not server(pair.brokers[0]).replication.links)
    with pytest.raises(BrokerError, match="this slave does not follow it"):
        step_down(pair, "PREPARE")
    assert server(pair.brokers[0]).is_master


# --- without the master


def test_a_slave_whose_master_is_dead_needs_force_and_says_what_may_be_lost(pair: LocalCluster) -> None:
    with Producer("shop", pair.namesrv, clock=pair.clock) as producer:
        producer.send(Message("orders", b"one"))
    wait_until(lambda: same_logs(pair))
    pair.stop_broker(pair.brokers[0])
    end = server(pair.slaves[0]).store.max_physical_offset
    with pytest.raises(BrokerError, match=rf"has the log up to {end:,}: 0 bytes less than its master had"):
        promote(pair, pair.slaves[0])
    assert not server(pair.slaves[0]).is_master
    done = promote(pair, pair.slaves[0], force=True)
    assert (done.is_forced, done.old_master_told, done.role) == (True, False, "SYNC_MASTER")
    assert server(pair.slaves[0]).is_master


def test_an_old_master_that_returns_is_told_of_its_successor(pair: LocalCluster) -> None:
    pair.stop_broker(pair.brokers[0])
    promote(pair, pair.slaves[0], force=True)
    pair.start_broker(pair.brokers[0])
    pair.clock.advance(seconds=3)
    wait_until(lambda: follows(pair.brokers[0]))
    assert server(pair.slaves[0]).is_master
    assert not server(pair.brokers[0]).is_master


def test_other_slaves_leave_the_old_master_before_another_one_is_made_by_force(tmp_path: Path) -> None:
    with LocalCluster(slaves=2, data=tmp_path, settings=SYNC) as cluster:
        wait_until(lambda: len(server(cluster.brokers[0]).replication.in_sync()) == 2)
        cluster.stop_broker(cluster.brokers[0])
        done = promote(cluster, cluster.slaves[1], force=True)
        assert done.untold == []
        assert server(cluster.slaves[0])._follower._least_epoch == done.epoch
        cluster.clock.advance(seconds=2)
        wait_until(lambda: follows(cluster.slaves[0]))
        wait_until(lambda: server(cluster.slaves[1]).replication.in_sync() == ["1"])
