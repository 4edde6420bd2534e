"""After a stop or a kill each delayed message is delivered, and once wherever that can be known."""

from __future__ import annotations

import logging
import re
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pyromq.broker.delay.levels.schedule import Schedule
from pyromq.broker.delay.levels.schedule_recovery import find_delivered, without_deliveries
from pyromq.broker.server import Broker
from pyromq.broker.tables.delay_offsets import DelayProgress
from pyromq.protocol.names import SCHEDULE_TOPIC
from pyromq.testing import TestClock, eventually
from tests.broker.conftest import Connect, StartBroker
from tests.broker.delay.levels.schedules import SMALL, bodies, delayed, expect, image, progress, send, settle, stored
from tests.broker.helpers import Peer


async def test_what_is_overdue_after_a_stop_is_delivered_at_once(
    start_broker: StartBroker, connect: Connect, clock: TestClock
) -> None:
    broker = await start_broker()
    peer = await connect(broker)
    await send(peer, b"first")
    await clock.advance_async(seconds=2)
    for number in range(200):
        await send(peer, b"%d" % number, 2)
    await broker.__aexit__(None, None, None)
    assert progress(broker.config.store.root)["offsetTable"] == {"1": 1}
    await clock.advance_async(minutes=5)
    again = await start_broker()
    await expect(again, b"first", *(b"%d" % number for number in range(200)))


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
async def test_after_a_kill_at_any_moment_each_message_is_delivered_once(
    start_broker: StartBroker, connect: Connect, clock: TestClock, tmp_path: Path, flush: str
) -> None:
    broker = await start_broker(flushDiskType=flush, **SMALL)
    peer = await connect(broker)
    images: list[Path] = []
    sent: list[list[bytes]] = []
    names: list[bytes] = []
    for number in range(8):
        for level in (1, 1, 2):
            names.append(b"%d-%d-%d" % (number, level, len(names)))
            await send(peer, names[-1], level)
        await clock.advance_async(seconds=0.7)
        images.append(image(broker, tmp_path / f"image-{number}"))
        sent.append(list(names))
    await broker.__aexit__(None, None, None)
    for path, expected in zip(images, sent, strict=True):
        after = await start_broker(storePathRootDir=path, **SMALL)
        await settle(after, clock)
        assert sorted(bodies(after)) == sorted(expected)
        await after.__aexit__(None, None, None)


async def test_retries_that_share_a_key_are_told_apart_after_a_kill(
    start_broker: StartBroker, connect: Connect, clock: TestClock, tmp_path: Path
) -> None:
    broker = await start_broker(**SMALL)
    peer = await connect(broker)
    retries: list[dict[str, Any]] = [
        {"reconsume_times": 1},
        {"reconsume_times": 2},
        {"reconsume_times": 1, "born_timestamp": 5},
    ]
    for number, fields in enumerate(retries):
        await peer.send(body=b"%d" % number, properties=delayed(1, UNIQ_KEY="same"), **fields)
        await clock.advance_async(seconds=0.4)
    await expect(broker, b"0")
    path = image(broker, tmp_path / "image")
    (path / "config" / "delayOffset.json").write_text('{"offsetTable":{1:1}}')  # without a mark of ours
    after = await start_broker(storePathRootDir=path, **SMALL)
    await settle(after, clock)
    await expect(after, b"0", b"1", b"2")


async def test_a_message_that_was_scheduled_twice_is_delivered_twice(
    start_broker: StartBroker, connect: Connect, clock: TestClock, tmp_path: Path
) -> None:
    broker = await start_broker(**SMALL)
    peer = await connect(broker)
    await send(peer, b"same")
    await clock.advance_async(seconds=0.6)
    await send(peer, b"same")
    await clock.advance_async(seconds=0.6)
    await expect(broker, b"same")
    after = await start_broker(storePathRootDir=image(broker, tmp_path / "image"), **SMALL)
    await settle(after, clock)
    await expect(after, b"same", b"same")


async def test_a_message_without_a_key_is_delivered_again_after_a_kill(
    start_broker: StartBroker, connect: Connect, clock: TestClock, tmp_path: Path
) -> None:
    broker = await start_broker(**SMALL)
    peer = await connect(broker)
    await peer.send(body=b"no key", properties=delayed(1))
    await send(peer, b"key")
    await clock.advance_async(seconds=1.1)
    await expect(broker, b"no key", b"key")
    path = image(broker, tmp_path / "image")
    shutil.rmtree(path / "config")  # even if no progress was ever saved
    after = await start_broker(storePathRootDir=path, **SMALL)
    await settle(after, clock)
    assert Counter(bodies(after)) == {b"no key": 2, b"key": 1}


async def test_what_is_behind_a_message_without_a_key_is_delivered_once_also_after_two_kills(
    start_broker: StartBroker, connect: Connect, clock: TestClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second comes when progress was saved, and before the message without a key is delivered again."""
    broker = await start_broker(**SMALL)
    peer = await connect(broker)
    await send(peer, b"counted")
    await clock.advance_async(seconds=1.1)
    await expect(broker, b"counted")
    await peer.send(body=b"no key", properties=delayed(1))
    await send(peer, b"key")
    await clock.advance_async(seconds=1.1)
    await expect(broker, b"counted", b"no key", b"key")
    first = image(broker, tmp_path / "first")
    (first / "config" / "delayOffset.json").unlink(missing_ok=True)
    with monkeypatch.context() as patched:
        patched.setattr(Schedule, "start", lambda self: self._ticker.start())
        killed = await start_broker(storePathRootDir=first, **SMALL)
        await clock.advance_async(seconds=2)
        await eventually(lambda: (first / "config" / "delayOffset.json").exists())
        assert progress(first)["offsetTable"] == {"1": 1}
        second = image(killed, tmp_path / "second")
    after = await start_broker(storePathRootDir=second, **SMALL)
    await settle(after, clock)
    assert Counter(bodies(after)) == {b"counted": 1, b"no key": 2, b"key": 1}


async def test_only_the_log_behind_the_saved_position_is_looked_at(
    start_broker: StartBroker, connect: Connect, clock: TestClock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broker = await start_broker(**SMALL)
    peer = await connect(broker)
    await send(peer, b"two hours", 18)
    for number in range(20):
        await send(peer, b"%d" % number)
    await clock.advance_async(seconds=2)
    root = broker.config.store.root
    await eventually(lambda: (root / "config" / "delayOffset.json").exists())
    await clock.advance_async(seconds=3)
    await eventually(lambda: progress(root)["offsetTable"] == {"1": 20})
    end = broker.store.max_physical_offset
    await send(peer, b"last")
    await clock.advance_async(seconds=1.05)
    path = image(broker, tmp_path / "image")
    caplog.clear()
    with caplog.at_level(logging.INFO):
        await start_broker(storePathRootDir=path, **SMALL)
    (line,) = [text for text in caplog.messages if "deliveries since the last save" in text]
    start = int(re.findall(r"from=(\d+)", line)[0])
    assert 0 < start <= end
    assert progress(path)["pyromqLogOffset"] == start


async def test_a_progress_outside_its_queue_is_corrected(
    start_broker: StartBroker, connect: Connect, clock: TestClock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = tmp_path / "store" / "config"
    config.mkdir(parents=True)
    (config / "delayOffset.json").write_text('{\n\t"offsetTable":{1:99,2:1\n\t}\n}')  # as RocketMQ writes it
    broker = await start_broker()
    await send(await connect(broker), b"later")
    await clock.advance_async(seconds=2)
    await expect(broker, b"later")
    assert sum("delay progress corrected" in text for text in caplog.messages) == 2


async def test_what_was_removed_with_its_file_is_passed_over(
    peer: Peer, broker: Broker, clock: TestClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        await send(peer, b"%d" % number)
    monkeypatch.setattr(
        broker.store, "min_offset", lambda topic, queue_id: 2 if (topic, queue_id) == (SCHEDULE_TOPIC, 0) else 0
    )
    await clock.advance_async(seconds=2)
    await expect(broker, b"2", b"3")


async def test_a_delivery_that_is_about_to_be_cut_off_counts_no_more(
    start_broker: StartBroker, connect: Connect, clock: TestClock
) -> None:
    broker = await start_broker(**SMALL)
    peer = await connect(broker)
    for number in range(3):
        await send(peer, b"%d" % number)
    await send(peer, b"never", 18)
    await clock.advance_async(seconds=1.1)
    await expect(broker, b"0", b"1", b"2")
    await send(peer, b"later")
    end = broker.store.max_physical_offset
    saved = DelayProgress({1: 3, 18: 0}, end)
    assert without_deliveries(broker.store, saved, end) == saved
    deliveries = [message.physical_offset for message in stored(broker.store)]
    kept = without_deliveries(broker.store, saved, deliveries[1])
    assert kept.offsets == {1: 1, 18: 0}
    assert kept.log_offset is not None
    assert kept.log_offset < deliveries[0]
    assert find_delivered(broker.store, kept).by_level[1] == {1, 2}  # as long as they are there
    waiting = [message.physical_offset for message in stored(broker.store, "SCHEDULE_TOPIC_XXXX")]
    assert without_deliveries(broker.store, saved, waiting[1]).offsets == {1: 0, 18: 0}
