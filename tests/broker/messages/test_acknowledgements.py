"""What a send hears, and when, under SYNC_FLUSH and ASYNC_FLUSH."""

from __future__ import annotations

import asyncio
import errno
import logging
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest

from pyromq.broker.config.broker_config import broker_config
from pyromq.broker.messages.acknowledgements import Acknowledgements
from pyromq.broker.messages.durability import Durability, loss_window
from pyromq.broker.messages.sent_properties import waits_for_flush
from pyromq.broker.server import Broker
from pyromq.broker.signals import StoreSignals
from pyromq.errors import ConfigError
from pyromq.protocol.bodies import KVTable, decode
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import RemotingCommand
from pyromq.protocol.headers.send import SendMessageResponseHeader
from pyromq.remoting.connection import Connection
from pyromq.remoting.round import Round
from pyromq.store.files import OsFiles
from pyromq.store.message_store import MessageStore
from pyromq.testing import TestClock, eventually, wait_until
from tests.broker.conftest import Connect, StartBroker
from tests.broker.helpers import Peer
from tests.store.helpers import FakeTime, message, small_config

Sending = asyncio.Task[RemotingCommand]


class SlowDisk(OsFiles):
    """A disk whose flushes of the log wait while `stuck`, and fail if `broken`; `flushes` counts those of the log."""

    def __init__(self) -> None:
        self.passes = threading.Event()
        self.passes.set()
        self.broken = False
        self.entered = 0

    def fdatasync(self, descriptor: int) -> None:
        self.entered += 1
        assert self.passes.wait(30)
        if self.broken:
            raise OSError(errno.EIO, "Input/output error")
        super().fdatasync(descriptor)


@pytest.fixture
async def disk() -> AsyncIterator[SlowDisk]:
    disk = SlowDisk()
    yield disk
    disk.passes.set()


@pytest.fixture
async def slow(disk: SlowDisk, start_broker: StartBroker, connect: Connect) -> Peer:
    """A producer at a broker with SYNC_FLUSH that knows its topic."""
    broker = await start_broker(disk, flushDiskType="SYNC_FLUSH", syncFlushTimeout=5000)
    peer = await connect(broker)
    await peer.send(body=b"first")
    return peer


async def stuck(disk: SlowDisk, clock: TestClock, *senders: Sending) -> None:
    """Wait until the flush of what was sent hangs, and nothing else happens while time passes."""
    await eventually(lambda: disk.entered > 0)
    await clock.advance_async(seconds=0.5)
    assert not any(sender.done() for sender in senders)


async def test_a_send_waits_for_the_flush(slow: Peer, disk: SlowDisk, clock: TestClock) -> None:
    disk.passes.clear()
    disk.entered = 0
    sending = asyncio.create_task(slow.send(body=b"second"))
    await stuck(disk, clock, sending)
    assert [message.body for message in await slow.read()] == [b"first"]  # nor is it seen before
    disk.passes.set()
    await sending
    assert [message.body for message in await slow.read()] == [b"first", b"second"]


async def test_a_part_of_the_broker_is_told_of_its_message_when_it_is_visible(tmp_path: Path) -> None:
    """The flusher's thread may be done while the loop is still busy with the next group."""
    calls: list[tuple[Any, ...]] = []
    signals, visible = StoreSignals(), list[int]()
    config = small_config(tmp_path, flush_disk_type="SYNC_FLUSH")
    later = lambda *call: calls.append(call)  # noqa: E731
    with MessageStore(config, FakeTime(), call_threadsafe=later, on_durable=signals.durable) as store:
        durability, now = Durability(store, signals), Round(asyncio.get_running_loop())
        kept = Acknowledgements(store, durability, now, TestClock(), flush_timeout=5.0, slave_timeout=3.0)
        end = store.put(message()).size
        kept.then(lambda stored: visible.append(store.max_offset("orders", 0)))
        kept.finish_group()
        wait_until(lambda: store.flushed_offset == end)
        store.put(message())
        kept.finish_group()
        assert visible == []
        wait_until(lambda: len(calls) == 2)
        for function, *arguments in calls:
            function(*arguments)
        assert visible == [1]
        kept.close()


async def test_a_flush_that_takes_too_long_is_a_status_and_the_message_may_become_durable(
    slow: Peer, disk: SlowDisk, clock: TestClock
) -> None:
    disk.passes.clear()
    disk.entered = 0
    sending = asyncio.create_task(slow.send(body=b"late", expect=ResponseCode.FLUSH_DISK_TIMEOUT))
    await stuck(disk, clock, sending)
    await clock.advance_async(seconds=4)
    assert not sending.done()
    await clock.advance_async(seconds=2)
    answer = await sending
    header = answer.header(SendMessageResponseHeader)
    assert (header.queue_id, header.queue_offset, len(header.msg_id)) == (0, 1, 32)
    assert answer.remark is None
    disk.passes.set()
    await eventually(lambda: disk.entered > 1)
    await slow.send(body=b"next")
    assert [message.body for message in await slow.read()] == [b"first", b"late", b"next"]


async def test_who_does_not_wait_is_answered_after_the_write(slow: Peer, disk: SlowDisk, clock: TestClock) -> None:
    disk.passes.clear()
    for value in ("false", "FALSE", "no"):
        await slow.send(body=b"quick", properties=f"TAGS\x01a\x02WAIT\x01{value}")
    sending = asyncio.create_task(slow.send(body=b"patient", properties="WAIT\x01TRUE"))
    await stuck(disk, clock, sending)
    disk.passes.set()
    await sending
    assert len(await slow.read()) == 5


async def test_a_batch_may_say_that_it_does_not_wait(slow: Peer, disk: SlowDisk) -> None:
    body = b"".join(bytes([0, 0, 0, 23]) + bytes(12) + bytes([0, 0, 0, 1]) + b"x" + bytes(2) for _ in range(2))
    disk.passes.clear()
    answer = await slow.send(body=body, batch=True, properties="WAIT\x01false")
    assert answer.header(SendMessageResponseHeader).queue_offset == 1
    disk.passes.set()


async def test_a_flush_that_fails_refuses_all_that_wait_and_reading_goes_on(
    slow: Peer, disk: SlowDisk, clock: TestClock
) -> None:
    disk.passes.clear()
    disk.entered = 0
    sends = [slow.send(body=b"lost", expect=ResponseCode.SERVICE_NOT_AVAILABLE) for _ in range(3)]
    sending = [asyncio.create_task(send) for send in sends]
    await stuck(disk, clock, *sending)
    disk.broken = True
    disk.passes.set()
    await asyncio.gather(*sending)
    await slow.send(expect=ResponseCode.SERVICE_NOT_AVAILABLE, properties="WAIT\x01false")
    assert [message.body for message in await slow.read()] == [b"first"]


@pytest.mark.parametrize(
    ("properties", "waits"),
    [
        (None, True),
        ("", True),
        ("WAIT\x01true", True),
        ("WAIT\x01True\x02TAGS\x01a", True),
        ("TAGS\x01a\x02WAIT\x01false\x02", False),
        ("WAIT\x01no", False),
        ("XWAIT\x01false", True),
    ],
)
def test_the_wait_flag(properties: str | None, waits: bool) -> None:
    assert waits_for_flush(properties) is waits


async def test_the_loss_window_is_told_at_start_in_one_line(
    start_broker: StartBroker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    broker = await start_broker(flushIntervalCommitLog=300)
    lines = [record.getMessage() for record in caplog.records if "power cut" in record.getMessage()]
    assert lines == [loss_window(broker.config.store)]
    assert "ASYNC_FLUSH" in lines[0]
    assert "300 ms" in lines[0]
    assert "takes none" in loss_window(broker_config({"flushDiskType": "SYNC_FLUSH"}).store)


def test_the_loss_window_stays_under_a_second_whatever_is_configured() -> None:
    assert broker_config({"flushIntervalCommitLog": "5000"}).store.flush_interval_ms == 900
    with pytest.raises(ConfigError, match="flushIntervalCommitLog"):
        broker_config({"flushIntervalCommitLog": "0"})


async def test_a_quiet_broker_flushes_a_single_message_and_shows_how_long_it_waited(
    start_broker: StartBroker, connect: Connect
) -> None:
    broker = await start_broker(flushIntervalCommitLog=20)
    peer = await connect(broker)
    await peer.send()
    await eventually(lambda: broker.store.flushed_offset == broker.store.max_physical_offset)
    await eventually(lambda: broker.http_info()["unflushed_ms"] == 0)
    info = broker.http_info()
    assert (info["unflushed_bytes"], info["flush_disk_type"]) == (0, "ASYNC_FLUSH")
    assert 0 < info["max_unflushed_ms"] < 20_000
    answer = await peer.ask(RequestCode.GET_BROKER_RUNTIME_INFO)
    assert decode(KVTable, answer.body).table["remainHowManyDataToFlush"] == "0 B"


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
async def test_an_error_of_whoever_hears_of_arrivals_drops_no_answer(
    start_broker: StartBroker, connect: Connect, flush: str
) -> None:
    def fail(arrivals: object) -> None:
        raise RuntimeError("planted")

    broker = await start_broker(flushDiskType=flush)
    peer = await connect(broker)
    unsubscribe = broker.service.parts.signals.arrived.subscribe(fail)
    await asyncio.gather(*(peer.send(body=b"%d" % number) for number in range(5)))
    unsubscribe()
    assert len(await peer.read()) == 5


async def test_an_error_of_one_who_waits_for_a_message_drops_no_other(broker: Broker, peer: Peer) -> None:
    waiting = broker._write
    assert waiting is not None
    heard: list[bool] = []
    await peer.send()
    broker.store.put(message())
    waiting._acknowledgements.then(lambda stored: [][int(stored)])
    waiting._acknowledgements.then(heard.append)
    await eventually(lambda: heard == [True])


async def test_answers_of_the_lane_leave_in_one_write_for_each_read_and_one_that_fails_stops_no_other(
    tmp_path: Path,
) -> None:
    writes: list[tuple[str, bytes]] = []

    class Writer:
        def __init__(self, name: str) -> None:
            self.name = name

        def send_at_once(self, frames: bytes) -> None:
            writes.append((self.name, frames))
            if self.name == "broken":
                raise RuntimeError("a fault of the transport")

    one, broken, other = (cast(Connection, Writer(name)) for name in ("one", "broken", "other"))
    with MessageStore(small_config(tmp_path), FakeTime()) as store:
        round = Round(asyncio.get_running_loop())
        durability = Durability(store, StoreSignals())
        kept = Acknowledgements(store, durability, round, TestClock(), flush_timeout=5.0, slave_timeout=3.0)
        store.put(message())
        for connection, answers in ((one, b"1"), (one, b"2"), (broken, b"3"), (other, b"4"), (one, b"5")):
            kept.add_all(connection, answers)
        assert writes == []
        kept.finish_group()
        assert writes == [("one", b"12"), ("broken", b"3"), ("other", b"4"), ("one", b"5")]
        kept.close()


async def test_answers_leave_before_messages_can_be_seen(tmp_path: Path) -> None:
    """Whoever gets one and asks for the message is served later, and finds it."""
    seen: list[int] = []

    class Writer:
        def send_at_once(self, frames: bytes) -> None:
            seen.append(store.max_offset("orders", 0))

    with MessageStore(small_config(tmp_path), FakeTime()) as store:
        durability = Durability(store, StoreSignals())
        round = Round(asyncio.get_running_loop())
        kept = Acknowledgements(store, durability, round, TestClock(), flush_timeout=5.0, slave_timeout=3.0)
        store.put(message())
        kept.add_all(cast(Connection, Writer()), b"1")
        await eventually(lambda: store.max_offset("orders", 0) == 1)
        assert seen == [0]
        kept.close()
