"""Reading message traces; the tests of tests/client/trace write and read every kind of record."""

from __future__ import annotations

from pyromq import Message, Producer, Trace
from pyromq.admin import AdminClient
from pyromq.testing import LocalCluster


async def test_more_traces_than_a_query_returns_are_all_found(cluster: LocalCluster, topic: str) -> None:
    async with Producer("shop", cluster.namesrv, trace=Trace(topic=f"{topic}-traces"), clock=cluster.clock) as producer:
        for number in range(70):
            await producer.send(Message(topic=topic, body=b"x", keys=["k"]))
            if number % 5 == 0:
                await cluster.clock.advance_async(seconds=1)
    async with AdminClient(cluster.namesrv) as admin:
        found = await admin.traces.by_key("k", topic=f"{topic}-traces")
    assert len(found) == 70
