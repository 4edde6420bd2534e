"""Reads of what is not in memory, over real sockets and a disk that answers when the test says so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from pyromq.broker.config.broker_config import broker_config
from pyromq.broker.server import Broker
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import MAX_FRAME, RemotingCommand, request, response
from pyromq.protocol.messages.record import decode_messages
from pyromq.testing import TestClock, eventually
from tests.broker.conftest import Connect, Join, StartBroker
from tests.broker.helpers import PATIENT, Peer, pull_header
from tests.store.slow_disk import SlowDisk

MESSAGES = 20


class ColdBroker:
    """A broker with messages of an earlier life, none of them in memory."""

    def __init__(self, broker: Broker, disk: SlowDisk) -> None:
        self.broker = broker
        self.disk = disk

    def stop_disk(self) -> None:
        """Let nothing be in memory, and the disk give nothing until `disk.ready` is set."""
        self.broker.store.tails.write_all()
        self.disk.forget()
        self.disk.ready.clear()
        self.disk.waits.clear()

    @property
    def waiting(self) -> int:
        waiting: int = self.broker.http_info()["disk_waiting"]
        return waiting

    async def ask(self, peer: Peer, command: RemotingCommand) -> asyncio.Task[RemotingCommand]:
        """Ask, and return once the broker waits for the disk."""
        before = self.waiting
        connection = await peer.remoting.connection(peer.address)
        task = asyncio.ensure_future(connection.request(command, timeout=1000))
        await eventually(lambda: self.waiting > before)
        return task


def pull(**fields: Any) -> RemotingCommand:
    return request(RequestCode.PULL_MESSAGE, pull_header(**fields))


def bodies(answer: RemotingCommand) -> list[bytes]:
    return [message.body for message in decode_messages(answer.body)]


StartCold = Callable[..., Awaitable[ColdBroker]]


@pytest.fixture
async def start_cold(clock: TestClock, tmp_path: Path, start_broker: StartBroker) -> AsyncIterator[StartCold]:
    """Let a broker do something in a first life, and start it again on a disk that the test stops."""
    disk = SlowDisk()

    async def start(first_life: Callable[[Broker, Peer], Awaitable[object]], **settings: str) -> ColdBroker:
        values = PATIENT | {"listenPort": "0", "storePathRootDir": str(tmp_path / "store")} | settings
        async with Broker(broker_config(values), clock) as first:
            peer = Peer(first.address, clock)
            await first_life(first, peer)
            await peer.remoting.close()
        return ColdBroker(await start_broker(disk, **settings), disk)

    yield start
    disk.ready.set()


@pytest.fixture
async def cold(start_cold: StartCold) -> ColdBroker:
    async def send(broker: Broker, peer: Peer) -> None:
        for number in range(MESSAGES):
            await peer.send(body=b"%d" % number, queue_id=number % 2, properties="TAGS\x01old\x02KEYS\x01k")

    return await start_cold(send)


async def test_whoever_waits_for_the_disk_holds_up_nobody_else(cold: ColdBroker, connect: Connect) -> None:
    slow, quick = await connect(cold.broker), await connect(cold.broker)
    cold.stop_disk()
    waiting = await cold.ask(slow, pull())
    await quick.send(body=b"new", queue_id=3)
    assert [message.body for message in await quick.read(queue_id=3)] == [b"new"]
    assert [message.body for message in await slow.read(queue_id=3)] == [b"new"], "nor its own other queues"
    await quick.beat()
    assert not waiting.done()
    cold.disk.ready.set()
    assert bodies(await waiting) == [b"%d" % number for number in range(0, MESSAGES, 2)]
    assert all(name.startswith("pyromq-disk") for name in cold.disk.waits)
    assert cold.waiting == 0


async def test_answers_about_one_queue_keep_their_order_on_a_connection(cold: ColdBroker, connect: Connect) -> None:
    peer = await connect(cold.broker)
    cold.stop_disk()
    order: list[str] = []
    first = await cold.ask(peer, pull(queue_offset=3, commit_offset=3, sys_flag=1 | 4))
    second = await cold.ask(peer, pull(queue_offset=MESSAGES // 2, commit_offset=5, sys_flag=1 | 4))  # needs no disk
    first.add_done_callback(lambda _: order.append("first"))
    second.add_done_callback(lambda _: order.append("second"))
    cold.disk.ready.set()
    await asyncio.gather(first, second)
    assert order == ["first", "second"]
    assert cold.broker.offsets.get("billing", "orders", 0) == 5


async def test_a_connection_has_one_fetch_at_a_time(cold: ColdBroker, connect: Connect) -> None:
    greedy, modest = await connect(cold.broker), await connect(cold.broker)
    cold.stop_disk()
    tasks = [await cold.ask(greedy, pull(queue_id=number % 2, queue_offset=number)) for number in range(8)]
    tasks.append(await cold.ask(modest, pull()))
    await eventually(lambda: len(cold.disk.waits) == 2)
    assert cold.broker.service.parts.reads.workers.unfinished == 2
    cold.disk.ready.set()
    assert all(answer.code == ResponseCode.SUCCESS for answer in await asyncio.gather(*tasks))


async def test_what_several_consumers_miss_is_read_once(cold: ColdBroker, connect: Connect) -> None:
    peers = [await connect(cold.broker) for _ in range(5)]
    cold.stop_disk()
    tasks = [await cold.ask(peer, pull()) for peer in peers]
    await eventually(lambda: len(cold.disk.waits) == 2)
    workers = cold.broker.service.parts.reads.workers
    assert workers.unfinished == 2, "the first is a single read, the others are taken to read on"
    cold.disk.ready.set()
    for answer in await asyncio.gather(*tasks):
        assert bodies(answer) == [b"%d" % number for number in range(0, MESSAGES, 2)]
    await eventually(lambda: workers.unfinished == 0)


async def test_nothing_is_read_for_a_connection_that_has_closed(cold: ColdBroker, connect: Connect) -> None:
    peer = await connect(cold.broker)
    cold.stop_disk()
    tasks = [await cold.ask(peer, pull(queue_id=number)) for number in range(2)]
    await peer.remoting.close()
    cold.disk.ready.set()
    await eventually(lambda: cold.waiting == 0)
    await asyncio.gather(*tasks, return_exceptions=True)
    assert len(cold.disk.waits) == 1


async def test_a_broker_that_stops_refuses_what_still_waits(
    clock: TestClock, cold: ColdBroker, connect: Connect
) -> None:
    peer = await connect(cold.broker)
    cold.stop_disk()
    waiting = await cold.ask(peer, pull())
    stopping = asyncio.ensure_future(cold.broker.__aexit__(None, None, None))
    answer = await waiting
    assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
    cold.disk.ready.set()
    await stopping


async def test_an_error_of_the_disk_is_answered(cold: ColdBroker, connect: Connect) -> None:
    peer = await connect(cold.broker)
    cold.stop_disk()
    waiting = await cold.ask(peer, pull())
    cold.disk.broken = True
    cold.disk.ready.set()
    answer = await waiting
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "the store cannot be read" in (answer.remark or "")


async def test_a_held_pull_whose_time_is_up_waits_for_the_disk_alone(
    cold: ColdBroker, connect: Connect, clock: TestClock
) -> None:
    peer, other = await connect(cold.broker), await connect(cold.broker)
    connection = await peer.remoting.connection(peer.address)
    end = MESSAGES // 2
    command = pull(queue_offset=end, subscription="new", sys_flag=2 | 4)
    held = asyncio.ensure_future(connection.request(command, timeout=1000))
    await eventually(lambda: cold.broker.http_info()["held_pulls"] == 1)
    await other.send(body=b"old again", properties="TAGS\x01old")
    cold.stop_disk()
    await clock.advance_async(seconds=20)
    await eventually(lambda: cold.waiting == 1)
    await other.send(body=b"meanwhile", queue_id=1)
    cold.disk.ready.set()
    answer = await held
    assert answer.code == ResponseCode.PULL_RETRY_IMMEDIATELY
    assert int(answer.ext_fields["nextBeginOffset"]) == end + 1


QUEUE = {"topic": "orders", "queueId": "1"}
REQUESTS: dict[int, dict[str, str]] = {
    RequestCode.PULL_MESSAGE: {},
    RequestCode.PULL_QUEUES: {
        "consumerGroup": "billing", "topic": "orders", "ranges": "0:0:9,1:0:9", "maxMsgNums": "32",
        "maxBytes": "65536", "subscription": "*",
    },
    RequestCode.QUERY_CONSUMER_OFFSET: {**QUEUE, "consumerGroup": "nobody"},
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: {**QUEUE, "timestamp": "1000000000000"},
    RequestCode.GET_EARLIEST_MSG_STORETIME: QUEUE,
    RequestCode.VIEW_MESSAGE_BY_ID: {"offset": "0"},
    RequestCode.GET_TOPIC_STATS_INFO: {"topic": "orders"},
    RequestCode.QUERY_CONSUME_QUEUE: {**QUEUE, "index": "0", "count": "5"},
    RequestCode.GET_CONSUME_STATS: {"consumerGroup": "billing", "topic": "orders"},
    RequestCode.QUERY_CONSUME_TIME_SPAN: {"topic": "orders", "group": "billing"},
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: {
        "topic": "orders", "group": "billing", "timestamp": "1000000000000", "isForce": "true",
    },
    RequestCode.CONSUMER_SEND_MSG_BACK: {"offset": "0", "group": "billing", "delayLevel": "3"},
    RequestCode.GET_BROKER_RUNTIME_INFO: {},
}  # fmt: skip


@pytest.mark.parametrize("code", REQUESTS, ids=lambda code: RequestCode(code).name)
async def test_no_request_makes_the_loop_wait_for_the_disk(cold: ColdBroker, connect: Connect, code: int) -> None:
    peer = await connect(cold.broker)
    await peer.beat()
    for queue_id in range(4):
        cold.broker.offsets.commit("billing", "orders", queue_id, 1, "test")
    command = pull() if code == RequestCode.PULL_MESSAGE else request(code, REQUESTS[code])
    cold.stop_disk()
    waiting = await cold.ask(peer, command)
    await peer.send(topic="others", body=b"meanwhile")
    cold.disk.ready.set()
    answer = await waiting
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    assert all(name.startswith("pyromq-disk") for name in cold.disk.waits)


# --- what takes several steps, and what the broker does by itself


async def holds_up_nobody(cold: ColdBroker, peer: Peer) -> None:
    """Wait until a thread waits for the disk, and show that nothing else does; then let the disk answer."""
    await eventually(lambda: bool(cold.disk.waits))
    await peer.send("others", b"meanwhile")
    cold.disk.ready.set()
    assert all(name.startswith("pyromq-disk") for name in cold.disk.waits)


async def test_a_search_by_key_reads_without_holding_up_others(cold: ColdBroker, connect: Connect) -> None:
    curious, producer = await connect(cold.broker), await connect(cold.broker)
    fields = {"topic": "orders", "key": "k", "maxNum": "64", "beginTimestamp": "0", "endTimestamp": str(2**62)}
    connection = await curious.remoting.connection(curious.address)
    await curious.ask(RequestCode.QUERY_MESSAGE, fields)  # the index is in memory now
    cold.stop_disk()
    cold.disk.forget("/commitlog/")
    query = asyncio.ensure_future(connection.request(request(RequestCode.QUERY_MESSAGE, fields), timeout=1000))
    await holds_up_nobody(cold, producer)
    assert len(bodies(await query)) == MESSAGES


async def test_the_progress_of_all_groups_is_read_without_holding_up_others(cold: ColdBroker, connect: Connect) -> None:
    curious, producer = await connect(cold.broker), await connect(cold.broker)
    await curious.beat()
    cold.broker.offsets.commit("billing", "orders", 0, 1, "test")
    cold.stop_disk()
    fields = {"isOrder": "false", "timeoutMillis": "1000"}
    asked = asyncio.ensure_future(curious.ask(RequestCode.GET_BROKER_CONSUME_STATS, fields, timeout=1000))
    await holds_up_nobody(cold, producer)
    assert b"orders" in (await asked).body


@pytest.mark.parametrize("properties", ["DELAY\x013", "TIMER_DELAY_MS\x0110000"], ids=["level", "time"])
async def test_delayed_messages_are_read_without_holding_up_others(
    start_cold: StartCold, connect: Connect, clock: TestClock, properties: str
) -> None:
    async def send(broker: Broker, peer: Peer) -> None:
        await peer.send("orders", queue_id=1)
        for number in range(5):
            await peer.send("orders", b"%d" % number, properties=properties)

    cold = await start_cold(send)
    producer = await connect(cold.broker)
    await eventually(lambda: cold.broker.http_info()["timed_messages_waiting"] == 5 * ("TIMER" in properties))
    cold.stop_disk()
    await clock.advance_async(seconds=11)
    await holds_up_nobody(cold, producer)
    await eventually(lambda: cold.broker.store.max_offset("orders", 0) == 5)
    assert {message.body for message in await producer.read()} == {b"%d" % number for number in range(5)}


async def test_half_messages_are_read_without_holding_up_others(
    start_cold: StartCold, connect: Connect, join: Join, clock: TestClock
) -> None:
    async def prepare(broker: Broker, peer: Peer) -> None:
        producer = await join(broker)
        for number in range(3):
            await producer.prepare(f"tx-{number}")

    cold = await start_cold(prepare)
    producer, other = await join(cold.broker), await connect(cold.broker)
    await other.send("others")
    cold.stop_disk()
    await producer.stay(90)
    await holds_up_nobody(cold, other)
    await producer.stay(1)
    assert len(await producer.asked(3)) == 3


async def test_an_answer_that_fits_into_no_frame_does_not_stop_the_line_of_its_connection(
    cold: ColdBroker, connect: Connect
) -> None:
    peer = await connect(cold.broker)
    cold.stop_disk()
    first = await cold.ask(peer, pull())
    (connection,) = cold.broker._ports._main.connections
    large = request(RequestCode.PULL_MESSAGE, pull_header())
    cold.broker._reads.serve_later(
        lambda command, _: response(command, body=b"x" * MAX_FRAME), large, connection, missing=()
    )
    second = await cold.ask(peer, pull(queue_id=1))
    cold.disk.ready.set()
    assert len(bodies(await first)) == len(bodies(await second)) == MESSAGES // 2
    assert cold.waiting == 0
