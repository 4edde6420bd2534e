"""The first messages of a queue wait for its file, which a thread makes; nobody else waits, and none overtakes."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pyromq.broker.messages import new_queue_sends
from pyromq.broker.server import Broker
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import RemotingCommand
from pyromq.protocol.messages.batch import BatchElement, encode_batch
from pyromq.store.files import OsFiles
from pyromq.testing import eventually
from tests.broker.conftest import Connect, StartBroker
from tests.broker.helpers import Peer, send_header


class QueueDisk(OsFiles):
    """A disk on which making a queue's file waits while `passes` is clear, and fails while `is_full`."""

    def __init__(self) -> None:
        self.passes = threading.Event()
        self.passes.set()
        self.is_full = False
        self.makers: list[str] = []
        self.waiting = 0

    def open(self, path: str, *, create: bool = False) -> int:
        if create and "/consumequeue/" in path:
            self.makers.append(threading.current_thread().name)
            self.waiting += 1
            assert self.passes.wait(30)
            if self.is_full:
                raise OSError(errno.ENOSPC, "No space left on device")
        return super().open(path, create=create)


@pytest.fixture
async def disk() -> AsyncIterator[QueueDisk]:
    disk = QueueDisk()
    yield disk
    disk.passes.set()


@pytest.fixture
async def broker(disk: QueueDisk, start_broker: StartBroker) -> Broker:
    return await start_broker(disk)


async def begin_to_send(peer: Peer, count: int, queue_id: int = 1) -> list[asyncio.Task[RemotingCommand]]:
    """Send so many messages to a queue, one after the other, without waiting for answers."""
    tasks = []
    for number in range(count):
        tasks.append(asyncio.ensure_future(peer.send("orders", b"%d" % number, queue_id=queue_id)))
        await asyncio.sleep(0)
    return tasks


async def bodies(peer: Peer, queue_id: int = 1) -> list[bytes]:
    return [message.body for message in await peer.read("orders", queue_id=queue_id)]


async def test_the_loop_makes_no_file_of_a_queue(peer: Peer, disk: QueueDisk) -> None:
    for queue_id in (0, 1, 2, 2):
        await peer.send("orders", queue_id=queue_id)
    assert len(disk.makers) == 3
    assert threading.main_thread().name not in disk.makers


async def test_the_others_go_on_while_a_file_is_made_and_those_that_wait_stay_in_order(
    peer: Peer, broker: Broker, disk: QueueDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(new_queue_sends, "_SENDS_AT_A_TIME", 3)  # they take several passes of the loop
    await peer.send("orders", queue_id=0)
    disk.passes.clear()
    held = await begin_to_send(peer, 10)
    await eventually(lambda: disk.waiting == 2)
    await peer.send("orders", queue_id=0)
    assert not any(task.done() for task in held)
    disk.passes.set()
    held += await begin_to_send(peer, 10)
    await asyncio.gather(*held)
    assert await bodies(peer) == [b"%d" % number for number in [*range(10), *range(10)]]


async def test_a_batch_waits_as_well(peer: Peer, broker: Broker, disk: QueueDisk) -> None:
    await peer.send("orders", queue_id=0)
    disk.passes.clear()
    first = await begin_to_send(peer, 1)
    body = encode_batch([BatchElement(0, b"a"), BatchElement(0, b"b")])
    header = send_header("orders", queue_id=1, batch=True)
    batch = asyncio.ensure_future(peer.ask(RequestCode.SEND_BATCH_MESSAGE, header, body))
    await eventually(lambda: disk.waiting == 2)
    disk.passes.set()
    await asyncio.gather(*first, batch)
    assert await bodies(peer) == [b"0", b"a", b"b"]


async def test_a_file_that_cannot_be_made_is_told_to_the_sender(peer: Peer, disk: QueueDisk) -> None:
    await peer.send("orders", queue_id=0)
    disk.is_full = True
    for _ in range(2):
        await peer.send("orders", queue_id=1, expect=ResponseCode.SERVICE_NOT_AVAILABLE)
    await peer.send("orders", queue_id=0)
    disk.is_full = False
    await peer.send("orders", b"last", queue_id=1)
    assert await bodies(peer) == [b"last"]


async def test_too_many_that_wait_are_refused(
    peer: Peer, broker: Broker, disk: QueueDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(new_queue_sends, "_MOST_HELD", 2)
    await peer.send("orders", queue_id=0)
    disk.passes.clear()
    held = await begin_to_send(peer, 2)
    await eventually(lambda: disk.waiting == 2)
    await peer.send("orders", queue_id=1, expect=ResponseCode.SYSTEM_BUSY)
    disk.passes.set()
    await asyncio.gather(*held)


@pytest.mark.parametrize("comes_back", [False, True])
async def test_a_topic_that_is_deleted_while_the_file_of_a_queue_is_made(
    disk: QueueDisk, start_broker: StartBroker, connect: Connect, tmp_path: Path, comes_back: bool
) -> None:
    broker = await start_broker(disk, autoCreateTopicEnable=str(comes_back).lower())
    peer, operator = await connect(broker), await connect(broker)
    broker.topics.ensure("orders", 4, "for this test")
    disk.passes.clear()
    code = ResponseCode.SUCCESS if comes_back else ResponseCode.TOPIC_NOT_EXIST
    held = asyncio.ensure_future(peer.send("orders", queue_id=1, expect=code))
    await eventually(lambda: disk.waiting == 1)
    await operator.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "orders"})
    disk.passes.set()
    await held
    assert broker.store.topics == ["orders"] * comes_back
    assert (tmp_path / "store" / "consumequeue" / "orders" / "1").exists() == comes_back
    if comes_back:
        assert await bodies(peer) == [b"hello"]


async def test_what_waits_is_answered_before_a_broker_stops(
    disk: QueueDisk, start_broker: StartBroker, connect: Connect
) -> None:
    broker = await start_broker(disk)
    peer = await connect(broker)
    await peer.send("orders", queue_id=0)
    disk.passes.clear()
    code = ResponseCode.SERVICE_NOT_AVAILABLE
    held = asyncio.ensure_future(peer.send("orders", queue_id=1, expect=code))
    await eventually(lambda: disk.waiting == 2)
    stopping = asyncio.ensure_future(broker.__aexit__(None, None, None))
    await eventually(lambda: not broker.service.is_open)
    disk.passes.set()
    await held
    await stopping
