"""Apache's Java client 4.9.8 as a pull consumer, on our servers and on Apache's own."""

from __future__ import annotations

import asyncio
import time

import pytest

from interop.conftest import Cluster
from interop.java_side import BODIES, COUNT, bodies, send
from interop.peer import Peer
from interop.python_side import send as send_ours
from interop.servers import BROKER_NAME


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
    assert bodies(java.call("Lite.read", **arguments)) == BODIES
    send(java, cluster, name, body="more")
    assert bodies(java.call("Lite.read", **arguments)) == [f"more {number}" for number in range(COUNT)]


def test_a_lite_pull_consumer_filters(cluster: Cluster, java: Peer, name: str) -> None:
    send(java, cluster, name)
    arguments = {"namesrv": cluster.namesrv, "group": name, "topic": name, "count": 3}
    assert bodies(java.call("Lite.read", sql="number > 16", **arguments)) == BODIES[17:]


@pytest.mark.parametrize("later", [False, True], ids=["blocking", "callback"])
async def test_a_pull_waits_for_a_message(cluster: Cluster, java: Peer, name: str, later: bool) -> None:
    sent = java.call("Sends.batch", namesrv=cluster.namesrv, topic=name, count=1)
    place = {"topic": name, "broker": BROKER_NAME, "queue": sent["queue_id"]}
    waiting = asyncio.create_task(
        asyncio.to_thread(java.call, "Pulls.waiting", namesrv=cluster.namesrv, later=later, **place)
    )
    await asyncio.sleep(1)  # for Java to join; if it is late, it waits for the next round
    while not waiting.done():
        await send_ours(cluster, name, b"more")
        await asyncio.wait([waiting], timeout=5)
    assert {fact["body"].split()[0] for fact in await waiting} == {"more"}


def test_a_lite_pull_consumer_seeks(cluster: Cluster, java: Peer, name: str) -> None:
    place = java.call("Sends.batch", namesrv=cluster.namesrv, topic=name, count=COUNT)
    with java.lite(cluster.namesrv, name, name, queue=place["queue_id"]) as consumer:
        assert bodies(consumer.poll(COUNT)) == BODIES
        consumer.do("seek", offset=15)
        assert bodies(consumer.poll(5)) == BODIES[15:]
        consumer.do("seekToBegin")
        assert bodies(consumer.poll(COUNT)) == BODIES
        consumer.do("seek", offset=3)
        consumer.do("seekToEnd")
        assert consumer.poll(1, seconds=1) == []
        assert consumer.do("offsetForTime", time=0) == 0
        assert consumer.do("offsetForTime", time=int(time.time() * 1000) + 60_000) == COUNT - 1


def test_a_lite_pull_consumer_pauses_a_queue(cluster: Cluster, java: Peer, name: str) -> None:
    place = java.call("Sends.batch", namesrv=cluster.namesrv, topic=name, count=COUNT)
    queue = place["queue_id"]
    with java.lite(cluster.namesrv, name, name, queue=queue) as consumer:
        assert bodies(consumer.poll(COUNT)) == BODIES
        consumer.do("pause")
        assert consumer.poll(1, seconds=1) == []  # a waiting pull may still return the next ones
        send(java, cluster, name, "toQueue", broker=BROKER_NAME, queue=queue, body="held")
        send(java, cluster, name, "toQueue", broker=BROKER_NAME, queue=(queue + 1) % 4, body="open")
        open_ones = [f"open {number}" for number in range(COUNT)]
        came = [fact["body"] for fact in consumer.poll(2 * COUNT, seconds=2)]
        assert set(open_ones) <= set(came)
        consumer.do("resume")
        came += [fact["body"] for fact in consumer.poll(2 * COUNT - len(came))]
        assert sorted(came) == sorted(open_ones + [f"held {number}" for number in range(COUNT)])


def test_a_lite_pull_consumer_commits_what_it_polled(cluster: Cluster, java: Peer, name: str) -> None:
    place = java.call("Sends.batch", namesrv=cluster.namesrv, topic=name, count=COUNT)
    with java.lite(cluster.namesrv, name, name, queue=place["queue_id"]) as consumer:
        assert bodies(consumer.poll(COUNT)) == BODIES
        assert consumer.do("commit") == COUNT


def test_a_lite_pull_consumer_commits_by_itself(cluster: Cluster, java: Peer, name: str) -> None:
    send(java, cluster, name)
    arguments = {"namesrv": cluster.namesrv, "group": name, "topic": name, "auto_commit": True}
    # Java commits every 5 s while it polls, but not when it ends.
    assert bodies(java.call("Lite.read", milliseconds=7_000, **arguments)) == BODIES
    assert java.call("Lite.read", milliseconds=1000, **arguments) == []


def test_a_lite_pull_consumer_reads_its_namespace(cluster: Cluster, java: Peer, name: str) -> None:
    send(java, cluster, name, namespace="shop")
    arguments = {"namesrv": cluster.namesrv, "group": name, "topic": name, "count": COUNT, "namespace": "shop"}
    assert bodies(java.call("Lite.read", **arguments)) == BODIES
