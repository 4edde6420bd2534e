"""Assertions that wait: `expect` and `messages`, on a local cluster."""

from __future__ import annotations

import asyncio

import pytest

from pyromq import Message, Producer
from pyromq.testing import LocalCluster


async def test_expect_waits_until_enough_messages_are_there(shared: LocalCluster, topic: str) -> None:
    async with Producer("shop", shared.namesrv) as producer:
        waiting = asyncio.create_task(shared.expect(topic, count=3))
        for number in range(3):
            await producer.send(topic, str(number))
        assert {message.body for message in await waiting} == {b"0", b"1", b"2"}


async def test_messages_are_in_the_order_in_which_they_were_stored(shared: LocalCluster, topic: str) -> None:
    async with Producer("shop", shared.namesrv) as producer:
        for number in range(10):
            await producer.send(topic, str(number))  # to one queue after the other
    assert [message.body for message in await shared.messages(topic)] == [b"%d" % number for number in range(10)]


async def test_only_messages_that_fit_are_counted(shared: LocalCluster, topic: str) -> None:
    async with Producer("shop", shared.namesrv) as producer:
        await producer.send(Message(topic, b"1", tags="created", keys=["o-1", "c-7"]))
        await producer.send(Message(topic, b"2", tags="paid", keys=["o-1"]))
    assert [message.body for message in await shared.expect(topic, tags="paid")] == [b"2"]
    assert [message.body for message in await shared.expect(topic, keys="c-7")] == [b"1"]
    assert [message.body for message in await shared.expect(topic, keys=["o-1", "c-7"])] == [b"1"]
    assert [message.body for message in await shared.expect(topic, where=lambda found: found.body > b"1")] == [b"2"]
    assert await shared.expect(topic, count=0, tags="refunded") == []


async def test_a_failure_lists_what_is_there_and_marks_what_fits(shared: LocalCluster, topic: str) -> None:
    async with Producer("shop", shared.namesrv) as producer:
        await producer.send(topic, {"id": "o-1"}, tags="created", keys="o-1")
        await producer.send(topic, "x" * 100, tags="paid")
    with pytest.raises(AssertionError) as failed:
        await shared.expect(topic, count=2, tags="created", seconds=0.1)
    first, *lines = str(failed.value).splitlines()
    assert first == f"expected count=2 in {topic} within 0.1 s: 1 of 2 messages fit"
    assert lines == [
        """  * tags='created' keys=('o-1',) body=b'{"id":"o-1"}'""",
        f"    tags='paid' keys=() body=b'{'x' * 58}…",
    ]


async def test_more_messages_than_expected_are_a_failure_at_once(shared: LocalCluster, topic: str) -> None:
    async with Producer("shop", shared.namesrv) as producer:
        for number in range(12):
            await producer.send(topic, str(number))
    with pytest.raises(AssertionError, match="and no more: 12 of 12 messages fit") as failed:
        await shared.expect(topic)
    assert str(failed.value).endswith("… 2 more")


async def test_an_unknown_topic_has_no_messages(shared: LocalCluster) -> None:
    assert await shared.messages("nobody-has-it") == []
    with pytest.raises(AssertionError, match="0 of 0 messages fit"):
        await shared.expect("nobody-has-it", seconds=0.05)


def test_without_an_event_loop(shared: LocalCluster) -> None:
    assert shared.messages_blocking("nobody-has-it") == shared.expect_blocking("nobody-has-it", count=0) == []


async def test_a_broker_that_is_down_for_a_while_is_waited_for(topic: str) -> None:
    async with LocalCluster() as cluster:
        async with Producer("shop", cluster.namesrv) as producer:
            await producer.send(topic, "kept")
        cluster.kill()
        with pytest.raises(AssertionError):
            await cluster.expect(topic, seconds=0.5)
        waiting = asyncio.create_task(cluster.expect(topic))
        await asyncio.to_thread(cluster.start_broker)
        assert [message.body for message in await waiting] == [b"kept"]


async def test_accounts_do_not_keep_it_out(topic: str) -> None:
    async with LocalCluster(settings={"aclEnable": True}) as cluster:
        assert await cluster.expect(topic, count=0) == []
