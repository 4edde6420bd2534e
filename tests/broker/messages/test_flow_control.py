"""SYSTEM_BUSY: when sends are refused, for how long, and what the answer says."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pyromq.broker.config.broker_config import broker_config, settings_of
from pyromq.broker.messages.flow_control import Cause, SendFlowControl
from pyromq.broker.server import Broker
from pyromq.broker.stats.runtime_info import runtime_table
from pyromq.errors import SystemBusy
from pyromq.figures import Figures
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import request
from pyromq.remoting.round import Round
from pyromq.store.files import OsFiles
from pyromq.store.message_store import MessageStore
from pyromq.store.write.write_times import WriteTimes
from pyromq.testing import eventually
from tests.broker.conftest import Connect, StartBroker
from tests.broker.helpers import Peer, send_header


class Loop:
    """A loop whose rounds take as long as the test says."""

    def __init__(self, wait_limit: float | None = 0.2) -> None:
        self.now = 100.0
        self.hooks: list[Callable[[], None]] = []
        self.round: Any = SimpleNamespace(at_end=self.hooks.append, began=0.0)
        self.store: Any = SimpleNamespace(write_times=WriteTimes())
        round_, store = cast(Round, self.round), cast(MessageStore, self.store)
        self.flow = SendFlowControl(round_, store, wait_limit=wait_limit, write_limit=1.0, timer=lambda: self.now)

    def go_round(self, seconds: float, write: float = 0.0) -> None:
        self.round.began = self.now
        self.now += seconds
        self.store.write_times.last = write
        for hook in self.hooks:
            hook()

    def refusal(self) -> str:
        """Return the remark with which a send is refused now; empty if it is taken."""
        if self.flow.refuses:
            try:
                self.flow.check()
            except SystemBusy as error:
                return error.remark
        return ""


def shown_wait(flow: SendFlowControl) -> str:
    """Return how long requests waited, as RocketMQ's tools show it."""
    return runtime_table(Figures(flow.figures()))["sendThreadPoolQueueHeadWaitTimeMills"]


def test_one_long_round_refuses_nobody() -> None:
    loop = Loop()
    loop.go_round(5)
    assert loop.refusal() == ""
    assert loop.flow.longest_round == pytest.approx(5)


def test_long_rounds_for_a_second_refuse_with_the_measured_wait() -> None:
    loop = Loop()
    for _ in range(4):
        loop.go_round(0.3)
        assert loop.refusal() == ""
    loop.go_round(0.35)
    assert loop.refusal() == "[TIMEOUT_CLEAN_QUEUE]requests wait 350 ms, more than 200 ms, since 1.2 s; try again later"
    assert loop.flow.refused == {Cause.WAIT: 1, Cause.WRITE: 0}
    assert shown_wait(loop.flow) == "350"
    loop.now += 2
    assert shown_wait(loop.flow) == "0"


def test_a_refusal_ends_by_itself_and_comes_again_with_the_next_long_round() -> None:
    loop = Loop()
    for _ in range(5):
        loop.go_round(0.3)
    loop.now += 0.19
    assert loop.refusal()
    loop.now += 0.02
    assert loop.refusal() == ""
    loop.go_round(0.3)
    assert loop.refusal()


def test_a_second_without_long_rounds_begins_anew() -> None:
    loop = Loop()
    for _ in range(5):
        loop.go_round(0.3)
    loop.now += 1.1
    assert loop.refusal() == ""
    loop.go_round(0.9)
    assert loop.refusal() == ""


def test_after_a_slow_write_sends_are_refused_for_as_long_as_it_took() -> None:
    loop = Loop()
    loop.go_round(1.6, write=1.5)
    assert loop.refusal() == "[PCBUSY_CLEAN_QUEUE]a write took 1500 ms, more than 1000 ms; try again later"
    loop.now += 1.4
    assert loop.refusal()
    loop.now += 0.2
    assert loop.refusal() == ""
    loop.go_round(0.001)
    assert loop.refusal() == ""
    assert loop.flow.refused == {Cause.WAIT: 0, Cause.WRITE: 2}


def test_a_stuck_disk_refuses_for_ten_seconds_at_most() -> None:
    loop = Loop()
    loop.go_round(100, write=100)
    loop.now += 9.9
    assert loop.refusal()
    loop.now += 0.2
    assert loop.refusal() == ""


def test_waiting_may_be_allowed() -> None:
    loop = Loop(wait_limit=None)
    for _ in range(20):
        loop.go_round(0.9)
    assert loop.refusal() == ""
    loop.go_round(2, write=2)
    assert loop.refusal()


class SlowFiles(OsFiles):
    """Files of a disk that can be told to take its time with the log."""

    pause = 0.0

    def pwrite(self, descriptor: int, data: bytes | memoryview, position: int) -> int:
        if self.pause and len(data) > 500:  # a record, not the entry of a queue
            time.sleep(self.pause)
        return super().pwrite(descriptor, data, position)


async def test_a_slow_disk_is_told_and_sends_are_taken_again_later(
    start_broker: StartBroker, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    files = SlowFiles()
    broker = await start_broker(files, osPageCacheBusyTimeOutMills=300)
    peer = await connect(broker)
    await peer.send(body=bytes(1000))
    files.pause = 0.4
    await peer.send(body=bytes(1000))  # it was slow, but it is stored
    files.pause = 0.0
    end = broker.store.max_physical_offset
    answer = await peer.send(expect=ResponseCode.SYSTEM_BUSY)
    assert answer.remark is not None
    assert re.match(r"\[PCBUSY_CLEAN_QUEUE\]a write took \d+ ms, more than 300 ms", answer.remark)
    assert answer.ext_fields["MSG_REGION"] == "DefaultRegion"
    await peer.pull()  # others are served
    assert broker.store.max_physical_offset == end
    assert broker.http_info()["sends_refused_for_slow_writes"] == 1
    assert broker.http_info()["longest_write_ms"] >= 400
    await eventually(lambda: not _refuses(broker))
    await peer.send()
    assert sum("sends are refused" in text for text in caplog.messages) == 1


async def test_sends_are_refused_while_requests_wait_too_long(start_broker: StartBroker, connect: Connect) -> None:
    files = SlowFiles()
    broker = await start_broker(
        files, brokerFastFailureEnable="true", waitTimeMillsInSendQueue=100, osPageCacheBusyTimeOutMills=60_000
    )
    peer = await connect(broker)
    await peer.send(body=bytes(1000))
    files.pause = 0.15
    codes: list[int] = []
    while ResponseCode.SYSTEM_BUSY not in codes and len(codes) < 20:
        sending = request(RequestCode.SEND_MESSAGE_V2, send_header(), bytes(1000))
        answer = await peer.remoting.request(peer.address, sending, 30)
        codes.append(answer.code)
    assert codes[-1] == ResponseCode.SYSTEM_BUSY
    assert answer.remark is not None
    assert answer.remark.startswith("[TIMEOUT_CLEAN_QUEUE]requests wait ")
    assert len(codes) > 3  # not after the first
    assert broker.http_info()["sends_refused_for_waiting"] == 1


def _refuses(broker: Broker) -> bool:
    try:
        assert broker._write is not None
        broker._write._flow.check()
    except SystemBusy:
        return True
    return False


async def test_a_peer_sends_as_usual_where_nothing_is_slow(peer: Peer, broker: Broker) -> None:
    for _ in range(50):
        await peer.send()
    assert broker.http_info()["sends_refused_for_waiting"] == 0


def test_its_limits_are_rocketmqs_keys() -> None:
    values = {
        "brokerFastFailureEnable": "false", "waitTimeMillsInSendQueue": "500", "osPageCacheBusyTimeOutMills": "2000"
    }  # fmt: skip
    config = broker_config(values)
    assert (config.fast_failure, config.send_wait_limit, config.slow_write_limit) == (False, 0.5, 2.0)
    assert config.without_effect == ()
    assert settings_of(config).items() >= values.items()
    assert broker_config({}).send_wait_limit == 0.2


async def test_paused_writes_refuse_every_send_and_are_registered(broker: Broker, peer: Peer) -> None:
    await peer.send()
    change = RequestCode.UPDATE_BROKER_CONFIG
    await peer.ask(change, body=b"pyromqWritesPaused=true")
    answer = await peer.send(expect=ResponseCode.NO_PERMISSION)
    assert answer.remark == "writes are paused at this broker: send to another one"
    assert broker.config.open_for == 4
    assert broker.http_info()["sends_refused_while_paused"] == 1
    await peer.pull()
    await peer.ask(change, body=b"pyromqWritesPaused=false")
    await peer.send()
    assert broker.config.open_for == 6
