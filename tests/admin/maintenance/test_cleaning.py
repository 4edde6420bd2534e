"""What brokers keep and nobody needs is named, then deleted."""

from __future__ import annotations

import pytest

from pyromq import Message, Producer
from pyromq.admin import AdminClient
from pyromq.errors import ClientError
from pyromq.protocol.codes import RequestCode
from pyromq.testing import LocalCluster


async def leave_a_topic_behind(admin: AdminClient, pair: LocalCluster) -> None:
    """Store messages of a topic at both brokers, and let the first forget the topic."""
    await admin.topics.create("lost", read_queues=1, write_queues=1)
    async with Producer("test", pair.namesrv) as producer:
        for _ in range(4):
            await producer.send(Message(topic="lost", body=b"x"))
    assert pair.brokers[0].server is not None
    del pair.brokers[0].server.topics.by_name["lost"]


async def test_unused_topics_are_named_by_a_plan_and_deleted(admin: AdminClient, pair: LocalCluster) -> None:
    await leave_a_topic_behind(admin, pair)
    first, second = await admin.plan_cleaning()
    assert first.found is not None
    assert second.found is not None
    assert (first.found.unused_topics, second.found.unused_topics) == (["lost"], [])
    (done,) = await admin.clean(["unused_topics", "expired_queues", "expired_files"], "broker-a")
    assert done == first
    assert [one.found.unused_topics for one in await admin.plan_cleaning() if one.found] == [[], []]
    assert pair.brokers[0].server is not None
    assert "lost" not in pair.brokers[0].server.store.topics


async def test_a_broker_that_cannot_say_is_cleaned_nevertheless(admin: AdminClient, pair: LocalCluster) -> None:
    await leave_a_topic_behind(admin, pair)
    for broker in pair.brokers:
        assert broker.server is not None
        del broker.server.handlers[RequestCode.PREVIEW_CLEANING]  # as with Apache's
    assert [one.found for one in await admin.clean(["unused_topics"])] == [None, None]
    assert pair.brokers[0].server is not None
    assert "lost" not in pair.brokers[0].server.store.topics


async def test_bad_input_deletes_nothing(admin: AdminClient) -> None:
    with pytest.raises(ClientError, match="nothing to clean"):
        await admin.clean([])
    with pytest.raises(ClientError, match="there is no 'dust' to clean"):
        await admin.clean(["dust"])  # type: ignore[list-item]
    with pytest.raises(ClientError, match="no name server knows a broker 'broker-x'"):
        await admin.clean(["unused_topics"], "broker-x")
