"""How long a task of the sink persists; without Spark."""

from __future__ import annotations

import asyncio

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from pyromq.errors import ConnectFailed
from pyromq.spark.options.write_options import write_options
from pyromq.spark.write.batch_sender import BatchSender
from pyromq.testing import TestClock, eventually


@pytest.mark.parametrize("minutes", [-10, 10])
async def test_setting_the_machines_clock_changes_nothing(minutes: int) -> None:
    schema = from_arrow_schema(pa.schema([("body", pa.binary())]))
    clock = TestClock()
    sender = BatchSender(write_options({"namesrv": "127.0.0.1:1", "topic": "t"}, schema), clock)
    attempts = 0

    async def attempt() -> None:
        nonlocal attempts
        attempts += 1
        raise ConnectFailed("nobody is there")

    sending = asyncio.create_task(sender._persist(attempt, 60.0, "a message"))
    await eventually(lambda: attempts)
    clock.set_wall_clock(minutes=minutes)
    await clock.advance_async(seconds=50)
    assert not sending.done(), "it gave up early"
    await clock.advance_async(seconds=15)
    assert sending.done(), "it goes on and on"
    with pytest.raises(ConnectFailed):
        await sending
