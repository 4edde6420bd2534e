"""Retention, deletion and a full disk, as clients and administrators see them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from pyromq.broker.config.broker_config import broker_config
from pyromq.broker.server import Broker
from pyromq.protocol.bodies import decode
from pyromq.protocol.bodies.cleaning import CleaningPreview
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.headers.offsets import SearchOffsetByTimestampResponseHeader
from pyromq.protocol.headers.pull import PullMessageResponseHeader
from pyromq.store.files import DiskUsage, OsFiles
from pyromq.store.retention.deletions import DELETIONS_NAME
from pyromq.store.small_files.table_file import read_table
from pyromq.store.small_files.table_formats import OFFSETS, TOPICS
from pyromq.testing import TestClock, eventually
from tests.broker.conftest import Connect, StartBroker
from tests.broker.helpers import PATIENT, Peer

SMALL = {"mappedFileSizeCommitLog": 65_536, "deleteWhen": ";".join(map(str, range(24)))}
BODY = b"x" * 20_000  # three records fill a file of the log


class Disk(OsFiles):
    """A disk as full as the test says."""

    percent = 50

    def disk_usage(self, path: str) -> DiskUsage:
        return DiskUsage(self.percent << 30, (100 - self.percent) << 30)


async def fill(broker: Broker, peer: Peer, files: int, topic: str = "orders") -> None:
    """Fill so many files of the log, and have them flushed."""
    for _ in range(files * 3):
        await peer.send(topic, BODY)
    await eventually(lambda: broker.store.flushed_offset == broker.store.max_physical_offset)


async def preview(peer: Peer) -> CleaningPreview:
    """Ask what would be deleted."""
    return decode(CleaningPreview, (await peer.ask(RequestCode.PREVIEW_CLEANING)).body)


def make_old(root: Path, count: int) -> None:
    """Let the first files of the log be of long ago."""
    for path in sorted((root / "commitlog").iterdir())[:count]:
        os.utime(path, (0, 0))


async def test_expired_files_go_and_pulls_hear_that_the_offset_moved(
    start_broker: StartBroker, connect: Connect, clock: TestClock, tmp_path: Path
) -> None:
    broker = await start_broker(Disk(), **SMALL)
    peer = await connect(broker)
    await fill(broker, peer, 4)
    make_old(tmp_path / "store", 2)
    await clock.advance_async(seconds=11)
    await eventually(lambda: broker.store.min_offset("orders", 0) == 6)
    moved = await peer.pull(queue_offset=1, expect=ResponseCode.PULL_OFFSET_MOVED)
    header = moved.header(PullMessageResponseHeader)
    assert (header.next_begin_offset, header.min_offset, header.max_offset) == (6, 6, 12)
    assert len(await peer.read(queue_offset=6)) > 0
    await eventually(lambda: len(list((tmp_path / "store" / "commitlog").iterdir())) == 2)
    found = await peer.ask(
        RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, {"topic": "orders", "queueId": "0", "timestamp": "0"}
    )
    assert found.header(SearchOffsetByTimestampResponseHeader).offset == 6


async def test_an_administrator_removes_expired_files_whatever_the_hour(
    start_broker: StartBroker, connect: Connect, tmp_path: Path
) -> None:
    broker = await start_broker(
        Disk(), mappedFileSizeCommitLog=65_536, fileReservedTime=1, cleanResourceInterval=600_000
    )
    peer = await connect(broker)
    await fill(broker, peer, 3)
    make_old(tmp_path / "store", 2)
    found = await preview(peer)
    assert (found.expired_files, found.expired_bytes) == (2, 2 * 65_536)
    assert broker.store.min_physical_offset == 0
    await peer.ask(RequestCode.DELETE_EXPIRED_COMMITLOG)
    assert broker.store.min_physical_offset == 2 * 65_536
    assert (await preview(peer)).expired_files == 0
    await eventually(lambda: broker.store.min_offset("orders", 0) == 6)


async def test_a_full_disk_refuses_sends_but_not_pulls_and_says_so_until_there_is_room(
    start_broker: StartBroker, connect: Connect, clock: TestClock
) -> None:
    disk = Disk()
    broker = await start_broker(disk)
    peer = await connect(broker)
    await peer.send(body=b"kept")
    disk.percent = 91
    await clock.advance_async(seconds=11)
    refused = await peer.send(expect=ResponseCode.SERVICE_NOT_AVAILABLE)
    assert refused.remark == "not stored: the disk is 91% full, messages are taken up to 90%"
    assert "the disk is 91% full" in broker.health.problem()
    assert (broker.http_info()["writable"], broker.http_info()["disk_used_percent"]) == (False, 91)
    assert [message.body for message in await peer.read()] == [b"kept"]
    disk.percent = 90
    await clock.advance_async(seconds=11)
    await peer.send(body=b"again")
    assert broker.health.refusal() is None
    assert broker.health.problem() == "the disk is 90% full: the oldest files go, also with unread messages"
    disk.percent = 50
    await clock.advance_async(seconds=11)
    assert broker.health.problem() == ""


async def test_a_deleted_topic_is_gone_also_after_a_restart(clock: TestClock, connect: Connect, tmp_path: Path) -> None:
    values = PATIENT | {
        "listenPort": "0",
        "storePathRootDir": str(tmp_path / "store"),
        "autoCreateTopicEnable": "true",
    }
    async with Broker(broker_config(values), clock) as broker:
        peer = await connect(broker)
        for topic in ("orders", "others", "unlisted"):
            await peer.send(topic)
        del broker.topics.by_name["unlisted"]
        await peer.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "orders"})
        assert broker.store.topics == ["others", "unlisted"]  # no other is deleted, not even one without a row
        assert (tmp_path / "store" / DELETIONS_NAME).exists()
        table = read_table(tmp_path / "store" / "config", TOPICS)
        assert table is not None
        assert ("orders" in table.topic_config_table, "others" in table.topic_config_table) == (False, True)
        assert broker.http_info()["messages_put"] == 2
        await peer.pull("orders", expect=ResponseCode.TOPIC_NOT_EXIST)
        await peer.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "orders"})  # once more is no error
    async with Broker(broker_config(values), clock) as broker:
        peer = await connect(broker)
        assert ("orders" in broker.topics.by_name, broker.store.topics) == (False, ["others", "unlisted"])
        await peer.send("orders", b"anew")
        assert [message.body for message in await peer.read("orders")] == [b"anew"]


async def test_a_topic_that_is_deleted_and_created_again_is_read_from_its_first_message(
    clock: TestClock, connect: Connect, tmp_path: Path
) -> None:
    small = {"mappedFileSizeCommitLog": "65536"}  # it is copied
    values = PATIENT | small | {"listenPort": "0", "storePathRootDir": str(tmp_path / "store")}
    queue = {"topic": "orders", "queueId": "0", "consumerGroup": "billing"}
    async with Broker(broker_config(values), clock) as broker:
        peer = await connect(broker)
        for topic in ("orders", "others"):
            for _ in range(5):
                await peer.send(topic)
            broker.offsets.commit("billing", topic, 0, 5, "me")
        await peer.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "orders"})
        await peer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, queue | {"commitOffset": "5"})  # of a member that is late
        killed = tmp_path / "killed"
        shutil.copytree(tmp_path / "store", killed)
        for _ in range(5):
            await peer.send("orders")
        answer = await peer.ask(RequestCode.QUERY_CONSUMER_OFFSET, queue)
        assert answer.ext_fields["offset"] == "0"
        assert len(await peer.read("orders", queue_offset=0)) == 5
        assert broker.offsets.get("billing", "others", 0) == 5
    async with Broker(broker_config(values | {"storePathRootDir": str(killed)}), clock) as broker:
        assert broker.offsets.snapshot() == {"others@billing": {0: 5}}


async def test_a_kill_while_a_deletion_is_saved_leaves_no_offsets_of_the_topic_that_is_gone(
    start_broker: StartBroker, connect: Connect, tmp_path: Path
) -> None:
    """They would hide the first messages of the next topic of that name."""
    killed = tmp_path / "killed"

    class Killed(OsFiles):
        def rename(self, source: str, target: str) -> None:
            super().rename(source, target)
            if target.endswith(DELETIONS_NAME):
                shutil.copytree(tmp_path / "store", killed)

    broker = await start_broker(Killed())
    peer = await connect(broker)
    for topic in ("orders", "others"):
        await peer.send(topic)
        broker.offsets.commit("billing", topic, 0, 1, "me")
    await peer.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "orders"})
    table = read_table(killed / "config", OFFSETS)
    assert table is not None
    assert table.offset_table == {"others@billing": {0: 1}}


async def test_system_topics_cannot_be_deleted(peer: Peer) -> None:
    for topic in ("TBW102", "SCHEDULE_TOPIC_XXXX", "DefaultCluster", "broker-a"):
        await peer.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": topic}, expect=ResponseCode.SYSTEM_ERROR)


async def test_a_deletion_that_cannot_be_saved_is_an_error(start_broker: StartBroker, connect: Connect) -> None:
    class NoRenames(OsFiles):
        def rename(self, source: str, target: str) -> None:
            if target.endswith(DELETIONS_NAME):
                raise OSError(5, "Input/output error")
            super().rename(source, target)

    broker = await start_broker(NoRenames())
    peer = await connect(broker)
    await peer.send("orders")
    code = ResponseCode.SERVICE_NOT_AVAILABLE
    await peer.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "orders"}, expect=code)


async def test_queues_without_a_topic_are_cleaned(broker: Broker, peer: Peer) -> None:
    await peer.send("orders")
    await peer.send("others")
    for topic in ("orders", "others"):
        broker.offsets.commit("billing", topic, 0, 1, "me")
    del broker.topics.by_name["orders"]
    found = await preview(peer)
    assert (found.unused_topics, found.unused_topic_count) == (["orders"], 1)
    assert sorted(broker.store.topics) == ["orders", "others"]
    await peer.ask(RequestCode.CLEAN_UNUSED_TOPIC)
    assert broker.store.topics == ["others"]
    assert broker.offsets.snapshot() == {"others@billing": {0: 1}}


async def test_queues_that_a_topic_no_longer_has_are_cleaned_once_nothing_is_left(
    start_broker: StartBroker, connect: Connect
) -> None:
    broker = await start_broker(Disk(), maxStoreBytes=65_536, **SMALL)
    peer = await connect(broker)
    for queue_id in range(4):
        await peer.send("shrunk", queue_id=queue_id)
        broker.offsets.commit("billing", "shrunk", queue_id, 1, "me")
    await fill(broker, peer, 3)
    await peer.ask(RequestCode.DELETE_EXPIRED_COMMITLOG)
    fields = {
        "topic": "shrunk",
        "readQueueNums": "2",
        "writeQueueNums": "2",
        "perm": "6",
        "topicFilterType": "SINGLE_TAG",
    }
    await peer.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, fields | {"defaultTopic": "TBW102"})
    found = await preview(peer)
    assert (found.expired_queues, found.expired_queue_count) == ([("shrunk", 2), ("shrunk", 3)], 2)
    assert broker.store.queue_ids("shrunk") == [0, 1, 2, 3]
    await peer.ask(RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE)
    assert broker.store.queue_ids("shrunk") == [0, 1]
    assert broker.store.max_offset("shrunk", 0) == 1  # its offsets go on
    assert broker.offsets.of("billing", "shrunk") == {0: 1, 1: 1}  # others would hide what a new queue gets
    stored = read_table(broker.config.store.root / "config", OFFSETS)
    assert stored is not None
    assert stored.offset_table == broker.offsets.snapshot()
