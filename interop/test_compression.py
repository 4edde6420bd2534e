"""All compressions of Java's producers, read by both clients."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from interop.conftest import Cluster
from interop.inbox import Inbox
from interop.java_side import read
from interop.peer import Peer
from interop.python_side import poll
from interop.toolkit import Toolkit
from pyromq import LitePullConsumer, PushConsumer

COMPRESSED = 1
CODECS = {"LZ4": 1, "ZSTD": 2, "ZLIB": 3}
"""The client's name for each, and the message flags."""
CODEC_SHIFT, CODEC_MASK = 8, 7
REPEAT = 20_000


@pytest.fixture(scope="module", params=CODECS)
def codec(request: pytest.FixtureRequest) -> str:
    chosen: str = request.param
    return chosen


@pytest.fixture(scope="module")
def producer(codec: str, toolkit: Toolkit, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    with Peer(toolkit, tmp_path_factory.mktemp(codec), f"-Drocketmq.message.compressType={codec}") as peer:
        yield peer


async def test_both_clients_read_it(cluster: Cluster, java: Peer, producer: Peer, codec: str, name: str) -> None:
    producer.call("Sends.sync", namesrv=cluster.namesrv, topic=name, count=1, repeat=REPEAT)
    (fact,) = read(java, cluster, name)
    assert fact["sys_flag"] & COMPRESSED
    assert fact["sys_flag"] >> CODEC_SHIFT & CODEC_MASK == CODECS[codec]
    assert fact["body_length"] == len("body 0") * REPEAT
    async with LitePullConsumer(name, cluster.namesrv, {name: "*"}, start_from="earliest") as consumer:
        (found,) = await poll(consumer, 1)
    assert found.body == b"body 0" * REPEAT


async def test_it_stays_compressed_on_its_detours(
    cluster: Cluster, java: Peer, producer: Peer, codec: str, name: str
) -> None:
    """Delays and retries store the message again."""
    producer.call("Sends.sync", namesrv=cluster.namesrv, topic=name, count=1, repeat=REPEAT, level=1)
    with java.push(cluster.namesrv, name, name, failures=1, retry_level=1) as consumer:
        lengths = [(fact["body_length"], fact["reconsume_times"]) for fact in consumer.take(2)]
    assert lengths == [(len("body 0") * REPEAT, 0), (len("body 0") * REPEAT, 1)]
    inbox = Inbox()
    async with PushConsumer(f"{name}-ours", cluster.namesrv, {name: "*"}, inbox, start_from="earliest"):
        (found,) = await inbox.take(1)
    assert found.body == b"body 0" * REPEAT
