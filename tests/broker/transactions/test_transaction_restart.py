"""Transactions after a restart, a crash, a torn write, and in a directory that another broker wrote."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from pyromq.broker.server import Broker
from pyromq.protocol.names import TRANSACTION_HALF_TOPIC, TRANSACTION_OP_TOPIC
from tests.broker.conftest import Join, StartBroker
from tests.broker.transactions.transaction_peer import COMMIT, ROLLBACK, TransactionPeer

LONG_ENOUGH = 61.0
LOG_FILE = 1 << 20


@pytest.fixture
async def producer(start_broker: StartBroker, join: Join, tmp_path: Path) -> TransactionPeer:
    broker = await start_broker(mappedFileSizeCommitLog=LOG_FILE)
    shutil.copytree(broker.config.store.root, tmp_path / "at first")
    return await join(broker)


class Crashes:
    """Starts brokers on what a crash would leave of a store, each with a producer that is there."""

    def __init__(self, start_broker: StartBroker, join: Join, directory: Path) -> None:
        self._start_broker = start_broker
        self._join = join
        self._directory = directory
        self._numbers = itertools.count()

    async def kill(
        self, producer: TransactionPeer, change: Callable[[Path], object] = lambda store: None
    ) -> TransactionPeer:
        """Go on as after a kill at this moment, with something changed in the directory."""
        await producer.broker.topics.saver.finish()  # a copy takes time, a kill does not
        return await self._go_on(producer.broker.config.store.root, change)

    async def tear(self, producer: TransactionPeer, end: int, **settings: int) -> TransactionPeer:
        """Go on as after a power cut: the first bytes of the log are left, and besides only what answers wait for."""
        await producer.broker.topics.saver.finish()
        root = producer.broker.config.store.root
        [log] = (root / "commitlog").iterdir()
        written = log.read_bytes()[:end].ljust(LOG_FILE, b"\0")

        def write(store: Path) -> None:
            for name in ("commitlog", "config"):
                (store / name).mkdir(exist_ok=True)
            (store / "commitlog" / log.name).write_bytes(written)
            shutil.copy(root / "config" / "topics.json", store / "config")

        return await self._go_on(self._directory / "at first", write, **settings)

    async def _go_on(self, store: Path, change: Callable[[Path], object], **settings: int) -> TransactionPeer:
        copy = self._directory / f"crashed-{next(self._numbers)}"
        shutil.copytree(store, copy)
        change(copy)
        settings = {"mappedFileSizeCommitLog": LOG_FILE, **settings}
        return await self._join(await self._start_broker(storePathRootDir=copy, **settings))


@pytest.fixture
def crashes(start_broker: StartBroker, join: Join, tmp_path: Path) -> Crashes:
    return Crashes(start_broker, join, tmp_path)


def boundaries(producer: TransactionPeer) -> list[int]:
    """Return where each record of the log ends."""
    ends = []
    position = 0
    while position < producer.broker.store.max_physical_offset:
        record = producer.broker.store.read(position)
        assert record is not None
        position += len(record)
        ends.append(position)
    return ends


async def test_wherever_the_log_is_torn_each_transaction_ends_once_and_rightly(
    producer: TransactionPeer, crashes: Crashes
) -> None:
    truth = {"tx-0": COMMIT, "tx-1": ROLLBACK, "tx-2": COMMIT, "tx-3": ROLLBACK, "tx-4": COMMIT}
    places = {key: await producer.prepare(key) for key in truth}
    for key in ("tx-0", "tx-1"):
        await producer.end(places[key], truth[key])
    await producer.stay(LONG_ENOUGH)
    for question in (await producer.asked(3))[:2]:
        await producer.answer(question, truth[question.header.msg_id or ""])
    ends = boundaries(producer)
    assert len(ends) == 5 + 3 + 3 + 3 + 3  # halves, two ends, three copies, their op records, two answers
    await producer.broker.__aexit__(None, None, None)
    for end in ends[4:]:  # all half messages are there
        survivor = await crashes.tear(producer, end, transactionTimeOut=100, transactionCheckInterval=1000)
        await survivor.stay(1.5)
        await survivor.asked(len(await survivor.listed()))
        for question in survivor.questions:
            await survivor.answer(question, truth[question.header.msg_id or ""])
        assert sorted(message.body for message in survivor.delivered()) == [b"tx-0", b"tx-2", b"tx-4"], end
        assert await survivor.listed() == []
        await survivor.broker.__aexit__(None, None, None)


async def test_an_open_transaction_survives_a_crash(producer: TransactionPeer, crashes: Crashes) -> None:
    place = await producer.prepare("tx-1")
    await producer.end(await producer.prepare("tx-2"), COMMIT)
    survivor = await crashes.kill(producer)
    assert [half.message_id for half in await survivor.listed()] == ["tx-1"]
    await survivor.end(place, COMMIT)
    assert sorted(message.body for message in survivor.delivered()) == [b"tx-1", b"tx-2"]


async def test_an_end_that_is_repeated_after_a_crash_has_no_second_effect(
    producer: TransactionPeer, crashes: Crashes
) -> None:
    committed, rolled_back = await producer.prepare("tx-1"), await producer.prepare("tx-2")
    await producer.end(committed, COMMIT)
    await producer.end(rolled_back, ROLLBACK)
    survivor = await crashes.kill(producer)
    for place in (committed, rolled_back):
        await survivor.end(place, COMMIT)
        await survivor.end(place, COMMIT, from_transaction_check=True)
    assert [message.body for message in survivor.delivered()] == [b"tx-1"]


async def test_a_commit_whose_op_record_was_torn_off_is_not_repeated(
    producer: TransactionPeer, crashes: Crashes
) -> None:
    place = await producer.prepare()
    await producer.end(place, COMMIT)
    [op] = producer.ops()
    survivor = await crashes.tear(producer, op.physical_offset)
    assert survivor.ops() == []
    await survivor.stay(LONG_ENOUGH)
    [question] = await survivor.asked(1)
    await survivor.answer(question, COMMIT)
    assert len(survivor.delivered()) == 1
    assert await survivor.listed() == []
    await survivor.end(place, COMMIT)
    assert len(survivor.delivered()) == 1


async def test_a_commit_that_was_torn_off_comes_from_the_check(producer: TransactionPeer, crashes: Crashes) -> None:
    await producer.prepare()
    await producer.end(await producer.prepare("tx-2"), COMMIT)
    [message] = producer.delivered()
    survivor = await crashes.tear(producer, message.physical_offset)
    assert survivor.delivered() == []
    await survivor.stay(LONG_ENOUGH)
    for question in await survivor.asked(2):
        await survivor.answer(question, COMMIT)
    assert len(survivor.delivered()) == 2


async def test_a_copy_whose_op_record_was_torn_off_is_one_transaction_with_its_original(
    producer: TransactionPeer, crashes: Crashes
) -> None:
    place = await producer.prepare()
    await producer.stay(LONG_ENOUGH)
    await producer.asked(1)
    [op] = producer.ops()
    survivor = await crashes.tear(producer, op.physical_offset)
    assert len(await survivor.listed()) == 2
    await survivor.end(place, COMMIT)
    assert len(survivor.delivered()) == 1
    assert await survivor.listed() == []


async def test_a_producer_is_asked_after_a_crash_as_often_as_is_left(
    producer: TransactionPeer, crashes: Crashes
) -> None:
    await producer.prepare()
    await producer.stay(2 * LONG_ENOUGH)
    await producer.asked(2)
    survivor = await crashes.kill(producer)
    await survivor.stay(LONG_ENOUGH)
    [question] = await survivor.asked(1)
    assert question.message.properties["TRANSACTION_CHECK_TIMES"] == "3"


async def test_without_saved_offsets_all_op_records_are_read(producer: TransactionPeer, crashes: Crashes) -> None:
    places = [await producer.prepare(f"tx-{number}") for number in range(5)]
    await producer.end(places[3], ROLLBACK)
    await producer.end(places[0], COMMIT)
    survivor = await crashes.kill(producer, lambda store: shutil.rmtree(store / "config"))
    assert [half.message_id for half in await survivor.listed()] == ["tx-1", "tx-2", "tx-4"]


def offsets(store: Path, half: int, op: int) -> None:
    """Save how far transactions are, as Apache's broker does."""
    table = {
        f"{TRANSACTION_HALF_TOPIC}@CID_RMQ_SYS_TRANS": {0: half},
        f"{TRANSACTION_OP_TOPIC}@CID_RMQ_SYS_TRANS": {0: op},
    }
    path = store / "config" / "consumerOffset.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"offsetTable": table}))


async def test_the_saved_offsets_say_what_is_done_with(producer: TransactionPeer, crashes: Crashes) -> None:
    for number in range(4):
        await producer.prepare(f"tx-{number}")
    survivor = await crashes.kill(producer, lambda store: offsets(store, 2, 0))
    assert [half.message_id for half in await survivor.listed()] == ["tx-2", "tx-3"]


async def test_op_records_that_are_not_in_order_are_understood(producer: TransactionPeer, crashes: Crashes) -> None:
    places = [await producer.prepare(f"tx-{number}") for number in range(4)]
    for number in (3, 0, 2):
        await producer.end(places[number], COMMIT)
    survivor = await crashes.kill(producer, lambda store: offsets(store, 1, 0))
    assert [half.message_id for half in await survivor.listed()] == ["tx-1"]


async def test_transactions_of_a_stopped_broker_go_on(
    start_broker: StartBroker, join: Join, producer: TransactionPeer
) -> None:
    place = await producer.prepare("tx-1")
    await producer.end(await producer.prepare("tx-2"), COMMIT)
    stopped: Broker = producer.broker
    await stopped.__aexit__(None, None, None)
    heir = await join(await start_broker(mappedFileSizeCommitLog=LOG_FILE))
    await heir.end(place, COMMIT)
    assert [message.body for message in heir.delivered()] == [b"tx-2", b"tx-1"]
    assert await heir.listed() == []
