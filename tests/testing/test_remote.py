"""RemoteCluster: a cluster that runs elsewhere in place of a local one."""

from __future__ import annotations

import pytest

from pyromq import Producer
from pyromq.errors import NotSupported
from pyromq.testing import LocalCluster, RemoteCluster


async def test_only_messages_of_this_test_are_seen(shared: LocalCluster, topic: str) -> None:
    async with Producer("shop", shared.namesrv) as producer:
        for number in range(20):
            await producer.send(topic, f"old {number}")
        async with RemoteCluster(shared.namesrv) as cluster:
            assert await cluster.messages(topic) == []
            for number in range(3):
                await producer.send(topic, f"new {number}")
            found = await cluster.expect(topic, count=3)
    assert [message.body for message in found] == [b"new 0", b"new 1", b"new 2"]


def test_what_only_a_local_cluster_can_do_is_refused(shared: LocalCluster) -> None:
    with RemoteCluster(shared.namesrv) as cluster:
        for name in ("kill", "partition", "full_disk", "brokers"):
            with pytest.raises(NotSupported, match=f"a real cluster has no '{name}'"):
                getattr(cluster, name)
        with pytest.raises(AttributeError, match="no attribute 'kil'"):
            _ = cluster.kil


async def test_time_passes_by_itself(shared: LocalCluster) -> None:
    async with RemoteCluster(shared.namesrv) as cluster:
        begun = cluster.clock.monotonic()
        await cluster.clock.advance_async(seconds=0.02)
        cluster.clock.advance(seconds=0.01)
        assert cluster.clock.monotonic() - begun >= 0.029
        with pytest.raises(NotSupported, match="cannot be advanced by 2:00:00"):
            cluster.clock.advance(hours=2)
