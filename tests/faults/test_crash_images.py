"""The short form of crash_images.py; the long one is `python -m tests.faults.crash_images`."""

from __future__ import annotations

from pathlib import Path

from tests.faults.crash_images import campaign, scratch_directory


def test_whatever_a_crash_leaves_nothing_acknowledged_is_lost() -> None:
    with scratch_directory() as scratch:
        report = campaign(300, 1, Path(scratch), share=0.15)
    assert report.problems == []
    assert report.required > 5_000
