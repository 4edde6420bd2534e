"""Open half messages and the cleaner: none goes with its file of the log, and each still ends once."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyromq.broker.server import Broker
from pyromq.protocol.codes import ResponseCode
from pyromq.protocol.names import TRANSACTION_HALF_TOPIC
from pyromq.testing import TestClock, eventually
from tests.broker.conftest import Join, StartBroker
from tests.broker.messages.test_acknowledgements import SlowDisk
from tests.broker.test_cleaning import SMALL, Disk, fill, make_old
from tests.broker.transactions.transaction_peer import COMMIT, ROLLBACK, Place, TransactionPeer

FILE = 65_536
QUICK = SMALL | {"cleanResourceInterval": 1000}


@pytest.fixture
async def broker(start_broker: StartBroker) -> Broker:
    return await start_broker(Disk(), **QUICK)


@pytest.fixture
async def producer(broker: Broker, join: Join) -> TransactionPeer:
    return await join(broker)


async def expire(producer: TransactionPeer, files: int = 2) -> None:
    """Fill files of the log, let them expire, and let passes of the cleaner remove them: one moves, another deletes."""
    store = producer.broker.store
    await fill(producer.broker, producer, files + 1, "others")
    make_old(store.config.root, files)
    await pass_until_gone(producer, files)


async def pass_until_gone(producer: TransactionPeer, files: int) -> None:
    store = producer.broker.store

    async def are_gone() -> bool:
        await producer.clock.advance_async(seconds=1)
        await producer.enter()
        return store.min_physical_offset >= files * FILE

    await eventually(are_gone, pause=0.05)


def half_count(producer: TransactionPeer) -> int:
    """Return how many half messages were ever stored, with their copies."""
    return producer.broker.store.max_offset(TRANSACTION_HALF_TOPIC, 0)


async def test_an_open_half_message_is_written_again_before_its_file_goes(producer: TransactionPeer) -> None:
    place = await producer.prepare("tx-1", TAGS="paid", CHECK_IMMUNITY_TIME_IN_SECONDS="86400")
    await expire(producer)
    assert producer.broker.store.read(place.physical_offset) is None
    [half] = await producer.listed()
    assert (half.body, half.tags, half.properties["TRAN_PREPARED_QUEUE_OFFSET"]) == (b"tx-1", "paid", "0")
    copy = Place(half.queue_offset, half.physical_offset)
    for _ in range(2):
        await producer.end(copy, COMMIT)
    assert [message.body for message in producer.delivered()] == [b"tx-1"]
    assert await producer.listed() == []


async def test_a_producer_that_ends_by_the_deleted_place_is_told_so_and_asked_later(producer: TransactionPeer) -> None:
    place = await producer.prepare("tx-1")
    await expire(producer)
    refused = await producer.end(place, COMMIT, expect=ResponseCode.SYSTEM_ERROR)
    assert "a producer will be asked about it" in (refused.remark or "")
    await producer.stay(61)
    question = (await producer.asked(1))[-1]
    await producer.answer(question, COMMIT)
    assert [message.body for message in producer.delivered()] == [b"tx-1"]


async def test_what_has_ended_is_not_written_again(producer: TransactionPeer) -> None:
    await producer.end(await producer.prepare("tx-1"), COMMIT)
    await producer.end(await producer.prepare("tx-2"), ROLLBACK)
    await expire(producer)
    assert (half_count(producer), await producer.listed()) == (2, [])


async def test_a_half_message_that_was_committed_without_its_op_record_is_settled(producer: TransactionPeer) -> None:
    place = await producer.prepare("tx-1", CHECK_IMMUNITY_TIME_IN_SECONDS="86400")
    assert producer.broker._write is not None
    transactions = producer.broker._write._transactions.transactions
    half = transactions.find(producer.end_header(place, COMMIT))
    transactions.commit(half)  # as a crash leaves it: the op record is missing
    await producer.send(topic="others", body=b"written with the same group")
    assert [message.body for message in await producer.listed()] == [b"tx-1"]
    await expire(producer)
    assert (half_count(producer), await producer.listed()) == (1, [])


async def test_half_messages_move_on_a_disk_that_is_too_full_for_new_ones(
    start_broker: StartBroker, join: Join
) -> None:
    disk = Disk()
    producer = await join(await start_broker(disk, **QUICK))
    await producer.prepare("tx-1")
    await fill(producer.broker, producer, 3, "others")
    disk.percent = 95
    await pass_until_gone(producer, 2)
    assert not producer.broker.store.writable
    assert [message.body for message in await producer.listed()] == [b"tx-1"]


async def test_files_stay_until_the_copies_are_durable(
    start_broker: StartBroker, join: Join, clock: TestClock, tmp_path: Path
) -> None:
    disk = SlowDisk()
    producer = await join(await start_broker(disk, **QUICK))
    store = producer.broker.store
    await producer.prepare("tx-1")
    await fill(producer.broker, producer, 3, "others")
    make_old(tmp_path / "store", 2)
    disk.passes.clear()
    try:
        await clock.advance_async(seconds=1)
        await eventually(lambda: half_count(producer) == 2)
        await clock.advance_async(seconds=3)
        assert store.min_physical_offset == 0
    finally:
        disk.passes.set()
    await pass_until_gone(producer, 2)
