"""Handlers in processes: the parent publishes and acknowledges, and a process that dies costs one call."""

from __future__ import annotations

import asyncio
import os

import pytest

from pyromq.app.worker_processes import WorkerDied
from pyromq.testing import TestApp
from tests.app.shop import Picture, Thumbnail, app


async def test_a_process_does_the_work_and_the_parent_sends_the_result() -> None:
    async with TestApp(app) as test:
        await test.send("pictures", Picture("sea"))
        (made,) = test.sent("thumbnails", Thumbnail)
        assert made.name == "sea of pictures"
        assert made.pid != os.getpid()

        with pytest.raises(WorkerDied, match=r"the process of the handler shrink died \(exit code -9\)"):
            await test.send("pictures", Picture("die"))
        with pytest.raises(FileNotFoundError, match="no such picture"):
            await test.send("pictures", Picture("fail"))
        with pytest.raises(RuntimeError, match=r"the handler's process cannot send Odd: a \(shop\.py:\d+ in shrink\)"):
            await test.send("pictures", Picture("odd"))

        with pytest.raises(TimeoutError):
            await asyncio.wait_for(test.send("pictures", Picture("hang")), 0.05)
        await test.send("pictures", Picture("sky"))
        assert test.sent("thumbnails", Thumbnail)[-1].name == "sky of pictures"
