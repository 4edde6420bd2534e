"""What sends and deliveries hear while the tables cannot be saved: the log is one thing, a table another."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import AsyncIterator

import pytest

from pyromq.broker.messages import new_topic_sends
from pyromq.broker.server import Broker
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import request
from pyromq.protocol.headers.send import SendMessageResponseHeader
from pyromq.protocol.messages.properties import encode_properties
from pyromq.protocol.messages.record import decode_messages
from pyromq.store.files import OsFiles
from pyromq.testing import TestClock, eventually
from tests.broker.conftest import Connect, Join, StartBroker
from tests.broker.helpers import Peer, send_header
from tests.broker.messages.test_send_back import failed, send_back
from tests.broker.transactions.transaction_peer import COMMIT

REFUSED = ResponseCode.SERVICE_NOT_AVAILABLE


class TableDisk(OsFiles):
    """A disk on which no table can be written while `broken`; while `passes` is clear, writing one waits."""

    def __init__(self) -> None:
        self.broken = False
        self.passes = threading.Event()
        self.passes.set()
        self._tables: set[int] = set()

    def open(self, path: str, *, create: bool = False) -> int:
        descriptor = super().open(path, create=create)
        if "/config/" in path:
            self._tables.add(descriptor)
        return descriptor

    def close(self, descriptor: int) -> None:
        self._tables.discard(descriptor)
        super().close(descriptor)

    def pwrite(self, descriptor: int, data: bytes | memoryview, position: int) -> int:
        if descriptor in self._tables:
            assert self.passes.wait(30)
            if self.broken:
                raise OSError(errno.ENOSPC, "No space left on device")
        return super().pwrite(descriptor, data, position)


@pytest.fixture
async def disk() -> AsyncIterator[TableDisk]:
    disk = TableDisk()
    yield disk
    disk.passes.set()


@pytest.fixture
async def broker(disk: TableDisk, start_broker: StartBroker) -> Broker:
    return await start_broker(disk)


async def make_old(disk: TableDisk, peer: Peer, topic: str = "orders") -> None:
    """Have a topic on disk, and a table that cannot be saved: a new topic has failed."""
    await peer.send(topic, b"first")
    disk.broken = True
    await peer.send("new", expect=REFUSED)


def stored(broker: Broker, topic: str = "orders") -> list[bytes]:
    views = broker.store.get(topic, 0, 0, 1000, max_bytes=1 << 20).views
    return [message.body for message in decode_messages(b"".join(views))]


async def test_a_timed_message_is_delivered_once_although_the_table_of_topics_cannot_be_saved(
    disk: TableDisk, broker: Broker, peer: Peer, clock: TestClock
) -> None:
    await peer.send(body=b"timed", properties=encode_properties({"UNIQ_KEY": "u", "TIMER_DELAY_SEC": "5"}))
    await make_old(disk, peer)
    for _ in range(40):
        await clock.advance_async(seconds=0.2)
    await eventually(lambda: len(stored(broker)) >= 2)
    await clock.advance_async(seconds=2)
    assert stored(broker) == [b"first", b"timed"]
    assert broker.http_info()["timed_messages_waiting"] == 0


async def test_a_delayed_message_is_delivered_once_although_the_table_of_topics_cannot_be_saved(
    disk: TableDisk, broker: Broker, peer: Peer, clock: TestClock
) -> None:
    await peer.send(body=b"delayed", properties=encode_properties({"UNIQ_KEY": "u", "DELAY": "2"}))
    await make_old(disk, peer)
    for _ in range(10):
        await clock.advance_async(seconds=1)
    await eventually(lambda: len(stored(broker)) >= 2)
    assert stored(broker) == [b"first", b"delayed"]


async def test_sends_to_an_old_topic_do_not_depend_on_the_table(disk: TableDisk, broker: Broker, peer: Peer) -> None:
    await make_old(disk, peer)
    await asyncio.gather(*(peer.send(body=b"%d" % number) for number in range(20)))
    assert sorted(stored(broker)) == sorted([b"first", *(b"%d" % number for number in range(20))])


async def test_a_transaction_and_its_check_do_not_depend_on_the_table(
    disk: TableDisk, broker: Broker, peer: Peer, join: Join
) -> None:
    producer = await join(broker)
    ended, checked = await producer.prepare("tx-1"), await producer.prepare("tx-2")
    await make_old(disk, peer)
    await producer.end(ended, COMMIT)
    await producer.stay(90)
    await eventually(lambda: len(producer.questions) == 1)
    assert producer.questions[0].place.queue_offset > checked.queue_offset
    assert stored(broker) == [b"first", b"tx-1"]


async def test_a_retry_does_not_depend_on_the_table_but_a_new_topic_of_dead_letters_does(
    disk: TableDisk, broker: Broker, peer: Peer
) -> None:
    message = await failed(peer, broker)
    await make_old(disk, peer)
    await send_back(peer, message.physical_offset)
    assert broker.store.max_offset("SCHEDULE_TOPIC_XXXX", 2) == 1
    answer = await send_back(peer, message.physical_offset, delay_level=-1, expect=REFUSED)
    assert answer.remark == "not stored: the table of topics could not be saved"
    assert broker.store.max_offset("%DLQ%billing", 0) == 0
    disk.broken = False
    await send_back(peer, message.physical_offset, delay_level=-1)
    assert broker.store.max_offset("%DLQ%billing", 0) == 1


async def test_a_message_whose_new_topic_cannot_be_saved_is_not_stored_as_the_answer_says(
    disk: TableDisk, broker: Broker, peer: Peer
) -> None:
    await make_old(disk, peer)
    answer = await peer.send("new", b"again", expect=REFUSED)
    assert answer.remark == "not stored: the table of topics could not be saved"
    assert stored(broker, "new") == []
    disk.broken = False
    await peer.send("new", b"at last")
    assert stored(broker, "new") == [b"at last"]


async def test_sends_to_a_new_topic_wait_for_the_table_in_their_order(
    disk: TableDisk, broker: Broker, peer: Peer
) -> None:
    await peer.send()
    disk.passes.clear()
    sends = [asyncio.create_task(peer.send("new", b"%d" % number)) for number in range(5)]
    await peer.send(body=b"not held up")
    assert not any(send.done() for send in sends)
    assert stored(broker, "new") == []
    disk.passes.set()
    answers = await asyncio.gather(*sends)
    assert [answer.header(SendMessageResponseHeader).queue_offset for answer in answers] == [0, 1, 2, 3, 4]
    assert stored(broker, "new") == [b"0", b"1", b"2", b"3", b"4"]


async def test_the_messages_that_wait_for_a_table_are_limited(
    disk: TableDisk, broker: Broker, peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(new_topic_sends, "_MOST_BYTES", 10)
    disk.passes.clear()
    first = asyncio.create_task(peer.send("new", b"12345678"))
    await eventually(lambda: "new" in broker.topics.by_name)
    await peer.send("new", b"123", expect=ResponseCode.SYSTEM_BUSY)
    disk.passes.set()
    await first
    assert stored(broker, "new") == [b"12345678"]


async def test_one_way_sends_to_a_new_topic_are_stored_too(disk: TableDisk, broker: Broker, connect: Connect) -> None:
    peer = await connect(broker)
    disk.passes.clear()
    waiting = asyncio.create_task(peer.send("new", b"first"))
    await eventually(lambda: "new" in broker.topics.by_name)
    await peer.remoting.oneway(peer.address, request(RequestCode.SEND_MESSAGE_V2, send_header("new"), b"second"))
    await peer.beat()
    disk.passes.set()
    await waiting
    await eventually(lambda: stored(broker, "new") == [b"first", b"second"])


async def test_a_send_that_waits_for_the_table_is_refused_when_the_broker_stops_taking_messages(
    disk: TableDisk, broker: Broker, peer: Peer
) -> None:
    await peer.send()
    disk.passes.clear()
    waiting = asyncio.create_task(peer.send("new", expect=REFUSED))
    await eventually(lambda: "new" in broker.topics.by_name)
    demoting = asyncio.create_task(broker.demote())
    await asyncio.sleep(0)
    disk.passes.set()
    await asyncio.gather(waiting, demoting)
    assert stored(broker, "new") == []
