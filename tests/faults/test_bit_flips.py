"""The short form of bit_flips.py; the long one is `python -m tests.faults.bit_flips`."""

from __future__ import annotations

from pathlib import Path

from tests.faults.bit_flips import campaign
from tests.faults.crash_images import scratch_directory


async def test_whatever_bit_is_flipped_the_broker_starts_and_delivers_all_else() -> None:
    with scratch_directory() as scratch:
        report = await campaign(160, 1, Path(scratch))
    assert report.problems == []
    assert {"commitlog", "consumequeue", "index", "checkpoint", "topics.json", "lock"} <= report.kinds.keys()
    assert 0 < report.left_out < 50
