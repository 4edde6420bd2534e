"""Apache's Java client 4.9.8 as a producer, on our servers and on Apache's own."""

from __future__ import annotations

from collections import defaultdict

import pytest

from interop.conftest import Cluster
from interop.java_side import BODIES, COUNT, EVEN, bodies, read, send
from interop.peer import Peer
from interop.servers import BROKER_NAME


def test_synchronous_sends_are_stored_as_they_were_sent(cluster: Cluster, java: Peer, name: str) -> None:
    sent = send(java, cluster, name, flag=7)
    assert {fact["status"] for fact in sent} == {"SEND_OK"}
    found = {fact["body"]: fact for fact in read(java, cluster, name)}
    assert sorted(found) == sorted(BODIES)
    for number, (body, told) in enumerate(zip(BODIES, sent, strict=True)):
        fact = found[body]
        assert fact["tags"] == ("odd" if number % 2 else "even")
        assert fact["keys"] == f"k-{number}"
        assert fact["properties"]["number"] == str(number)
        assert fact["flag"] == 7
        assert fact["store_host"] == cluster.broker
        for same in ("broker", "queue_id", "queue_offset"):
            assert fact[same] == told[same]
        assert fact["unique_key"] == fact["message_id"] == told["message_id"]


def test_asynchronous_sends_are_stored(cluster: Cluster, java: Peer, name: str) -> None:
    sent = send(java, cluster, name, "async")
    assert {fact["status"] for fact in sent} == {"SEND_OK"}
    assert bodies(read(java, cluster, name)) == BODIES


def test_one_way_sends_are_stored(cluster: Cluster, java: Peer, name: str) -> None:
    send(java, cluster, name, "sync")  # creates the topic
    send(java, cluster, name, "oneway", body="one-way")
    found = [fact["body"] for fact in read(java, cluster, name)]
    assert sorted(found) == sorted(BODIES + [f"one-way {number}" for number in range(COUNT)])


def test_a_batch_is_stored_as_single_messages(cluster: Cluster, java: Peer, name: str) -> None:
    told = java.call("Sends.batch", namesrv=cluster.namesrv, topic=name, count=COUNT)
    found = read(java, cluster, name)
    assert [fact["body"] for fact in found] == BODIES
    assert [fact["queue_offset"] for fact in found] == list(range(COUNT))
    assert told["message_id"].split(",") == [fact["unique_key"] for fact in found]
    assert told["queue_offset"] == 0
    assert len(told["offset_message_id"].split(",")) == COUNT


def test_ordered_sends_keep_their_order_in_their_queue(cluster: Cluster, java: Peer, name: str) -> None:
    send(java, cluster, name, "ordered", orders=3)
    by_queue = defaultdict(list)
    for fact in read(java, cluster, name):
        by_queue[fact["queue_id"]].append(int(fact["properties"]["number"]))
    assert all(numbers == sorted(numbers) for numbers in by_queue.values())
    queue_of = {number % 3: queue for queue, numbers in by_queue.items() for number in numbers}
    assert all(queue_of[number % 3] == queue for queue, numbers in by_queue.items() for number in numbers)


def test_sends_to_a_chosen_queue_go_there(cluster: Cluster, java: Peer, name: str) -> None:
    send(java, cluster, name)
    sent = send(java, cluster, name, "toQueue", broker=BROKER_NAME, queue=2)
    assert {fact["queue_id"] for fact in sent} == {2}


@pytest.mark.parametrize("how", ["OtherSends.asyncOrdered", "OtherSends.onewayOrdered"])
def test_a_selector_works_in_every_mode(cluster: Cluster, java: Peer, name: str, how: str) -> None:
    send(java, cluster, name, "ordered", orders=3)
    java.call(how, namesrv=cluster.namesrv, topic=name, count=COUNT, orders=3, body="more")
    queues: dict[int, set[int]] = defaultdict(set)
    found = read(java, cluster, name)
    for fact in found:
        queues[int(fact["properties"]["number"]) % 3].add(fact["queue_id"])
    assert len(found) == 2 * COUNT
    assert all(len(used) == 1 for used in queues.values())


@pytest.mark.parametrize("how", ["OtherSends.asyncToQueue", "OtherSends.onewayToQueue"])
def test_a_queue_is_chosen_in_every_mode(cluster: Cluster, java: Peer, name: str, how: str) -> None:
    java.call("OtherSends.createTopic", namesrv=cluster.namesrv, topic=name, queues=4)
    java.call(how, namesrv=cluster.namesrv, topic=name, count=COUNT, broker=BROKER_NAME, queue=3)
    found = read(java, cluster, name)
    assert (bodies(found), {fact["queue_id"] for fact in found}) == (BODIES, {3})


def test_a_batch_with_a_callback_is_stored(cluster: Cluster, java: Peer, name: str) -> None:
    (told,) = java.call("OtherSends.asyncBatch", namesrv=cluster.namesrv, topic=name, count=COUNT)
    found = read(java, cluster, name)
    assert [fact["body"] for fact in found] == BODIES
    assert told["message_id"].split(",") == [fact["unique_key"] for fact in found]


def test_an_application_makes_a_topic(cluster: Cluster, java: Peer, name: str) -> None:
    java.call("OtherSends.createTopic", namesrv=cluster.namesrv, topic=name, queues=3)
    sent = send(java, cluster, name)
    assert {fact["queue_id"] for fact in sent} == {0, 1, 2}


def test_a_large_body_travels_compressed(cluster: Cluster, java: Peer, name: str) -> None:
    java.call("Sends.sync", namesrv=cluster.namesrv, topic=name, count=1, repeat=20_000)
    (fact,) = read(java, cluster, name)
    assert fact["body_length"] == len("body 0") * 20_000
    assert fact["sys_flag"] & 1


def test_a_body_over_the_limit_is_refused(cluster: Cluster, java: Peer, name: str) -> None:
    with pytest.raises(AssertionError, match="CODE: 13"):
        java.call("Sends.batch", namesrv=cluster.namesrv, topic=name, count=60, repeat=20_000)


def test_a_delayed_message_comes_when_it_is_due(cluster: Cluster, java: Peer, name: str) -> None:
    send(java, cluster, name)
    with java.push(cluster.namesrv, name, name, tags="even") as consumer:
        assert bodies(consumer.take(len(EVEN))) == EVEN
        java.call("Sends.sync", namesrv=cluster.namesrv, topic=name, count=1, level=1, body="late")
        (late,) = consumer.take(1)
    assert late["body"] == "late 0"
    assert late["store_timestamp"] - late["born_timestamp"] >= 1000
    assert late["properties"]["DELAY"] == "1"


# --- finding ----------------------------------------------------------------------------------------------------------


def test_messages_are_found_by_key_and_both_ids(cluster: Cluster, java: Peer, name: str) -> None:
    sent = send(java, cluster, name)
    (by_key,) = java.call("Queries.byKey", namesrv=cluster.namesrv, topic=name, key="k-7")
    by_unique = java.call("Queries.byUniqueKey", namesrv=cluster.namesrv, topic=name, id=sent[7]["message_id"])
    by_offset = java.call("Queries.byOffsetId", namesrv=cluster.namesrv, id=sent[7]["offset_message_id"])
    assert by_key["body"] == by_unique["body"] == by_offset["body"] == "body 7"
    assert by_key["physical_offset"] == by_unique["physical_offset"] == by_offset["physical_offset"]


def test_a_key_that_nobody_used_finds_nothing(cluster: Cluster, java: Peer, name: str) -> None:
    send(java, cluster, name)
    with pytest.raises(AssertionError, match="query message by key finished, but no message"):
        java.call("Queries.byKey", namesrv=cluster.namesrv, topic=name, key="k-99")


# --- more -------------------------------------------------------------------------------------------------------------


def test_namespaces_keep_topics_and_groups_apart(cluster: Cluster, java: Peer, name: str) -> None:
    send(java, cluster, name, namespace="shop")
    with java.push(cluster.namesrv, name, name, namespace="shop") as consumer:
        taken = consumer.take(COUNT)
    assert bodies(taken) == BODIES
    assert {fact["topic"] for fact in taken} == {name}
    assert bodies(read(java, cluster, f"shop%{name}")) == BODIES


def test_a_request_gets_its_reply(cluster: Cluster, java: Peer, name: str) -> None:
    send(java, cluster, name)
    with java.push(cluster.namesrv, name, name, reply="pong") as consumer:
        consumer.take(COUNT)
        assert java.call("Sends.request", namesrv=cluster.namesrv, topic=name, body="ping") == "pong"


def test_a_reply_is_given_to_a_callback(cluster: Cluster, java: Peer, name: str) -> None:
    send(java, cluster, name)
    with java.push(cluster.namesrv, name, name, reply="pong") as consumer:
        consumer.take(COUNT)
        assert java.call("OtherSends.asyncRequest", namesrv=cluster.namesrv, topic=name, body="ping") == "pong"


def test_a_request_without_a_reply_times_out(cluster: Cluster, java: Peer, name: str) -> None:
    send(java, cluster, name)
    with pytest.raises(AssertionError, match="RequestTimeoutException"):
        java.call("Sends.request", namesrv=cluster.namesrv, topic=name, body="ping", timeout=1000)


def test_a_transaction_is_delivered_only_once_committed(cluster: Cluster, java: Peer, name: str) -> None:
    send(java, cluster, name, body="first")
    with java.push(cluster.namesrv, name, name) as consumer, java.transactions(cluster.namesrv, name) as producer:
        consumer.take(COUNT)
        assert producer.send(name, 0, "ROLLBACK_MESSAGE")["status"] == "SEND_OK"
        producer.send(name, 1, "COMMIT_MESSAGE")
        (committed,) = consumer.take(1)
        assert committed["body"] == "body 1"
        producer.send(name, 2, "UNKNOW", check="COMMIT_MESSAGE")
        asked = producer.checked()
        assert asked is not None
        assert (asked["body"], asked["topic"]) == ("body 2", name)
        (checked,) = consumer.take(1)
        assert checked["body"] == "body 2"
        producer.send(name, 3, "UNKNOW", check="ROLLBACK_MESSAGE")
        assert producer.checked() is not None
        assert consumer.rest() == []
