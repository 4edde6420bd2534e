"""A slave shows what its master shows, and no more."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from pyromq.broker.replication.introductions import Confirmed, Hello, decode_confirmed, encode
from pyromq.broker.server import Broker
from pyromq.broker.signals import StoreSignals
from pyromq.errors import RemoteProtocolError
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.ha import NOTE, TransferDecoder
from pyromq.protocol.messages.message_id import decode_offset_id
from pyromq.protocol.messages.record import decode_messages
from pyromq.store.message_store import MessageStore
from pyromq.store.write.visibility import EVERYTHING
from pyromq.testing import LocalCluster, eventually, wait_until
from tests.broker.conftest import Connect, StartBroker
from tests.broker.helpers import Peer
from tests.broker.replication.conftest import Attach
from tests.broker.replication.fake_slave import FakeSlave
from tests.broker.replication.test_replication import same_logs, send, server
from tests.store.helpers import message


@pytest.fixture(autouse=True)
def confirmed_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have all brokers show only what is confirmed."""
    make = Broker._new_store

    def make_confirming(broker: Broker, signals: StoreSignals) -> MessageStore:
        store = make(broker, signals)
        config = msgspec.structs.replace(store.config, shows_confirmed_only=True)
        return MessageStore(
            config,
            broker._clock.now_ms,
            broker._files,
            call_threadsafe=store._call_threadsafe,
            on_arrival=store.on_arrival,
            on_durable=store.on_durable,
            on_failure=store.on_failure,
        )

    monkeypatch.setattr(Broker, "_new_store", make_confirming)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[LocalCluster]:
    with LocalCluster(slaves=1, data=tmp_path) as cluster:
        yield cluster


def visible(store: MessageStore) -> int:
    return sum(store.max_offset("orders", queue) for queue in store.queue_ids("orders"))


def confirm(cluster: LocalCluster, end: int) -> None:
    async def call() -> None:
        server(cluster.brokers[0]).store.confirm(end)

    cluster._portal.call(call())


def test_a_slave_shows_what_its_master_shows(pair: LocalCluster) -> None:
    master, slave = server(pair.brokers[0]).store, server(pair.slaves[0]).store
    send(pair, b"one", b"two", b"three")
    wait_until(lambda: same_logs(pair))
    assert (visible(master), visible(slave)) == (0, 0)
    end = len(master.read(0) or b"")
    confirm(pair, end)
    wait_until(lambda: slave.confirm_offset == end and visible(slave) == 1)  # one after the other, in its own thread
    assert visible(master) == 1
    confirm(pair, EVERYTHING)
    wait_until(lambda: visible(slave) == 3)
    send(pair, b"four")
    wait_until(lambda: visible(slave) == 4)
    assert visible(master) == 4


def test_a_slave_that_comes_later_is_told_at_once(pair: LocalCluster) -> None:
    pair.stop_broker(pair.slaves[0])
    send(pair, b"one", b"two", b"three")
    master = server(pair.brokers[0]).store
    end = len(master.read(0) or b"")
    confirm(pair, end)
    pair.start_broker(pair.slaves[0])
    wait_until(lambda: same_logs(pair))
    slave = server(pair.slaves[0]).store
    wait_until(lambda: slave.confirm_offset == end and visible(slave) == 1)


async def test_only_slaves_of_ours_are_told_and_only_news(broker: Broker, attach: Attach, peer: Peer) -> None:
    await peer.send()
    slave, foreign = await attach(broker), await attach(broker)
    foreign.report(0)
    file_size = broker.store.copied_log.file_size
    slave.send(encode(Hello(broker.config.name, 1, "a store", broker._ha.epoch_id, file_size)))
    slave.report(0)
    await slave.has(broker.store.max_physical_offset)
    broker.store.confirm(EVERYTHING)
    for _ in range(3):
        broker._ha.announce(broker.store.confirm_offset)
    await eventually(lambda: len(notes(slave)) == 2)
    await peer.send()
    await eventually(lambda: len(notes(slave)) == 3)
    await foreign.has(broker.store.max_physical_offset)
    first, second = broker.store.max_physical_offset // 2, broker.store.max_physical_offset
    assert [decode_confirmed(note) for note in notes(slave)] == [0, first, second]
    assert notes(foreign) == []


async def test_what_is_visible_is_said_before_the_bytes_that_follow_it(broker: Broker, attach: Attach) -> None:
    """What a master does because a message is visible never reaches a slave that does not know of it."""
    broker.store.confirm(EVERYTHING)
    slave = await attach(broker)
    file_size = broker.store.copied_log.file_size
    slave.send(encode(Hello(broker.config.name, 1, "a store", broker._ha.epoch_id, file_size)))
    slave.report(0)
    await eventually(lambda: notes(slave))
    for body in (b"a delayed message", b"its delivery"):
        broker.store.put(message(body=body))
        broker.store.commit()
    broker._ha.pump()
    await slave.has(broker.store.max_physical_offset)
    places = [index for index, (offset, body) in enumerate(slave.transfers) if offset != NOTE and body]
    before = [body for offset, body in slave.transfers[: places[0]] if offset == NOTE]
    assert decode_confirmed(before[-1]) == broker.store.max_physical_offset


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
async def test_a_message_is_acknowledged_when_it_is_durable_and_seen_when_it_is_confirmed(
    start_broker: StartBroker, connect: Connect, flush: str
) -> None:
    broker = await start_broker(flushDiskType=flush)
    producer, consumer = await connect(broker), await connect(broker)
    answer = await producer.send(body=b"one")
    queue = {"topic": "orders", "queueId": "0"}
    message_id = {"offset": str(decode_offset_id(answer.ext_fields["msgId"])[1])}
    assert (await consumer.ask(RequestCode.GET_MAX_OFFSET, queue)).ext_fields["offset"] == "0"
    await consumer.ask(RequestCode.VIEW_MESSAGE_BY_ID, message_id, expect=ResponseCode.SYSTEM_ERROR)
    pull = asyncio.create_task(consumer.pull(sys_flag=6))
    await eventually(lambda: broker.http_info()["held_pulls"] == 1)
    broker.store.confirm(broker.store.max_physical_offset)
    assert [found.body for found in decode_messages((await pull).body)] == [b"one"]
    assert (await consumer.ask(RequestCode.GET_MAX_OFFSET, queue)).ext_fields["offset"] == "1"
    await consumer.ask(RequestCode.VIEW_MESSAGE_BY_ID, message_id)


def notes(slave: FakeSlave) -> list[bytes]:
    """Return what a slave was told after its welcome."""
    return [body for offset, body in slave.transfers if offset == NOTE and b"welcome" not in body]


def test_a_note_that_says_something_else_is_refused() -> None:
    (note,) = TransferDecoder().feed(encode(Confirmed(17)))
    assert decode_confirmed(note.body) == 17
    with pytest.raises(RemoteProtocolError, match="a master says what a slave does not understand"):
        decode_confirmed(b'{"type":"welcome"}')
