"""What a master sends to a slave, and which reports it believes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pyromq.broker.replication.slave_link import LinkRules, Pace
from pyromq.broker.server import Broker
from pyromq.protocol.codes import ResponseCode
from pyromq.protocol.ha import encode_note
from pyromq.testing import TestClock, eventually
from tests.access.accounts_text import write_accounts
from tests.broker.conftest import StartBroker
from tests.broker.helpers import Peer
from tests.broker.replication.conftest import Attach


async def test_an_empty_slave_gets_the_whole_log(broker: Broker, peer: Peer, attach: Attach) -> None:
    await peer.send()
    slave = await attach(broker)
    slave.report(0)
    await slave.has(broker.store.max_physical_offset)
    log = broker.store.copied_log
    assert slave.received == log.read(0, log.end)


async def test_the_log_knows_who_says_to_be_a_slave_and_can_bound_its_lines(
    broker: Broker, attach: Attach, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    slave = await attach(broker)
    slave.report(0)
    await eventually(lambda: "a slave follows" in caplog.text)
    line = next(record for record in caplog.records if "a slave follows" in record.message)
    assert line.__dict__["peer"].startswith("127.0.0.1:")


async def test_a_slave_whose_log_cannot_be_compared_is_sent_nothing(
    broker: Broker, peer: Peer, attach: Attach, caplog: pytest.LogCaptureFixture
) -> None:
    """Apache's slaves cut nothing: what follows a report must fit what the slave has."""
    await peer.send()
    slave = await attach(broker)
    slave.report(broker.store.max_physical_offset)
    await slave.cut_off()
    assert slave.transfers == []
    assert "no slave is registered there" in caplog.text


async def test_a_message_is_sent_as_soon_as_it_is_written(broker: Broker, peer: Peer, attach: Attach) -> None:
    slave = await attach(broker)
    slave.report(0)
    await eventually(lambda: slave.transfers)
    await peer.send()
    await slave.has(broker.store.max_physical_offset)


async def test_no_transfer_crosses_files_or_is_longer_than_apaches_slaves_take(
    start_broker: StartBroker, attach: Attach, clock: TestClock
) -> None:
    size = 1 << 16
    broker = await start_broker(mappedFileSizeCommitLog=size, maxMessageSize=40_000)
    peer = Peer(broker.address, clock)
    for _ in range(5):
        await peer.send(body=bytes(30_000))
    slave = await attach(broker)
    slave.report(0)
    await slave.has(broker.store.max_physical_offset)
    for offset, body in slave.transfers:
        assert len(body) <= 32 * 1024
        assert not body or offset // size == (offset + len(body) - 1) // size
    await peer.remoting.close()


@pytest.mark.parametrize("report", [1 << 40, 10_000])
async def test_a_first_report_beyond_the_log_is_cut_off(
    broker: Broker, peer: Peer, attach: Attach, report: int
) -> None:
    await peer.send()
    slave = await attach(broker)
    slave.report(report)
    await slave.cut_off()


@pytest.mark.parametrize(
    "junk",
    [
        b"\xff" * 8,
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        encode_note(b"not json"),
        encode_note(b'{"type":"proof","mac":""}'),
        encode_note(bytes(1 << 20)),
        encode_note(b'{"type":"hello","x":' + b"[" * 5000),
    ],
)
async def test_strangers_are_cut_off_and_change_nothing(
    start_broker: StartBroker, attach: Attach, clock: TestClock, junk: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    broker = await start_broker(brokerRole="SYNC_MASTER")
    peer = Peer(broker.address, clock)
    stranger = await attach(broker)
    stranger.send(junk)
    await stranger.cut_off()
    assert not [line for line in caplog.records if line.exc_info]
    await peer.send(expect=ResponseCode.SLAVE_NOT_AVAILABLE)
    await peer.remoting.close()


async def test_a_silent_stranger_does_not_delay_a_send(
    start_broker: StartBroker, attach: Attach, clock: TestClock
) -> None:
    broker = await start_broker(brokerRole="SYNC_MASTER")
    peer = Peer(broker.address, clock)
    await attach(broker)
    await peer.send(expect=ResponseCode.SLAVE_NOT_AVAILABLE)
    await peer.remoting.close()


async def test_a_slave_that_confirms_what_it_was_not_sent_does_not_count(
    start_broker: StartBroker, attach: Attach, clock: TestClock
) -> None:
    broker = await start_broker(brokerRole="SYNC_MASTER")
    peer = Peer(broker.address, clock)
    liar = await attach(broker)
    liar.report(0)
    await eventually(lambda: liar.transfers)
    liar.report(1 << 30)
    await liar.cut_off()
    await peer.send(expect=ResponseCode.SLAVE_NOT_AVAILABLE)
    await peer.remoting.close()


async def test_a_sync_master_waits_for_a_slave(start_broker: StartBroker, attach: Attach, clock: TestClock) -> None:
    broker = await start_broker(brokerRole="SYNC_MASTER")
    peer = Peer(broker.address, clock)
    slave = await attach(broker)
    slave.report(0)
    await eventually(lambda: slave.transfers)
    sending = asyncio.create_task(peer.send())
    await eventually(lambda: len(slave.received) > 0)
    assert not sending.done()
    slave.report(len(slave.received))
    assert (await sending).code == ResponseCode.SUCCESS
    await peer.remoting.close()


async def test_a_slave_that_does_not_confirm_in_time(
    start_broker: StartBroker, attach: Attach, clock: TestClock
) -> None:
    broker = await start_broker(brokerRole="SYNC_MASTER", slaveTimeout=3000)
    peer = Peer(broker.address, clock)
    slave = await attach(broker)
    slave.report(0)
    await eventually(lambda: slave.transfers)
    sending = asyncio.create_task(peer.send(expect=ResponseCode.FLUSH_SLAVE_TIMEOUT))
    await eventually(lambda: len(slave.received) > 0)
    await clock.advance_async(seconds=2)
    assert not sending.done()
    await clock.advance_async(seconds=2)
    await sending
    await peer.send(properties="WAIT\x01false")  # who does not wait is answered at once
    await peer.remoting.close()


async def test_heartbeats_both_ways(broker: Broker, attach: Attach, clock: TestClock) -> None:
    slave = await attach(broker)
    slave.report(0)
    await eventually(lambda: len(slave.transfers) == 1)
    await clock.advance_async(seconds=7)
    await eventually(lambda: len(slave.transfers) == 2)
    assert slave.transfers[1].body == b""
    await clock.advance_async(seconds=20)
    await slave.cut_off()


async def test_with_a_secret_a_bare_report_gets_nothing(start_broker: StartBroker, attach: Attach) -> None:
    broker = await start_broker(haSecret="s3cret")
    slave = await attach(broker)
    slave.report(0)
    await slave.cut_off()
    assert slave.transfers == []


@pytest.mark.parametrize(("allowed", "gets"), [({}, False), ({"pyromqHaAllow": "127.0.0.1;10.0.0.*"}, True)])
async def test_with_access_control_a_bare_report_gets_the_log_only_from_an_allowed_address(
    start_broker: StartBroker, attach: Attach, tmp_path: Path, allowed: dict[str, str], gets: bool
) -> None:
    write_accounts(tmp_path)
    broker = await start_broker(aclEnable="true", **allowed)
    slave = await attach(broker)
    slave.report(0)
    if gets:
        await slave.has(0)
        await slave.close()
    else:
        await slave.cut_off()
        assert slave.transfers == []


async def test_files_that_a_slave_still_copies_are_kept_up_to_a_limit(
    start_broker: StartBroker, attach: Attach, clock: TestClock
) -> None:
    size = 1 << 16
    broker = await start_broker(mappedFileSizeCommitLog=size, maxMessageSize=40_000, pyromqHaKeepBytes=3 * size)
    peer = Peer(broker.address, clock)
    for _ in range(12):
        await peer.send(body=bytes(30_000))
    slave = await attach(broker)
    slave.report(0)
    await slave.has(2 * size)
    slave.report(size)
    await eventually(lambda: broker._ha.keep_from(4 * size, 3 * size) == size)
    assert broker._ha.keep_from(5 * size, 3 * size) == 2 * size  # no more than that is kept
    await slave.close()
    await eventually(lambda: broker._ha.keep_from(5 * size, 3 * size) == 5 * size)
    await peer.remoting.close()


@pytest.mark.parametrize(
    ("secret", "needs_proof", "allowed", "is_open"),
    [
        ("", False, (), True),
        ("s3cret", False, (), False),
        ("", True, (), False),
        ("s3cret", True, (), False),
        ("", True, ("10.0.0.7",), True),
        ("s3cret", True, ("10.0.0.*",), True),
        ("", True, ("10.0.1.7",), False),
    ],
)
def test_with_access_control_a_slave_needs_a_secret_or_an_address(
    secret: str, needs_proof: bool, allowed: tuple[str, ...], is_open: bool
) -> None:
    rules = LinkRules(name="broker-a", secret=secret, needs_proof=needs_proof, allowed=allowed)
    assert rules.is_open_to("10.0.0.7") == is_open


def test_a_slave_far_behind_gets_the_log_at_the_stated_pace() -> None:
    pace = Pace(100, now=50.0, end=1_000)
    assert pace.pause(100, 50.0, 1_000) == 0  # what a second is worth comes first
    assert pace.pause(100, 50.0, 1_000) == 1.0
    assert pace.pause(50, 51.0, 1_000) == 0.5
    assert pace.pause(0, 51.5, 1_000) == 0


def test_a_slave_far_behind_gets_twice_what_is_written_on_top() -> None:
    pace = Pace(100, now=0.0, end=1_000)
    assert pace.pause(2_100, 0.0, 2_000) == 0
    assert pace.pause(100, 0.0, 2_000) == 1.0
    assert pace.pause(0, 0.0, 2_050) == 0


def test_without_a_rate_nothing_waits() -> None:
    assert Pace(0, now=0.0, end=0).pause(1 << 40, 0.0, 0) == 0


async def test_a_slave_far_behind_waits_for_its_pace(
    start_broker: StartBroker, attach: Attach, clock: TestClock
) -> None:
    broker = await start_broker(pyromqHaCatchUpBytes=1 << 20, maxMessageSize=4 << 20)
    peer = Peer(broker.address, clock)
    for _ in range(4):
        await peer.send(body=bytes(3 << 20))
    slave = await attach(broker)
    slave.report(0)
    await slave.has(1 << 20)
    assert len(slave.received) < 4 << 20  # the clock stands still
    await clock.advance_async(seconds=12)
    await slave.has(12 << 20)
    await peer.remoting.close()
