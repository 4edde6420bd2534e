"""Waiting messages and the cleaner: no file of the log goes while one waits in it, and none is delivered twice."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pyromq.protocol.messages.message import MessageExt
from pyromq.protocol.names import TIMER_TOPIC
from tests.broker.delay.timer.timer_rig import TimerRig
from tests.store.helpers import read_queue

LATER = {"TIMER_DELAY_SEC": "86400"}


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[TimerRig]:
    rig = TimerRig(tmp_path)
    await rig.open()
    yield rig
    await rig.close()


async def fill(rig: TimerRig, count: int = 12) -> None:
    """Send plain messages, so that the log rolls a few times."""
    for number in range(count):
        await rig.put(f"plain-{number}", size=900)


def in_the_log(rig: TimerRig) -> list[MessageExt]:
    return read_queue(rig.store, TIMER_TOPIC)


async def test_a_waiting_message_is_written_again_before_its_file_goes(rig: TimerRig) -> None:
    place = await rig.put("one", LATER | {"TAGS": "paid", "KEYS": "k-1"})
    await fill(rig)
    assert await rig.clean()
    assert rig.store.min_physical_offset > place
    (moved,) = in_the_log(rig)
    assert (moved.message_id, moved.tags, moved.body.strip()) == ("one", "paid", b"one")
    assert (moved.properties["PYROMQ_TIMER_FROM"], moved.properties["TIMER_ROLL_TIMES"]) == (str(place), "1")
    await rig.move(seconds=86_400)
    assert rig.names().count("one") == 1


async def test_a_message_moves_as_often_as_it_has_to(rig: TimerRig) -> None:
    await rig.put("one", LATER)
    for _ in range(3):
        await fill(rig)
        assert await rig.clean()
    assert in_the_log(rig)[-1].properties["TIMER_ROLL_TIMES"] == "3"
    await rig.move(seconds=86_400)
    assert rig.names().count("one") == 1


async def test_files_stay_until_the_moved_messages_are_flushed(rig: TimerRig) -> None:
    place = await rig.put("one", LATER)
    await fill(rig)
    await rig.save()
    cleaner = rig.store.cleaner
    target = cleaner._log.segments.stop - cleaner._log.file_size
    cleaner.retention.log_start = lambda log, durable_end: target  # type: ignore[method-assign]
    for _ in range(4):
        cleaner.run()
        await rig.move(seconds=1)
    assert rig.store.min_physical_offset <= place
    assert len(in_the_log(rig)) == 2
    assert await rig.clean()
    assert rig.store.min_physical_offset > place


async def test_messages_move_on_a_disk_that_is_too_full_for_new_ones(rig: TimerRig) -> None:
    place = await rig.put("one", LATER)
    await fill(rig)
    cleaner = rig.store.cleaner
    cleaner.check_disk = lambda: setattr(cleaner, "refuses_messages", True)  # type: ignore[method-assign]
    assert await rig.clean()
    assert not rig.store.writable
    assert rig.store.min_physical_offset > place


async def test_a_broker_killed_while_it_moves_messages_delivers_each_once(rig: TimerRig) -> None:
    for number in range(20):
        await rig.put(f"m{number}", LATER, size=300)
    await rig.save()
    cleaner = rig.store.cleaner
    cleaner.retention.log_start = lambda log, durable_end: log.segments.file_start(log.end)  # type: ignore[method-assign]
    cleaner.run()
    await rig.settle()
    assert len(in_the_log(rig)) > 20
    await rig.kill()
    assert rig.timer.count == 20
    await rig.move(seconds=86_400)
    assert sorted(rig.names()) == sorted(f"m{number}" for number in range(20))


async def test_a_moved_message_is_cancelled_by_its_id(rig: TimerRig) -> None:
    await rig.put("one", LATER)
    await fill(rig)
    assert await rig.clean()
    assert await rig.cancel("one") is not None
    assert await rig.cancel("one") is None
    await rig.move(seconds=86_400)
    assert "one" not in rig.names()


async def test_what_is_due_soon_is_delivered_and_not_moved(rig: TimerRig) -> None:
    await rig.put("soon", {"TIMER_DELAY_MS": "2500"})
    await fill(rig)
    assert await rig.clean()
    assert rig.names().count("soon") == 1
    assert in_the_log(rig) == []


async def test_without_waiting_messages_files_go_at_once(rig: TimerRig) -> None:
    await fill(rig)
    assert await rig.clean(passes=1)


async def test_a_message_sent_on_with_all_its_properties_ends_no_waiting(rig: TimerRig) -> None:
    place = await rig.put("one", LATER)
    await rig.put("liar", {"PYROMQ_TIMER_FROM": str(place), "TIMER_OUT_MS": "1"})
    await rig.kill()
    assert rig.timer.count == 1
    await rig.move(seconds=86_400)
    assert rig.names() == ["liar", "one"]
