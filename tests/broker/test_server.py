from __future__ import annotations

import errno
import socket
from pathlib import Path

import pytest

from pyromq.broker.config.broker_config import broker_config
from pyromq.broker.server import Broker
from pyromq.errors import ConfigError, RemotingError, StoreLocked
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.store.files import OsFiles
from pyromq.testing import TestClock, eventually
from tests.broker.conftest import Connect, StartBroker
from tests.broker.helpers import Peer


class BreakingDisk(OsFiles):
    """A disk on which writes or flushes fail once the test says so."""

    broken = ""

    def pwrite(self, descriptor: int, data: bytes | memoryview, position: int) -> int:
        if self.broken == "pwrite":
            raise OSError(errno.EIO, "Input/output error")
        return super().pwrite(descriptor, data, position)

    def fdatasync(self, descriptor: int) -> None:
        if self.broken == "fdatasync":
            raise OSError(errno.EIO, "Input/output error")
        super().fdatasync(descriptor)


async def test_the_fast_port_serves_everything_but_pulls(broker: Broker, clock: TestClock) -> None:
    fast = Peer(f"127.0.0.1:{broker.fast_port}", clock)
    await fast.send()
    await fast.pull(expect=ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
    await fast.beat()
    await fast.remoting.close()


async def test_the_fast_port_is_two_below(start_broker: StartBroker) -> None:
    for port in range(21_000, 22_000, 10):
        try:
            broker = await start_broker(listenPort=port)
        except RemotingError:
            continue
        assert (broker.port, broker.fast_port) == (port, port - 2)
        return
    pytest.fail("no free pair of ports")


async def test_a_port_in_use_is_one_clear_error_and_leaves_nothing_open(start_broker: StartBroker) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(RemotingError, match=r"cannot listen on 127\.0\.0\.1:"):
            await start_broker(listenPort=taken.getsockname()[1])
    await start_broker()  # the store's directory was given back


async def test_two_brokers_never_open_one_directory(start_broker: StartBroker) -> None:
    await start_broker()
    with pytest.raises(StoreLocked):
        await start_broker(brokerName="broker-b")


async def test_everything_is_there_after_a_restart(clock: TestClock, tmp_path: Path, connect: Connect) -> None:
    config = broker_config({"listenPort": "0", "storePathRootDir": str(tmp_path / "store")})
    async with Broker(config, clock) as first:
        peer = await connect(first)
        await peer.send(body=b"kept", default_topic_queue_nums=3)
        await peer.beat()
        fields = {"topic": "orders", "queueId": "0", "consumerGroup": "billing", "commitOffset": "1"}
        await peer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, fields)
    async with Broker(config, clock) as second:
        assert second.topics.by_name["orders"].write_queues == 3
        assert "billing" in second.groups.by_name
        assert "%RETRY%billing" in second.topics.by_name
        assert second.offsets.get("billing", "orders", 0) == 1
        assert [message.body for message in await (await connect(second)).read()] == [b"kept"]


async def test_tables_are_saved_while_the_broker_runs(peer: Peer, tmp_path: Path) -> None:
    await peer.send("orders")
    assert '"orders"' in (tmp_path / "store" / "config" / "topics.json").read_text()  # before the send was answered


async def test_a_damaged_table_stops_the_start_with_one_clear_error(start_broker: StartBroker, tmp_path: Path) -> None:
    config = tmp_path / "store" / "config"
    config.mkdir(parents=True)
    for name in ("topics.json", "topics.json.bak"):
        (config / name).write_text("{ damaged")
    with pytest.raises(ConfigError, match=r"topics\.json"):
        await start_broker()


@pytest.mark.parametrize(
    ("kind", "flush"), [("pwrite", "ASYNC_FLUSH"), ("pwrite", "SYNC_FLUSH"), ("fdatasync", "SYNC_FLUSH")]
)
async def test_a_failed_write_is_never_acknowledged_and_stops_the_store(
    start_broker: StartBroker, connect: Connect, kind: str, flush: str
) -> None:
    disk = BreakingDisk()
    broker = await start_broker(disk, flushDiskType=flush)
    peer = await connect(broker)
    await peer.send(body=b"good")
    disk.broken = kind
    answer = await peer.send(body=b"bad", expect=ResponseCode.SERVICE_NOT_AVAILABLE)
    assert answer.remark == "not stored: input/output error"
    assert str(broker.config.store.root) not in answer.remark
    disk.broken = ""
    refused = await peer.send(body=b"later", expect=ResponseCode.SERVICE_NOT_AVAILABLE)
    assert refused.remark == "not stored: the store takes no messages now"
    assert broker.health.problem().startswith("the store takes no messages: the store stopped writing")
    assert [message.body for message in await peer.read()] == [b"good"]  # reading goes on
    await peer.beat()


async def test_under_sync_flush_a_message_is_durable_when_it_is_acknowledged(
    start_broker: StartBroker, connect: Connect
) -> None:
    broker = await start_broker(flushDiskType="SYNC_FLUSH")
    peer = await connect(broker)
    for number in range(5):
        await peer.send(body=b"%d" % number)
        assert broker.store.flushed_offset == broker.store.max_physical_offset
    assert len(await peer.read()) == 5


async def test_a_topic_that_cannot_be_saved_takes_no_acknowledged_message(
    start_broker: StartBroker, connect: Connect, clock: TestClock, tmp_path: Path
) -> None:
    broker = await start_broker()
    peer = await connect(broker)
    blocker = tmp_path / "store" / "config"
    blocker.write_text("a file where the directory should be")
    answer = await peer.send(expect=ResponseCode.SERVICE_NOT_AVAILABLE)
    assert "table of topics" in (answer.remark or "")
    blocker.unlink()
    await clock.advance_async(seconds=6)  # it is tried again
    await eventually((blocker / "topics.json").exists)
    await peer.send()


async def test_garbage_costs_its_sender_the_connection_and_nobody_else(broker: Broker, peer: Peer) -> None:
    await peer.send()
    for garbage in (
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x00\xa5" * 10,
        b"\xff" * 64,
        b"\x00\x00\x00\x08\x00\x00\x00\x04junk",
    ):
        with socket.create_connection(("127.0.0.1", broker.port)) as stranger:
            stranger.sendall(garbage)
            stranger.setblocking(False)
            await eventually(lambda: _is_closed(stranger))
    await peer.send()


def _is_closed(stranger: socket.socket) -> bool:
    try:
        return stranger.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True


async def test_facts_for_people_with_curl(peer: Peer, broker: Broker) -> None:
    await peer.send()
    info = broker.http_info()
    assert (info["name"], info["messages_put"], info["connections"]) == ("broker-a", 1, 1)


async def test_a_stopping_broker_takes_no_more_messages_but_answers(broker: Broker, peer: Peer) -> None:
    await peer.send()
    await broker._stop_answering()
    await peer.send(expect=ResponseCode.SERVICE_NOT_AVAILABLE)
    assert len(await peer.read()) == 1
