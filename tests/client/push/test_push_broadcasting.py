"""Broadcasting: every member gets every message, and keeps its own progress in a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyromq.client.consume.offset_store import default_offsets_path
from pyromq.client.listener.outcomes import DeadLetter
from pyromq.client.push.push_consumer import PushConsumer
from pyromq.client.send.producer import Producer
from pyromq.errors import ClientError
from pyromq.protocol.messages.message import Message, MessageExt
from pyromq.testing import LocalCluster, eventually
from tests.client.helpers import Heard, SendBacks, fill, in_queue_order


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    return tmp_path


def member(cluster: LocalCluster, group: str, topic: str, heard: Heard, name: str, **options: object) -> PushConsumer:
    return PushConsumer(
        group,
        cluster.namesrv,
        {topic: "*"},
        heard,
        broadcasting=True,
        start_from="earliest",
        instance_name=name,
        **options,  # type: ignore[arg-type]
    )


async def test_every_member_gets_everything(cluster: LocalCluster, producer: Producer, topic: str, group: str) -> None:
    first, second, third = Heard(), Heard(), Heard()
    async with member(cluster, group, topic, first, "one") as one, member(cluster, group, topic, second, "two"):
        sent = await fill(producer, topic, 40)
        assert await first.wait_for(40) == await second.wait_for(40) == sorted(sent)
        assert len(one.assignment) == 4
        async with member(cluster, f"{group}-b", topic, third, "three"):
            assert await third.wait_for(40) == sorted(sent)


async def test_progress_is_kept_in_a_file_and_gone_on_with(
    cluster: LocalCluster, producer: Producer, topic: str, group: str, home: Path
) -> None:
    heard = Heard()
    await fill(producer, topic, 8)
    async with member(cluster, group, topic, heard, "kept") as consumer:
        await heard.wait_for(8)
        path = default_offsets_path(consumer.client_id, group)
    assert path.is_relative_to(home / ".rocketmq_offsets")
    text = path.read_text()
    assert '"offsetTable":{{' in text.replace("\n", "").replace("\t", "")
    await producer.send(Message(topic=topic, body=b"new"))
    async with member(cluster, group, topic, heard, "kept", clock=cluster.clock):
        await heard.wait_for(9)
        await cluster.clock.advance_async(seconds=1)
    assert heard.bodies[8:] == [b"new"]


async def test_without_a_name_the_client_id_is_the_same_after_a_restart(
    cluster: LocalCluster, topic: str, group: str
) -> None:
    consumer = PushConsumer(group, cluster.namesrv, {topic: "*"}, Heard(), broadcasting=True)
    async with consumer:
        assert consumer.client_id.endswith("@DEFAULT")
        with pytest.raises(ClientError, match="already has a consumer in the group"):
            await PushConsumer(group, cluster.namesrv, {topic: "*"}, Heard(), broadcasting=True).start()


async def test_what_fails_is_dropped_with_a_warning(topic: str, group: str, caplog: pytest.LogCaptureFixture) -> None:
    seen: list[bytes] = []

    async def listen(message: MessageExt) -> None:
        seen.append(message.body)
        raise ValueError("no")

    async with LocalCluster() as cluster, Producer("p", cluster.namesrv) as producer:
        backs = SendBacks(cluster)
        sent = await fill(producer, topic, 8)
        async with PushConsumer(
            group, cluster.namesrv, {topic: "*"}, listen, broadcasting=True, start_from="earliest", instance_name=group
        ):
            await eventually(lambda: len(seen) == 8)
    assert sorted(seen) == sorted(sent)
    assert caplog.text.count("is broadcasting, where nothing is redelivered") == 8
    assert not backs.headers


async def test_orderly_and_broadcasting_go_together(topic: str, group: str) -> None:
    """In Java's client that combination never pulls."""
    async with LocalCluster() as cluster, Producer("p", cluster.namesrv) as producer:
        for number in range(20):
            await producer.send(Message(topic=topic, body=b"%d" % number), order_key=str(number % 3))
        first, second = Heard(), Heard()
        async with (
            member(cluster, group, topic, first, "one", orderly=True),
            member(cluster, group, topic, second, "two", orderly=True),
        ):
            assert await first.wait_for(20) == await second.wait_for(20)
        assert in_queue_order(first.messages)
        assert in_queue_order(second.messages)


async def test_in_order_a_failure_is_tried_again_and_a_dead_letter_dropped(topic: str, group: str) -> None:
    async with LocalCluster() as cluster, Producer("p", cluster.namesrv) as producer:
        queue = (await producer.queues(topic))[0]
        for number in range(3):
            await producer.send(Message(topic=topic, body=b"%d" % number), queue=queue)
        seen: list[bytes] = []

        async def listen(message: MessageExt) -> None:
            seen.append(message.body)
            if message.body == b"0" and len(seen) < 3:
                raise ValueError("not yet")
            if message.body == b"1":
                raise DeadLetter("no")

        async with PushConsumer(
            group,
            cluster.namesrv,
            {topic: "*"},
            listen,
            broadcasting=True,
            orderly=True,
            start_from="earliest",
            clock=cluster.clock,
        ):
            while len(seen) < 5:
                await cluster.clock.advance_async(seconds=0.5)
        assert seen == [b"0", b"0", b"0", b"1", b"2"]
