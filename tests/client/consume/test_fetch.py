"""What becomes of an answer that leads to another offset: who says so, and whether the master agrees."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path
from typing import cast

import pytest

from pyromq.client.consume.fetch import Fetched, Fetcher, PullTerms
from pyromq.client.consume.process_queue import ProcessQueue
from pyromq.client.consume.subscriptions import subscribe
from pyromq.client.net.calls.answers import PullAnswer, PullStatus
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.client.net.routes import ReadableBroker, Routes
from pyromq.client.poll.lite_pull_consumer import LitePullConsumer
from pyromq.client.push.push_consumer import PushConsumer
from pyromq.client.send.producer import Producer
from pyromq.errors import ClientError, NoNameServer
from pyromq.protocol.codes import PULL_COMMIT_OFFSET_FLAG, RequestCode, ResponseCode
from pyromq.protocol.command import RemotingCommand, response
from pyromq.protocol.headers.pull import PullMessageRequestHeader, PullMessageResponseHeader
from pyromq.protocol.messages.message import Message, MessageQueue
from pyromq.remoting.connection import Connection
from pyromq.remoting.requests import HandlerResult
from pyromq.testing import LocalCluster, eventually
from tests.client.helpers import Heard, committed, read

QUEUE = MessageQueue("T", "broker-a", 0)
MASTER, SLAVE = ReadableBroker("master", 0), ReadableBroker("slave", 1)


class OneAnswer:
    """Takes the place of routes and brokers: every pull gets one answer, and the master's queue has one end."""

    def __init__(
        self,
        reader: ReadableBroker,
        answer: PullAnswer,
        end: int,
        *,
        has_master: bool = True,
        next_master: str = MASTER.address,
    ) -> None:
        self.headers: list[PullMessageRequestHeader] = []
        self._reader = reader
        self._answer = answer
        self._end = end
        self._master = MASTER.address if has_master else None
        self._next_master = next_master

    async def find_reader(self, queue: MessageQueue, broker_id: int = 0) -> ReadableBroker:
        return self._reader

    def master(self, broker_name: str) -> str | None:
        return self._master

    async def refresh(self, topic: str) -> None:
        if not self._next_master:
            raise NoNameServer("none answers")
        self._master = self._next_master

    async def pull(self, address: str, header: PullMessageRequestHeader, *, timeout: float) -> PullAnswer:
        self.headers.append(header)
        return self._answer

    async def max_offset(self, address: str, topic: str, queue_id: int) -> int:
        assert address == MASTER.address
        return self._end

    def fetcher(self) -> Fetcher:
        return Fetcher(
            api=cast(BrokerApi, self),
            routes=cast(Routes, self),
            group="g",
            subscriptions={"T": subscribe("T", "*")},
            terms=PullTerms(flags=0, wait_ms=0, batch=32, commits=True),
            namespace=None,
        )


def moved(next_offset: int, status: PullStatus = PullStatus.OFFSET_MOVED) -> PullAnswer:
    return PullAnswer(status, next_offset, 0, 0, 1, b"")


def held_at(offset: int) -> ProcessQueue:
    held = ProcessQueue(QUEUE)
    held.start_at(offset)
    held.committed_offset = offset
    return held


async def fetch(broker: OneAnswer, held: ProcessQueue) -> Fetched:
    assert held.pull_offset is not None
    return await broker.fetcher().fetch(held, held.pull_offset)


@pytest.mark.parametrize(
    ("broker", "follows"),
    [
        (OneAnswer(SLAVE, moved(80), end=100), False),  # it lags behind
        (OneAnswer(SLAVE, moved(80), end=100, has_master=False), False),  # the master may come back
        (OneAnswer(SLAVE, moved(120), end=200), False),  # its retention is shorter
        (OneAnswer(SLAVE, moved(120), end=200, has_master=False), True),  # it has all that there is
        (OneAnswer(MASTER, moved(120), end=200), True),  # retention has deleted the messages
        (OneAnswer(MASTER, moved(80), end=80), True),  # its log was replaced
        (OneAnswer(MASTER, moved(80), end=80, next_master="another"), False),  # it was deposed while it stood still
    ],
)
async def test_only_a_master_without_the_offset_leads_elsewhere(broker: OneAnswer, follows: bool) -> None:
    held = held_at(100)
    fetched = await fetch(broker, held)
    assert (fetched.next_offset != 100) is follows
    assert fetched.moved is follows
    if not follows:
        assert held.broker_id == 0, "the master is asked next"


@pytest.mark.parametrize(
    "broker", [OneAnswer(MASTER, moved(80), end=100), OneAnswer(MASTER, moved(80, PullStatus.FOUND), end=80)]
)
async def test_a_master_that_contradicts_itself_is_not_followed(broker: OneAnswer) -> None:
    held = held_at(100)
    with pytest.raises(ClientError, match="answers a pull at offset 100 with 80, although its queue ends at"):
        await fetch(broker, held)
    assert held.pull_offset == 100


async def test_a_master_is_not_followed_back_while_no_name_server_says_that_it_is_one() -> None:
    held = held_at(100)
    with pytest.raises(NoNameServer):
        await fetch(OneAnswer(MASTER, moved(80), end=80, next_master=""), held)
    assert held.pull_offset == 100


async def test_a_pull_carries_no_commit_that_would_move_the_group_back() -> None:
    broker = OneAnswer(MASTER, moved(60, PullStatus.NO_NEW_MESSAGE), end=200)
    for held in (lower := held_at(60)), (unsure := held_at(60)), held_at(60):
        lower.committed_offset = 100
        unsure.committed_is_sure = False
        await fetch(broker, held)
    assert [header.sys_flag & PULL_COMMIT_OFFSET_FLAG for header in broker.headers] == [0, 0, PULL_COMMIT_OFFSET_FLAG]


# --- with a real broker -----------------------------------------------------------------------------------------------


async def send(cluster: LocalCluster, topic: str, *bodies: bytes) -> None:
    async with Producer("p", cluster.namesrv) as producer:
        queue = (await producer.queues(topic))[0]
        for body in bodies:
            await producer.send(Message(topic=topic, body=body), queue=queue)


def numbers(start: int, stop: int) -> list[bytes]:
    return [b"%d" % number for number in range(start, stop)]


async def test_a_wrong_answer_moves_no_committed_offset_back(topic: str, group: str) -> None:
    async with LocalCluster() as cluster:
        await send(cluster, topic, *numbers(0, 20))
        heard = Heard()
        clock = cluster.clock
        async with PushConsumer(
            group, cluster.namesrv, {topic: "*"}, heard, start_from="earliest", clock=clock
        ) as consumer:
            await heard.wait_for(20)
            await consumer.commit()
            wrong = answer_pulls(cluster, topic, next_offset=5)
            await send(cluster, topic, b"20")  # the held pull ends
            for _ in range(10):
                await clock.advance_async(seconds=3)
            assert wrong, "the answers came"
            async with await BrokerApi.connect(cluster.namesrv) as api:
                assert (await committed(api, cluster.brokers[0].address, group, topic))[0] >= 20
        assert len(heard.bodies) == len(set(heard.bodies)), "nothing was repeated"


def answer_pulls(cluster: LocalCluster, topic: str, next_offset: int) -> list[int]:
    """Have the broker answer that later offsets of a topic do not exist; return those that were asked for."""
    server = cluster.brokers[0].server
    assert server is not None
    pull = server.handlers[RequestCode.PULL_MESSAGE]
    asked: list[int] = []

    def answer(command: RemotingCommand, connection: Connection) -> HandlerResult:
        header = command.header(PullMessageRequestHeader)
        if header.topic != topic or header.queue_id or header.queue_offset <= next_offset:
            return pull(command, connection)
        asked.append(header.queue_offset)
        place = PullMessageResponseHeader(
            suggest_which_broker_id=0, next_begin_offset=next_offset, min_offset=0, max_offset=next_offset
        )
        return response(command, ResponseCode.PULL_OFFSET_MOVED, "as the test wants it", place)

    server.handlers[RequestCode.PULL_MESSAGE] = answer
    return asked


SMALL_FILES = {
    "mappedFileSizeCommitLog": 1 << 20,
    "mappedFileSizeConsumeQueue": 6000,
    "maxIndexNum": 1000,
    "maxHashSlotNum": 1000,
}


async def restore_an_older_store(cluster: LocalCluster, topic: str, backup: Path) -> None:
    """Lose the messages 20 to 39, and store others in their place before any consumer asks again."""
    store = cluster.brokers[0].store_path
    cluster.stop_broker()
    shutil.rmtree(store)
    shutil.copytree(backup, store)
    cluster.start_broker()
    await send(cluster, topic, *numbers(100, 105))


async def filled_with_backup(cluster: LocalCluster, topic: str, backup: Path) -> None:
    await send(cluster, topic, *numbers(0, 20))
    cluster.stop_broker()
    shutil.copytree(cluster.brokers[0].store_path, backup)
    cluster.start_broker()
    await cluster.clock.advance_async(minutes=10)
    await send(cluster, topic, *numbers(20, 40))


async def test_a_push_consumer_gets_what_is_sent_after_an_older_store_was_restored(
    topic: str, group: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with LocalCluster(settings=SMALL_FILES) as cluster:
        await filled_with_backup(cluster, topic, tmp_path / "backup")
        heard = Heard()
        async with PushConsumer(
            group, cluster.namesrv, {topic: "*"}, heard, start_from="earliest", clock=cluster.clock
        ) as consumer:
            await heard.wait_for(40)
            await consumer.commit()
            await cluster.clock.advance_async(minutes=10)
            await restore_an_older_store(cluster, topic, tmp_path / "backup")
            await eventually(lambda: set(heard.bodies) >= set(numbers(100, 105)))
            await consumer.commit()
            async with await BrokerApi.connect(cluster.namesrv) as api:
                assert (await committed(api, cluster.brokers[0].address, group, topic))[0] == 25
    assert sorted(heard.bodies) == sorted(numbers(0, 40) + numbers(100, 105)), "and nothing twice"
    (warning,) = [record for record in caplog.records if "has lost messages" in record.getMessage()]
    assert warning.levelno == logging.WARNING


async def test_a_polling_consumer_gets_it_too(topic: str, group: str, tmp_path: Path) -> None:
    async with LocalCluster(settings=SMALL_FILES) as cluster:
        await filled_with_backup(cluster, topic, tmp_path / "backup")
        async with LitePullConsumer(
            group, cluster.namesrv, {topic: "*"}, start_from="earliest", clock=cluster.clock
        ) as consumer:
            await read(consumer, 40)
            await cluster.clock.advance_async(minutes=10)
            await restore_an_older_store(cluster, topic, tmp_path / "backup")
            found = await read(consumer, 5)
            assert [message.body for message in found] == numbers(100, 105)
