"""Dead letters that nobody looked at are warned of before retention takes them."""

from __future__ import annotations

import re

import pytest

from pyromq.testing import TestClock
from tests.broker.conftest import Connect, StartBroker


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "dead letters expire" in record.getMessage()]


async def test_a_group_is_warned_of_once_a_day_before_its_dead_letters_expire(
    start_broker: StartBroker, connect: Connect, clock: TestClock, caplog: pytest.LogCaptureFixture
) -> None:
    broker = await start_broker(fileReservedTime=40)
    peer = await connect(broker)
    for _ in range(3):
        await peer.send("%DLQ%billing")
    await peer.send("%DLQ%younger", default_topic_queue_nums=0, expect=1)  # a topic without any
    await clock.advance_async(hours=29, step=900)
    assert warnings(caplog) == []
    await clock.advance_async(hours=3, step=900)
    (warning,) = warnings(caplog)
    assert "group=billing count=3" in warning
    assert re.search(r"expire in (10\.0|9\.\d) h", warning)
    await clock.advance_async(hours=12, step=900)
    assert len(warnings(caplog)) == 1
    await clock.advance_async(hours=15, step=900)
    assert len(warnings(caplog)) == 2
