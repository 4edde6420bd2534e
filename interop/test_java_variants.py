"""Apache's Java client with other settings than its defaults: the binary header codec, the fast port, long names."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from interop.conftest import Cluster
from interop.peer import Peer
from interop.servers import BROKER_NAME
from interop.toolkit import Toolkit

COUNT = 20
BODIES = {f"body {number}" for number in range(COUNT)}

VARIANTS = {
    "binary-headers": "-Drocketmq.serialize.type=ROCKETMQ",
    "fast-port": "-Dcom.rocketmq.sendMessageWithVIPChannel=true",
    "short-names-off": "-Dorg.apache.rocketmq.client.sendSmartMsg=false",
}


@pytest.fixture(scope="module", params=VARIANTS)
def variant(
    request: pytest.FixtureRequest, toolkit: Toolkit, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Peer]:
    with Peer(toolkit, tmp_path_factory.mktemp(request.param), VARIANTS[request.param]) as peer:
        yield peer


@pytest.mark.parametrize("how", ["sync", "async", "ordered"])
def test_what_is_sent_is_pushed(cluster: Cluster, variant: Peer, name: str, how: str) -> None:
    sent = variant.call(f"Sends.{how}", namesrv=cluster.namesrv, topic=name, count=COUNT)
    assert {fact["status"] for fact in sent} == {"SEND_OK"}
    with variant.push(cluster.namesrv, name, name, orderly=how == "ordered") as consumer:
        assert {fact["body"] for fact in consumer.take(COUNT)} == BODIES


def test_a_batch_is_filtered_by_sql(cluster: Cluster, variant: Peer, name: str) -> None:
    variant.call("Sends.batch", namesrv=cluster.namesrv, topic=name, count=COUNT)
    with variant.push(cluster.namesrv, name, name, sql="number >= 18") as consumer:
        assert {fact["body"] for fact in consumer.take(2)} == {"body 18", "body 19"}


def test_it_polls_commits_and_goes_on(cluster: Cluster, variant: Peer, name: str) -> None:
    arguments = {"namesrv": cluster.namesrv, "group": name, "topic": name}
    variant.call("Sends.sync", count=COUNT, **arguments)
    assert {fact["body"] for fact in variant.call("Lite.read", count=COUNT, **arguments)} == BODIES
    assert variant.call("Lite.read", milliseconds=1000, **arguments) == []


def test_it_finds_messages_and_offsets(cluster: Cluster, variant: Peer, name: str) -> None:
    sent = variant.call("Sends.sync", namesrv=cluster.namesrv, topic=name, count=COUNT)
    (by_key,) = variant.call("Queries.byKey", namesrv=cluster.namesrv, topic=name, key="k-7")
    by_id = variant.call("Queries.byOffsetId", namesrv=cluster.namesrv, id=sent[7]["offset_message_id"])
    assert by_key["body"] == by_id["body"] == "body 7"
    arguments = {"topic": name, "broker": BROKER_NAME, "queue": sent[7]["queue_id"]}
    low, high, *_ = variant.call("Pulls.offsets", namesrv=cluster.namesrv, **arguments)
    assert low == 0 < high


def test_what_fails_comes_again(cluster: Cluster, variant: Peer, name: str) -> None:
    variant.call("Sends.sync", namesrv=cluster.namesrv, topic=name, count=1)
    with variant.push(cluster.namesrv, name, name, failures=1, retry_level=1) as consumer:
        assert [fact["reconsume_times"] for fact in consumer.take(2)] == [0, 1]


def test_a_transaction_is_asked_about(cluster: Cluster, variant: Peer, name: str) -> None:
    with variant.transactions(cluster.namesrv, name) as producer:
        producer.send(name, 1, "COMMIT_MESSAGE")
        producer.send(name, 2, "UNKNOW", check="COMMIT_MESSAGE")
        asked = producer.checked()
        assert asked is not None
        assert asked["body"] == "body 2"
        with variant.push(cluster.namesrv, name, name) as consumer:
            assert {fact["body"] for fact in consumer.take(2)} == {"body 1", "body 2"}


def test_a_request_gets_its_reply(cluster: Cluster, variant: Peer, name: str) -> None:
    variant.call("Sends.sync", namesrv=cluster.namesrv, topic=name, count=1)
    with variant.push(cluster.namesrv, name, name, reply="pong") as consumer:
        consumer.take(1)
        assert variant.call("Sends.request", namesrv=cluster.namesrv, topic=name, body="ping") == "pong"
