"""The short form of delay_images.py; the long one is `python -m tests.faults.delay_images`."""

from __future__ import annotations

from pathlib import Path

from tests.faults.crash_images import scratch_directory
from tests.faults.delay_images import campaign


async def test_whatever_a_crash_leaves_each_delayed_message_comes_once() -> None:
    with scratch_directory() as scratch:
        report = await campaign(20, 1, Path(scratch))
    assert report.problems == []
    assert report.required > 50
    assert report.delivered_before > 20
