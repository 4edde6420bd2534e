"""Scenarios of Apache's own integration tests for consumers, with our client and brokers; each names its class."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from pyromq import LitePullConsumer, Message, MessageExt, Producer, PushConsumer, Sql
from pyromq.testing import LocalCluster, eventually
from tests.client.helpers import Heard, fill, in_queue_order, read
from tests.integration.conftest import QUEUES, new_topic

_numbers = itertools.count()


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))  # broadcasting members keep their offsets there


class Group:
    """Consumers of one group, each with the messages it received; `names` separates broadcasting ones."""

    def __init__(self, cluster: LocalCluster, topic: str, **options: object) -> None:
        self.name = f"group-{next(_numbers)}"
        self.heard: list[Heard] = []
        self.consumers: list[PushConsumer] = []
        self._cluster = cluster
        self._topic = topic
        self._options = options
        self._stack = AsyncExitStack()

    async def add(self, expression: str | Sql = "*", group: str | None = None) -> Heard:
        """Start one more consumer."""
        heard = Heard()
        consumer = PushConsumer(
            group or self.name,
            self._cluster.namesrv,
            {self._topic: expression},
            heard,
            instance_name=f"scenario-{next(_numbers)}",
            **self._options,  # type: ignore[arg-type]
        )
        await self._stack.enter_async_context(consumer)
        self.heard.append(heard)
        self.consumers.append(consumer)
        return heard

    async def remove(self, index: int = 0) -> Heard:
        await self.consumers.pop(index).close()
        return self.heard.pop(index)

    async def settled(self, *, queues: int = 2 * QUEUES) -> None:
        """Wait until all queues are assigned and read."""

        def ready() -> bool:
            held = [queue for consumer in self.consumers for queue in consumer._session.assignment]
            mine = [queue for queue in held if queue.queue.topic == self._topic and queue.pull_offset is not None]
            return len(mine) == queues

        await eventually(ready)

    async def wait_for(self, count: int) -> list[bytes]:
        await eventually(lambda: sum(len(heard.messages) for heard in self.heard) >= count)
        return sorted(body for heard in self.heard for body in heard.bodies)


@asynccontextmanager
async def group_of(
    cluster: LocalCluster, topic: str, size: int = 0, *, expression: str = "*", **options: object
) -> AsyncIterator[Group]:
    group = Group(cluster, topic, **options)
    async with group._stack:
        for _ in range(size):
            await group.add(expression)
        yield group


def is_even(counts: list[int]) -> bool:
    share = sum(counts) / len(counts)
    return all(abs(count - share) <= max(share / 10, 1) for count in counts)


# --- clustering -------------------------------------------------------------------------------------------------------


async def test_a_subscriber_of_everything_receives_what_is_sent(
    cluster: LocalCluster, producer: Producer, topic: str
) -> None:
    """NormalMessageSendAndRecvIT."""
    async with group_of(cluster, topic, 1) as group:
        sent = await fill(producer, topic, 10)
        assert await group.wait_for(10) == sorted(sent)


@pytest.mark.parametrize(("size", "orderly"), [(2, False), (4, False), (2, True), (4, True)])
async def test_members_receive_even_shares(
    cluster: LocalCluster, producer: Producer, topic: str, size: int, orderly: bool
) -> None:
    """NormalMsgStaticBalanceIT, OrderMsgRebalanceIT."""
    async with group_of(cluster, topic, size, orderly=orderly) as group:
        await group.settled()
        sent = await fill(producer, topic, 320)
        assert await group.wait_for(320) == sorted(sent)
        assert is_even([len(heard.messages) for heard in group.heard])
        assert not orderly or all(in_queue_order(heard.messages) for heard in group.heard)


@pytest.mark.parametrize(("size", "orderly"), [(2, False), (3, False), (2, True), (3, True)])
async def test_the_others_share_evenly_what_comes_after_one_has_left(
    cluster: LocalCluster, producer: Producer, topic: str, size: int, orderly: bool
) -> None:
    """NormalMsgDynamicBalanceIT, OrderMsgDynamicRebalanceIT."""
    async with group_of(cluster, topic, size, orderly=orderly) as group:
        await group.settled()
        first = await fill(producer, topic, 160)
        assert await group.wait_for(160) == sorted(first)
        gone = await group.remove()
        await group.settled()
        before = [len(heard.messages) for heard in group.heard]
        again = await fill(producer, topic, 160)
        await eventually(lambda: sum(len(heard.messages) for heard in group.heard) == 320 - len(gone.messages))
        shares = [len(heard.messages) - had for heard, had in zip(group.heard, before, strict=True)]
        assert is_even(shares)
        assert sum(shares) == len(again)
        assert not orderly or all(in_queue_order(heard.messages) for heard in group.heard)


@pytest.mark.parametrize(
    ("joins", "leaves", "tag"),
    [(1, 0, None), (2, 0, None), (0, 1, None), (0, 2, None), (1, 1, None), (2, 2, None), (1, 0, "a"), (0, 1, "a")],
)
async def test_nothing_is_lost_while_consumers_come_and_go(
    cluster: LocalCluster, producer: Producer, topic: str, joins: int, leaves: int, tag: str | None
) -> None:
    """DynamicAddConsumerIT, DynamicCrashConsumerIT, DynamicAddAndCrashIT; tags: TagMessageWithSameGroupConsumerIT."""
    async with group_of(cluster, topic, 1 + leaves, expression=tag or "*") as group:
        left: list[Heard] = []
        sent: list[bytes] = []

        async def send() -> None:
            for number in range(150):
                sent.append(b"%d" % number)
                await producer.send(Message(topic=topic, body=sent[-1], tags=tag))
                await asyncio.sleep(0.002)

        sending = asyncio.create_task(send())
        await asyncio.sleep(0.05)
        for _ in range(joins):
            await group.add(tag or "*")
        for _ in range(leaves):
            left.append(await group.remove())
        await sending
        everybody = [*group.heard, *left]
        await eventually(lambda: sum(len(heard.messages) for heard in everybody) >= 150)
        assert sorted(body for heard in everybody for body in heard.bodies) == sorted(sent)


@pytest.mark.parametrize("size", [1, 2])
async def test_consumers_read_several_topics_also_those_added_later(
    cluster: LocalCluster, producer: Producer, topic: str, size: int
) -> None:
    """OneConsumerMulTopicIT, MulConsumerMulTopicIT."""
    other = await new_topic(cluster, f"{topic}-other")
    async with group_of(cluster, topic, size) as group:
        for consumer in group.consumers:
            await consumer.subscribe(other, "wanted")
        sent = await fill(producer, topic, 20)
        tagged = await fill(producer, other, 20, tags=["wanted", "unwanted"])
        assert await group.wait_for(30) == sorted([*sent, *tagged[::2]])


# --- tags and SQL -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("*", {"a", "b", "c", None}),
        ("", {"a", "b", "c", None}),
        ("a", {"a"}),
        ("a || b", {"a", "b"}),
        (" a  ||c ", {"a", "c"}),
        ("a||x", {"a"}),
        ("x || y", set()),
        (Sql("TAGS is not null and TAGS in ('a', 'b')"), {"a", "b"}),
    ],
)
async def test_groups_receive_exactly_what_they_subscribe_to(
    cluster: LocalCluster, producer: Producer, topic: str, expression: str | Sql, expected: set[str | None]
) -> None:
    """TagMessageWith1ConsumerIT, MulTagSubIT, TagMessageWithMulConsumerIT, SqlFilterIT."""
    async with group_of(cluster, topic) as group:
        heard = await group.add(expression)
        witness = await group.add("*", group=f"{group.name}-witness")
        for number in range(24):
            tag = ("a", "b", "c", None)[number % 4]
            await producer.send(Message(topic=topic, body=b"%d" % number, tags=tag))
        await witness.wait_for(24)
        await heard.wait_for(6 * len(expected))
        await asyncio.sleep(0.05)
        assert len(heard.messages) == 6 * len(expected)
        assert {message.tags for message in heard.messages} == expected


async def test_a_polling_consumer_receives_exactly_what_matches(
    cluster: LocalCluster, producer: Producer, topic: str
) -> None:
    """SqlFilterIT: 32 of 48, by polling."""
    wanted = Sql("TAGS is not null and TAGS in ('a', 'b')")
    async with LitePullConsumer(f"{topic}-sql", cluster.namesrv, {topic: wanted}, start_from="earliest") as consumer:
        await fill(producer, topic, 48, tags=["a", "b", "c"])
        messages = await read(consumer, 32)
        assert {message.tags for message in messages} == {"a", "b"}
        assert await consumer.poll(timeout=0.2) == []


@pytest.mark.parametrize("count", [1, 3, 2 * QUEUES])
async def test_order_holds_in_one_in_three_and_in_all_queues(
    cluster: LocalCluster, producer: Producer, topic: str, count: int
) -> None:
    """OrderMsgIT."""
    async with group_of(cluster, topic, 1, orderly=True) as group:
        queues = (await producer.queues(topic))[:count]
        sent = [b"%03d" % number for number in range(96)]
        for number, body in enumerate(sent):
            await producer.send(Message(topic=topic, body=body), queue=queues[number % count])
        assert await group.wait_for(96) == sent
        messages = group.heard[0].messages
        assert in_queue_order(messages)
        assert {message.queue for message in messages} == set(queues)


async def test_order_holds_with_tags(cluster: LocalCluster, producer: Producer, topic: str) -> None:
    """OrderMsgWithTagIT: everything, one tag, two tags; none of the others is delivered."""
    async with group_of(cluster, topic, orderly=True) as group:
        every = await group.add("*")
        one = await group.add("a", group=f"{group.name}-a")
        both = await group.add("a || b", group=f"{group.name}-ab")
        queues = (await producer.queues(topic))[:3]
        for number in range(90):
            message = Message(topic=topic, body=b"%03d" % number, tags="abc"[number % 3])
            await producer.send(message, queue=queues[number // 3 % 3])
        for heard, count in ((every, 90), (one, 30), (both, 60)):
            await heard.wait_for(count)
            assert len(heard.messages) == count
            assert in_queue_order(heard.messages)


# --- broadcasting -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("groups", [1, 2])
async def test_every_broadcasting_consumer_receives_everything(
    cluster: LocalCluster, producer: Producer, topic: str, groups: int
) -> None:
    """NormalMsgTwoSameGroupConsumerIT, BroadCastNormalMsgTwoDiffGroupRecvIT."""
    async with group_of(cluster, topic, broadcasting=True) as group:
        first = await group.add()
        second = await group.add(group=group.name if groups == 1 else f"{group.name}-b")
        await group.settled(queues=4 * QUEUES)
        sent = await fill(producer, topic, 16)
        assert await first.wait_for(16) == await second.wait_for(16) == sorted(sent)


async def test_one_that_starts_later_receives_what_is_sent_from_then_on(
    cluster: LocalCluster, producer: Producer, topic: str
) -> None:
    """BroadCastNormalMsgRecvStartLaterIT, BroadCastNormalMsgNotRecvIT."""
    async with group_of(cluster, topic, 1, broadcasting=True) as group:
        await group.settled()
        early = await fill(producer, topic, 16)
        first = group.heard[0]
        assert await first.wait_for(16) == sorted(early)
        second = await group.add()
        await group.settled(queues=4 * QUEUES)
        assert not second.messages
        late = [b"late-%d" % number for number in range(16)]
        for body in late:
            await producer.send(Message(topic=topic, body=body))
        assert await second.wait_for(16) == sorted(late)
        assert await first.wait_for(32) == sorted([*early, *late])


async def test_the_others_do_not_suffer_when_one_stops_or_fails(
    cluster: LocalCluster, producer: Producer, topic: str
) -> None:
    """BroadCastNormalMsgRecvCrashIT, BroadCastNormalMsgRecvFailIT."""

    async def fail(message: MessageExt) -> None:
        raise ValueError("always later")

    async with (
        group_of(cluster, topic, 2, broadcasting=True) as group,
        PushConsumer(group.name, cluster.namesrv, {topic: "*"}, fail, broadcasting=True, instance_name="failing"),
    ):
        await group.settled(queues=4 * QUEUES)
        sent = await fill(producer, topic, 16)
        for heard in group.heard:
            assert await heard.wait_for(16) == sorted(sent)
        await group.remove()
        await fill(producer, topic, 16)
        assert len(await group.heard[0].wait_for(32)) == 32


async def test_broadcasting_with_tags(cluster: LocalCluster, producer: Producer, topic: str) -> None:
    """BroadCastTwoConsumerSubTagIT, BroadCastTwoConsumerSubDiffTagIT, BroadCastTwoConsumerFilterIT."""
    async with group_of(cluster, topic, broadcasting=True) as group:
        first, second = await group.add("a"), await group.add("a")
        third = await group.add("*")
        await group.settled(queues=6 * QUEUES)
        await fill(producer, topic, 20, tags=["a", "b"])
        await third.wait_for(20)
        for heard in (first, second):
            await heard.wait_for(10)
            assert {message.tags for message in heard.messages} == {"a"}


async def test_broadcasting_in_order(cluster: LocalCluster, producer: Producer, topic: str) -> None:
    """OrderMsgBroadCastIT, which is disabled there as Java's client cannot do it."""
    async with group_of(cluster, topic, 2, broadcasting=True, orderly=True) as group:
        await group.settled(queues=4 * QUEUES)
        for number in range(60):
            await producer.send(Message(topic=topic, body=b"%d" % number), order_key=str(number % 5))
        for heard in group.heard:
            await heard.wait_for(60)
            assert in_queue_order(heard.messages)
