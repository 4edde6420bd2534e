"""Apache's Java client 4.9.8 as a consumer, on our servers and on Apache's own."""

from __future__ import annotations

import time
from collections import defaultdict

import pytest

from interop.conftest import Cluster
from interop.java_side import BODIES, COUNT, EVEN, bodies, send, wait_for_messages
from interop.peer import JavaConsumer, Peer


def test_a_concurrent_push_consumer_gets_every_message_once(cluster: Cluster, java: Peer, name: str) -> None:
    send(java, cluster, name)
    with java.push(cluster.namesrv, name, name) as consumer:
        assert bodies(consumer.take(COUNT)) == BODIES
        send(java, cluster, name, body="more")
        assert bodies(consumer.take(COUNT)) == [f"more {number}" for number in range(COUNT)]
    with java.push(cluster.namesrv, name, name) as consumer:
        assert consumer.rest() == []


def test_an_orderly_push_consumer_gets_each_queue_in_order(cluster: Cluster, java: Peer, name: str) -> None:
    send(java, cluster, name, "ordered", orders=4)
    with java.push(cluster.namesrv, name, name, orderly=True) as consumer:
        taken = consumer.take(COUNT)
    assert bodies(taken) == BODIES
    by_queue = defaultdict(list)
    for fact in taken:
        by_queue[fact["queue_id"]].append(fact["queue_offset"])
    assert all(offsets == sorted(offsets) for offsets in by_queue.values())


def test_broadcasting_gives_every_member_every_message(cluster: Cluster, java: Peer, name: str) -> None:
    send(java, cluster, name)
    with (
        java.push(cluster.namesrv, name, name, broadcasting=True) as one,
        java.push(cluster.namesrv, name, name, broadcasting=True) as two,
    ):
        assert bodies(one.take(COUNT)) == BODIES
        assert bodies(two.take(COUNT)) == BODIES


@pytest.mark.parametrize("orderly", [False, True], ids=["concurrent", "orderly"])
def test_members_share_the_queues_and_take_over(cluster: Cluster, java: Peer, name: str, orderly: bool) -> None:
    send(java, cluster, name)
    with java.push(cluster.namesrv, name, name, orderly=orderly) as stays:
        assert bodies(stays.take(COUNT)) == BODIES
        with java.push(cluster.namesrv, name, name, orderly=orderly) as leaves:
            wait_for_queues(stays, name, 2)
            wait_for_queues(leaves, name, 2)
            assert not set(stays.queues()) & set(own_queues(leaves, name))
        wait_for_queues(stays, name, 4)
        send(java, cluster, name, body="more")
        stays.take_all({f"more {number}" for number in range(COUNT)})


def own_queues(consumer: JavaConsumer, topic: str) -> list[tuple[str, str, int]]:
    return [queue for queue in consumer.queues() if queue[0] == topic]


def wait_for_queues(consumer: JavaConsumer, topic: str, count: int) -> None:
    end = time.monotonic() + 30
    while len(own_queues(consumer, topic)) != count:
        assert time.monotonic() < end, own_queues(consumer, topic)
        time.sleep(0.1)


def test_tags_are_filtered(cluster: Cluster, java: Peer, name: str) -> None:
    send(java, cluster, name)
    with java.push(cluster.namesrv, name, name, tags="even || nothing") as consumer:
        assert bodies(consumer.take(len(EVEN))) == EVEN
        assert consumer.rest() == []


def test_sql_is_filtered(cluster: Cluster, java: Peer, name: str) -> None:
    send(java, cluster, name)
    with java.push(cluster.namesrv, name, name, sql="number BETWEEN 5 AND 7 OR TAGS = 'none'") as consumer:
        assert bodies(consumer.take(3)) == BODIES[5:8]
        assert consumer.rest() == []


def test_a_wrong_sql_expression_is_refused_at_the_start(cluster: Cluster, java: Peer, name: str) -> None:
    send(java, cluster, name)
    with pytest.raises(AssertionError, match="CODE: 23"):
        java.call("Push.start", name=name, namesrv=cluster.namesrv, group=name, topic=name, sql="number >")


@pytest.mark.parametrize("start", ["CONSUME_FROM_LAST_OFFSET", "CONSUME_FROM_TIMESTAMP"])
def test_a_young_queue_is_read_from_its_beginning(cluster: Cluster, java: Peer, name: str, start: str) -> None:
    """Brokers answer 0 for a queue whose first message is still there and recent, overriding the start position."""
    send(java, cluster, name)
    in_an_hour = int(time.time() * 1000) + 3_600_000
    with java.push(cluster.namesrv, name, name, **{"from": start, "since": in_an_hour}) as consumer:
        assert bodies(consumer.take(COUNT)) == BODIES


def test_a_failing_listener_gets_the_message_again(cluster: Cluster, java: Peer, name: str) -> None:
    java.call("Sends.sync", namesrv=cluster.namesrv, topic=name, count=1)
    with java.push(cluster.namesrv, name, name, failures=2, retry_level=1) as consumer:
        taken = consumer.take(3)
        assert consumer.rest() == []
    assert [fact["reconsume_times"] for fact in taken] == [0, 1, 2]
    assert {fact["topic"] for fact in taken} == {name}
    assert {fact["body"] for fact in taken} == {"body 0"}
    assert taken[2]["properties"]["RETRY_TOPIC"] == name
    assert taken[2]["properties"]["ORIGIN_MESSAGE_ID"]


@pytest.mark.parametrize("orderly", [False, True], ids=["concurrent", "orderly"])
def test_what_fails_too_often_goes_to_the_dead_letters(cluster: Cluster, java: Peer, name: str, orderly: bool) -> None:
    java.call("Sends.sync", namesrv=cluster.namesrv, topic=name, count=1)
    options = {"failures": 99, "retry_level": 1, "max_reconsume": 1, "orderly": orderly}
    with java.push(cluster.namesrv, name, name, **options) as consumer:
        assert len(consumer.take(2)) == 2
        assert consumer.rest() == []
        (dead,) = wait_for_messages(java, cluster, f"%DLQ%{name}")
    assert dead["body"] == "body 0"
    assert dead["keys"] == "k-0"


def test_a_suspended_push_consumer_gets_nothing_until_it_is_resumed(cluster: Cluster, java: Peer, name: str) -> None:
    send(java, cluster, name)
    with java.push(cluster.namesrv, name, name) as consumer:
        assert bodies(consumer.take(COUNT)) == BODIES
        consumer.suspend()
        send(java, cluster, name, body="brought")  # by pulls already waiting at the broker, one per queue
        brought = {fact["body"] for fact in consumer.rest(2.0)}
        send(java, cluster, name, body="more")
        assert consumer.rest() == []
        consumer.resume()
        consumer.take_all({f"{text} {n}" for text in ("brought", "more") for n in range(COUNT)} - brought, set())


def test_an_orderly_listener_that_fails_holds_up_its_queue(cluster: Cluster, java: Peer, name: str) -> None:
    java.call("Sends.batch", namesrv=cluster.namesrv, topic=name, count=3)
    with java.push(cluster.namesrv, name, name, orderly=True, failures=2) as consumer:
        taken = [(fact["body"], fact["reconsume_times"]) for fact in consumer.take(9)]
        assert consumer.rest() == []
    assert taken == [(f"body {number}", times) for number in range(3) for times in range(3)]


def test_retries_and_dead_letters_stay_in_their_namespace(cluster: Cluster, java: Peer, name: str) -> None:
    java.call("Sends.sync", namesrv=cluster.namesrv, topic=name, count=1, namespace="shop")
    options = {"failures": 99, "retry_level": 1, "max_reconsume": 1, "namespace": "shop"}
    with java.push(cluster.namesrv, name, name, **options) as consumer:
        taken = consumer.take(2)
        (dead,) = wait_for_messages(java, cluster, f"%DLQ%shop%{name}")
    assert [(fact["topic"], fact["reconsume_times"]) for fact in taken] == [(name, 0), (name, 1)]
    assert dead["body"] == "body 0"
