"""Pulls that are answered without decoding them: the answers are the ordinary ones, and changes count at once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyromq.broker.config.broker_config import broker_config
from pyromq.broker.pulls.quick_pulls import MOST_SHAPES, QuickPulls
from pyromq.broker.server import Broker
from pyromq.errors import NoPermission
from pyromq.lane.pull_passes import PullPass
from pyromq.protocol.bodies import MessageModel, SubscriptionGroupConfig
from pyromq.protocol.codes import PULL_COMMIT_OFFSET_FLAG, PULL_FORWARD_FLAG, RequestCode, ResponseCode
from pyromq.protocol.command import RemotingCommand, SerializeType
from pyromq.remoting.connection import Connection, Frames
from pyromq.remoting.dispatch import QuickAnswer
from pyromq.testing import TestClock
from tests.broker.conftest import Connect, StartBroker
from tests.broker.helpers import PATIENT, Peer, pull_header

COMMITS = 4 | PULL_COMMIT_OFFSET_FLAG


@pytest.fixture(name="quick", autouse=True)
def note_answers(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Note for each pull whether it was answered quickly."""
    answered: list[bool] = []
    answer = QuickPulls.answer

    def noted(self: QuickPulls, frames: Frames, *others: Any) -> QuickAnswer:
        found = answer(self, frames, *others)
        answered.append(found[0] == len(frames) == 1)
        return found

    begin_pass = QuickPulls.begin_pass

    def noted_pass(self: QuickPulls, *arguments: Any) -> NotedPass | None:
        found = begin_pass(self, *arguments)
        return None if found is None else NotedPass(found, answered)

    monkeypatch.setattr(QuickPulls, "answer", noted)
    monkeypatch.setattr(QuickPulls, "begin_pass", noted_pass)
    return answered


class NotedPass:
    """A pass that notes which pulls it has answered; those that it leaves alone are noted by `answer`."""

    def __init__(self, real: PullPass, answered: list[bool]) -> None:
        self.end = real.end
        self._feed = real.feed
        self._answered = answered

    def feed(self, data: bytes) -> tuple[int, memoryview]:
        served, answers = self._feed(data)
        if served:
            self._answered.append(served == len(data))
        return served, answers


async def ordinarily(peer: Peer, **fields: Any) -> RemotingCommand:
    """Pull in the other form of headers, which is always served as usual."""
    return await peer.ask(RequestCode.PULL_MESSAGE, pull_header(**fields), serialize=SerializeType.ROCKETMQ)


async def fill(peer: Peer, count: int = 5) -> None:
    for index in range(count):
        await peer.send(body=b"%d" % index, properties=f"TAGS\x01tag{index % 2}\x02")


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"subscription": "tag1"},
        {"subscription": "tag0 || tag1"},
        {"max_msg_nums": 2},
        {"pyromq_max_bytes": 300},
        {"sys_flag": COMMITS, "commit_offset": 1},
        {"pyromq_deleted_at": 0},
    ],
)
async def test_answers_are_the_ordinary_ones(
    peer: Peer, broker: Broker, quick: list[bool], fields: dict[str, Any]
) -> None:
    await fill(peer, 6)
    expected = [await ordinarily(peer, queue_offset=offset, **fields) for offset in range(5)]
    counts = broker.stats.gets["orders", "billing"]
    once = (counts.calls, counts.messages, counts.bytes)
    quick.clear()
    found = [await peer.pull(queue_offset=offset, **fields) for offset in range(5)]
    assert quick == [False, True, True, True, True]
    assert [(each.ext_fields, each.body, each.remark) for each in found] == [
        (each.ext_fields, each.body, each.remark) for each in expected
    ]
    assert (counts.calls, counts.messages, counts.bytes) == tuple(2 * number for number in once)


async def test_what_was_consumed_is_committed(peer: Peer, broker: Broker, quick: list[bool]) -> None:
    await fill(peer)
    committed = []
    for offset in (1, 2, 2, 4, 3):
        await peer.pull(queue_offset=offset, sys_flag=COMMITS, commit_offset=offset)
        committed.append(broker.offsets.get("billing", "orders", 0))
    assert committed == [1, 2, 2, 4, 3]
    assert quick == [False, True, True, True, True]
    assert broker.offsets.backward_commits == 1
    forward = COMMITS | PULL_FORWARD_FLAG
    for offset, expected in ((4, 4), (1, 4), (900, 4)):
        await peer.pull(queue_offset=2, sys_flag=forward, commit_offset=offset)
        assert broker.offsets.get("billing", "orders", 0) == expected


async def refuse_group(peer: Peer, broker: Broker) -> None:
    broker.groups.update(SubscriptionGroupConfig(group_name="billing", consume_enable=False))


async def delete_topic(peer: Peer, broker: Broker) -> None:
    await peer.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "orders"})


async def refuse_topic(peer: Peer, broker: Broker) -> None:
    await set_topic(peer, perm="2")


async def take_queues(peer: Peer, broker: Broker) -> None:
    await set_topic(peer, readQueueNums="0")


async def set_topic(peer: Peer, **changes: str) -> None:
    fields = {"topic": "orders", "defaultTopic": "TBW102", "readQueueNums": "4", "writeQueueNums": "4", "perm": "6"}
    rest = {"topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"}
    await peer.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, fields | rest | changes)


async def refuse_all(peer: Peer, broker: Broker) -> None:
    await peer.ask(RequestCode.UPDATE_BROKER_CONFIG, body=b"brokerPermission=2")


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (refuse_group, ResponseCode.NO_PERMISSION),
        (delete_topic, ResponseCode.TOPIC_NOT_EXIST),
        (refuse_topic, ResponseCode.NO_PERMISSION),
        (take_queues, ResponseCode.SYSTEM_ERROR),
        (refuse_all, ResponseCode.NO_PERMISSION),
    ],
)
async def test_a_change_counts_for_the_next_pull(
    peer: Peer, broker: Broker, quick: list[bool], change: Callable[[Peer, Broker], Any], code: int
) -> None:
    await fill(peer)
    for _ in range(2):
        await peer.pull()
    await change(peer, broker)
    await peer.pull(expect=code)
    assert quick == [False, True, False]


async def test_the_subscription_of_heartbeats_counts(peer: Peer, broker: Broker, quick: list[bool]) -> None:
    await fill(peer)
    by_heartbeat: dict[str, Any] = {"sys_flag": 0, "subscription": None}
    await peer.beat(topics={"orders": "tag0"})
    for _ in range(3):
        assert [each.body for each in await peer.read(**by_heartbeat)] == [b"0", b"2", b"4"]
    await peer.beat(topics={"orders": "tag1"}, version=2)
    for _ in range(3):
        assert [each.body for each in await peer.read(**by_heartbeat)] == [b"1", b"3"]
    assert quick == [False, True, True, False, False, True]
    broker.groups.update(SubscriptionGroupConfig(group_name="billing", consume_broadcast_enable=False))
    assert len(await peer.read(**by_heartbeat)) == len(await peer.read(**by_heartbeat)) == 2
    await peer.beat(topics={"orders": "tag1"}, version=2, model=MessageModel.BROADCASTING)
    await peer.pull(expect=ResponseCode.NO_PERMISSION, **by_heartbeat)


async def test_one_whose_topic_was_deleted_and_made_again_is_told(
    peer: Peer, broker: Broker, quick: list[bool]
) -> None:
    await fill(peer)
    for _ in range(2):
        await peer.pull(pyromq_deleted_at=0)
    await delete_topic(peer, broker)
    await fill(peer)
    await peer.pull(expect=ResponseCode.TOPIC_NOT_EXIST, pyromq_deleted_at=0)
    life = broker.store.cleaner.deleted_at("orders")
    for _ in range(2):
        await peer.pull(pyromq_deleted_at=life)
        answer = await peer.pull(pyromq_deleted_at=-1)  # it asks for the life
        assert answer.ext_fields["pyromqDeletedAt"] == str(life)


async def test_a_pull_at_the_end_waits_as_usual(peer: Peer, broker: Broker, quick: list[bool]) -> None:
    await fill(peer, 1)
    await peer.pull()
    assert (await peer.pull(queue_offset=1, expect=ResponseCode.PULL_NOT_FOUND)).body == b""
    assert (await peer.pull(queue_offset=7, expect=ResponseCode.PULL_OFFSET_MOVED)).body == b""
    assert quick == [False, False, False]


async def test_a_broker_that_refuses_reads_refuses_all(peer: Peer, broker: Broker, quick: list[bool]) -> None:
    await fill(peer)
    for _ in range(2):
        await peer.pull()

    def refuse(command: RemotingCommand, connection: Connection) -> RemotingCommand:
        raise NoPermission("not now")

    broker._ports.refuse_reads(refuse)
    await peer.pull(expect=ResponseCode.NO_PERMISSION)
    broker._ports.allow_reads()
    await peer.pull()
    assert quick == [False, True, True]


async def test_sql_filters_are_looked_at_as_usual(
    start_broker: StartBroker, connect: Connect, quick: list[bool]
) -> None:
    broker = await start_broker(enablePropertyFilter="true")
    peer = await connect(broker)
    await peer.send(properties="colour\x01red\x02")
    await peer.send(properties="colour\x01blue\x02")
    for _ in range(3):
        found = await peer.read(subscription="colour = 'red'", expression_type="SQL92")
        assert len(found) == 1
    assert quick == [False, False, False]


async def test_shapes_that_are_known_are_bounded(peer: Peer, broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyromq.broker.pulls.quick_pulls.MOST_SHAPES", 3)
    await fill(peer, 1)
    learned: list[int] = []
    learn = QuickPulls._learn

    def noted(self: QuickPulls, *arguments: Any) -> None:
        learn(self, *arguments)
        learned.append(len(self._learned))

    monkeypatch.setattr(QuickPulls, "_learn", noted)
    for index in range(6):
        await peer.pull(max_msg_nums=index + 1)
    assert learned == [1, 2, 3, 3, 3, 3]
    assert MOST_SHAPES == 8192


async def test_messages_of_an_earlier_life_are_answered_quickly_if_they_are_sound(
    start_broker: StartBroker, connect: Connect, clock: TestClock, quick: list[bool], tmp_path: Path
) -> None:
    settings = PATIENT | {"listenPort": "0", "storePathRootDir": str(tmp_path / "store")}
    async with Broker(broker_config(settings), clock) as first:
        await fill(await connect(first), 40)
    peer = await connect(await start_broker())
    quick.clear()
    for _ in range(12):  # then the system is asked whether the log is in memory
        await peer.read(max_msg_nums=16)
    assert not quick[0]
    quick.clear()
    found = [await peer.read(queue_offset=offset, max_msg_nums=16) for offset in (0, 1, 24)]
    assert quick == [True, True, True]
    assert [int(message.body) for one in found for message in one] == [*range(16), *range(1, 17), *range(24, 40)]
    log = next((tmp_path / "store" / "commitlog").iterdir())
    position = log.read_bytes().index(b"\x00\x00\x00\x0220\x06orders")  # the body of message 20
    with log.open("r+b") as file:
        file.seek(position + 4)
        file.write(b"x")
    after = await peer.read(queue_offset=10, max_msg_nums=16)
    assert [int(message.body) for message in after] == [*range(10, 20), *range(21, 26)]
    assert not quick[-1]
