"""Apache's Java client 4.9.8 as a consumer, on our servers and on Apache's own."""

from __future__ import annotations

import time
from collections import defaultdict

import pytest

from interop.conftest import Cluster
from interop.java_side import BODIES, COUNT, EVEN, bodies, send, wait_for_messages
from interop.peer import JavaConsumer, Peer
from interop.servers import BROKER_NAME


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
        take_all(stays, {f"more {number}" for number in range(COUNT)})


def take_all(consumer: JavaConsumer, expected: set[str]) -> None:
    """Wait until all of these came; repeats are allowed, for queues change hands."""
    missing = set(expected)
    while missing:
        taken = consumer.take(1)
        assert taken, f"never came: {missing}"
        missing.discard(taken[0]["body"])


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
    """Brokers answer 0 for a queue whose first message is still there and recent: it overrides the start position."""
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


# --- pulling ----------------------------------------------------------------------------------------------------------


def test_a_pull_says_what_it_found(cluster: Cluster, java: Peer, name: str) -> None:
    queue = java.call("Sends.batch", namesrv=cluster.namesrv, topic=name, count=COUNT)["queue_id"]

    def pull(offset: int, **options: object) -> list[object]:
        arguments = {"topic": name, "broker": BROKER_NAME, "queue": queue, "offset": offset, **options}
        *answer, found = java.call("Pulls.once", namesrv=cluster.namesrv, **arguments)
        return [*answer, len(found)]

    assert pull(0) == ["FOUND", 20, 0, 20, 20]
    assert pull(3, count=2) == ["FOUND", 5, 0, 20, 2]
    assert pull(0, tags="even") == ["FOUND", 20, 0, 20, 10]
    assert pull(0, tags="nobody") == ["NO_MATCHED_MSG", 20, 0, 20, 0]
    assert pull(20) == ["NO_NEW_MSG", 20, 0, 20, 0]
    assert pull(99) == ["OFFSET_ILLEGAL", 20, 0, 20, 0]
    assert pull(0, sql="number < 2") == ["FOUND", 20, 0, 20, 2]


def test_offsets_of_a_queue_are_told(cluster: Cluster, java: Peer, name: str) -> None:
    before = int(time.time() * 1000) - 1000
    queue = java.call("Sends.batch", namesrv=cluster.namesrv, topic=name, count=COUNT)["queue_id"]

    def offsets(when: int) -> list[int]:
        arguments = {"topic": name, "broker": BROKER_NAME, "queue": queue, "time": when}
        answer: list[int] = java.call("Pulls.offsets", namesrv=cluster.namesrv, **arguments)
        return answer

    low, high, found, earliest = offsets(before)
    assert (low, high, found) == (0, COUNT, 0)
    assert before < earliest < before + 60_000
    assert offsets(before + 3_600_000)[2] == COUNT - 1


def test_a_committed_offset_is_read_back(cluster: Cluster, java: Peer, name: str) -> None:
    send(java, cluster, name)
    arguments = {"topic": name, "broker": BROKER_NAME, "queue": 1, "offset": 3, "group": name}
    assert java.call("Pulls.commit", namesrv=cluster.namesrv, **arguments) == 3


def test_a_lite_pull_consumer_goes_on_where_it_committed(cluster: Cluster, java: Peer, name: str) -> None:
    send(java, cluster, name)
    arguments = {"namesrv": cluster.namesrv, "group": name, "topic": name, "count": COUNT}
    assert bodies(java.call("Pulls.lite", **arguments)) == BODIES
    send(java, cluster, name, body="more")
    assert bodies(java.call("Pulls.lite", **arguments)) == [f"more {number}" for number in range(COUNT)]


def test_a_lite_pull_consumer_filters(cluster: Cluster, java: Peer, name: str) -> None:
    send(java, cluster, name)
    arguments = {"namesrv": cluster.namesrv, "group": name, "topic": name, "count": 3}
    assert bodies(java.call("Pulls.lite", sql="number > 16", **arguments)) == BODIES[17:]


def test_a_lite_pull_consumer_reads_what_it_assigned_itself(cluster: Cluster, java: Peer, name: str) -> None:
    send(java, cluster, name)
    arguments = {"namesrv": cluster.namesrv, "group": name, "topic": name, "count": COUNT - 8, "offset": 2}
    found = java.call("Pulls.liteAssigned", **arguments)
    assert len(found) == COUNT - 8
    assert min(fact["queue_offset"] for fact in found) == 2
