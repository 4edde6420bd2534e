"""QUERY_MESSAGE over a real socket: by key, by unique key, by time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from unittest.mock import patch

import pytest

from pyromq.broker.pulls.message_query import MOST_OF_A_CONNECTION
from pyromq.broker.server import Broker
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import RemotingCommand, request
from pyromq.protocol.messages.record import decode_messages
from pyromq.store.files import OsFiles
from pyromq.store.index.key_query import QueryBudget
from pyromq.testing import TestClock, eventually
from tests.broker.conftest import Connect, StartBroker
from tests.broker.helpers import Peer, send_header

FOREVER = 2**63 - 1


async def send(peer: Peer, keys: str, unique: str, body: bytes = b"hello") -> None:
    properties = f"KEYS\x01{keys}\x02UNIQ_KEY\x01{unique}\x02WAIT\x01true"
    await peer.ask(RequestCode.SEND_MESSAGE_V2, send_header(properties=properties), body)


async def query(
    peer: Peer, key: str, expect: int = ResponseCode.SUCCESS, count: int = 64, *, topic: str = "orders",
    unique: bool = False, begin_ms: int = 0, end_ms: int = FOREVER, before: int | None = None,
) -> RemotingCommand:  # fmt: skip
    fields = {
        "topic": topic, "key": key, "maxNum": str(count), "beginTimestamp": str(begin_ms),
        "endTimestamp": str(end_ms), "_UNIQUE_KEY_QUERY": str(unique).lower(),
    }  # fmt: skip
    if before is not None:
        fields["pyromqBefore"] = str(before)
    return await peer.ask(RequestCode.QUERY_MESSAGE, fields, expect=expect)


def bodies(answer: RemotingCommand) -> list[bytes]:
    return [message.body for message in decode_messages(answer.body)]


async def test_a_sent_message_is_found_at_once_by_each_of_its_keys(peer: Peer, broker: Broker) -> None:
    await send(peer, "a b", "U1", b"one")
    await send(peer, "b", "U2", b"two")
    assert bodies(await query(peer, "a")) == [b"one"]
    answer = await query(peer, "b")
    assert bodies(answer) == [b"one", b"two"]
    last = decode_messages(answer.body)[-1]
    assert answer.ext_fields == {
        "indexLastUpdateTimestamp": str(last.store_timestamp_ms),
        "indexLastUpdatePhyoffset": str(last.physical_offset),
    }


async def test_a_unique_key_is_asked_for_32_whatever_the_query_says(peer: Peer) -> None:
    for number in range(40):
        await send(peer, "a", "same", b"%d" % number)
    assert len(bodies(await query(peer, "same", count=1, unique=True))) == 32
    assert bodies(await query(peer, "same", count=1)) == [b"39"]
    assert len(bodies(await query(peer, "a", count=1000))) == 40


async def test_only_messages_of_the_time_are_answered(peer: Peer, clock: TestClock) -> None:
    for number in range(3):
        await send(peer, "a", f"U{number}", b"%d" % number)
        await clock.advance_async(seconds=10)
    now_ms = clock.now_ms()
    assert bodies(await query(peer, "a", begin_ms=now_ms - 25_000, end_ms=now_ms - 15_000)) == [b"1"]
    await query(peer, "a", ResponseCode.QUERY_NOT_FOUND, begin_ms=now_ms)


async def test_the_next_older_messages_of_a_key_are_asked_for_by_place(peer: Peer) -> None:
    for number in range(10):
        await send(peer, "a", f"U{number}", b"%d" % number)
    newest = await query(peer, "a", count=4)
    assert bodies(newest) == [b"6", b"7", b"8", b"9"]
    older = await query(peer, "a", count=4, before=decode_messages(newest.body)[0].physical_offset)
    assert bodies(older) == [b"2", b"3", b"4", b"5"]
    await query(peer, "a", ResponseCode.QUERY_NOT_FOUND, before=0)


async def test_older_messages_are_found_behind_many_of_the_same_second(peer: Peer, clock: TestClock) -> None:
    await clock.advance_async(seconds=1 - clock.now() % 1)  # a second begins
    await send(peer, "a", "U1", b"old")
    end_ms = clock.now_ms()
    await clock.advance_async(seconds=0.01)
    for number in range(3):
        await send(peer, "a", f"U2-{number}", b"new")
    assert bodies(await query(peer, "a", count=2, end_ms=end_ms)) == [b"old"]


@pytest.mark.parametrize("fields", [{"key": "b"}, {"key": "a", "topic": "others"}, {"key": "a", "count": -1}])
async def test_nothing_found_is_said_so(peer: Peer, fields: dict[str, object]) -> None:
    await send(peer, "a", "U1")
    await query(peer, **fields, expect=ResponseCode.QUERY_NOT_FOUND)  # type: ignore[arg-type]


async def test_without_an_index_nothing_is_found(start_broker: StartBroker, connect: Connect) -> None:
    broker = await start_broker(messageIndexEnable="false")
    peer = await connect(broker)
    await send(peer, "a", "U1")
    await query(peer, "a", ResponseCode.QUERY_NOT_FOUND)


async def test_the_limits_can_be_set(start_broker: StartBroker, connect: Connect) -> None:
    broker = await start_broker(maxMsgsNumBatch=3, defaultQueryMaxNum=2, maxHashSlotNum=16, maxIndexNum=8)
    peer = await connect(broker)
    for number in range(9):
        await send(peer, "a", "same", b"%d" % number)
    assert bodies(await query(peer, "a")) == [b"6", b"7", b"8"]
    assert bodies(await query(peer, "same", unique=True)) == [b"7", b"8"]
    assert {path.stat().st_size for path in (broker.config.store.root / "index").iterdir()} == {40 + 4 * 16 + 20 * 8}


class SlowIndex(OsFiles):
    """A disk that reads index files when the test says so."""

    def __init__(self) -> None:
        self.ready = threading.Event()
        self.ready.set()
        self.readers: list[str] = []
        self._indexes: set[int] = set()

    def open(self, path: str, *, create: bool = False) -> int:
        descriptor = super().open(path, create=create)
        (self._indexes.add if "/index/" in path else self._indexes.discard)(descriptor)
        return descriptor

    def pread(self, descriptor: int, length: int, position: int) -> bytes:
        if descriptor in self._indexes and not self.ready.is_set():
            self.readers.append(threading.current_thread().name)
            assert self.ready.wait(60)
        return super().pread(descriptor, length, position)


@pytest.fixture
async def index(start_broker: StartBroker) -> AsyncIterator[tuple[SlowIndex, Broker]]:
    disk = SlowIndex()
    broker = await start_broker(disk)
    yield disk, broker
    disk.ready.set()


async def ask(peer: Peer, key: str = "a") -> asyncio.Task[RemotingCommand]:
    fields = {"topic": "orders", "key": key, "maxNum": "64", "beginTimestamp": "0", "endTimestamp": str(FOREVER)}
    connection = await peer.remoting.connection(peer.address)
    return asyncio.ensure_future(connection.request(request(RequestCode.QUERY_MESSAGE, fields), timeout=1000))


async def test_searches_that_take_long_hold_up_nothing_else(index: tuple[SlowIndex, Broker], connect: Connect) -> None:
    disk, broker = index
    curious, producer = await connect(broker), await connect(broker)
    await send(producer, "a", "U1", b"one")
    disk.ready.clear()
    queries = [await ask(curious) for _ in range(MOST_OF_A_CONNECTION)]
    await eventually(lambda: bool(disk.readers))
    await producer.send("a-new-topic", b"its table is saved by a thread")
    await producer.send(body=b"another")
    assert set(disk.readers) == {"pyromq-query_0"}
    disk.ready.set()
    assert [bodies(answer) for answer in await asyncio.gather(*queries)] == [[b"one"]] * MOST_OF_A_CONNECTION


async def test_a_connection_has_a_limited_number_of_searches(index: tuple[SlowIndex, Broker], connect: Connect) -> None:
    disk, broker = index
    greedy, other = await connect(broker), await connect(broker)
    await send(other, "a", "U1")
    disk.ready.clear()
    queries = [await ask(greedy) for _ in range(MOST_OF_A_CONNECTION + 1)]
    refused = await queries[-1]
    assert refused.code == ResponseCode.SYSTEM_BUSY
    last = await ask(other)
    disk.ready.set()
    answers = await asyncio.gather(*queries[:-1], last)
    assert {answer.code for answer in answers} == {ResponseCode.SUCCESS}


async def test_searches_end_with_their_connection(index: tuple[SlowIndex, Broker], connect: Connect) -> None:
    disk, broker = index
    curious, producer = await connect(broker), await connect(broker)
    await send(producer, "a", "U1")
    disk.ready.clear()
    queries = [await ask(curious) for _ in range(8)]
    await eventually(lambda: len(disk.readers) == 1)
    await curious.remoting.close()
    await asyncio.gather(*queries, return_exceptions=True)
    await eventually(lambda: len(broker.service.connections) == 1)
    last = await ask(producer)
    disk.ready.set()
    assert (await last).code == ResponseCode.SUCCESS
    assert len(disk.readers) == 1, "the other seven did not look into the file"


async def test_a_search_that_looks_at_too_much_is_answered_with_advice(peer: Peer, clock: TestClock) -> None:
    await send(peer, "a", "U1")
    with patch("pyromq.broker.pulls.message_query.QueryBudget", lambda **_: QueryBudget(0)):
        answer = await query(peer, "a", ResponseCode.SYSTEM_ERROR)
    assert "ask for a shorter time" in (answer.remark or "")
