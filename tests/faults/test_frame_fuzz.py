"""The short form of the fuzzer: all request codes, what once stopped a server, and some seconds at random."""

from __future__ import annotations

import pytest

from tests.faults.frame_fuzz import campaign
from tests.faults.hostile_frames import KILLERS, ROWS


@pytest.mark.timeout(300)
def test_no_frame_of_a_stranger_holds_the_loop() -> None:
    """The oracle is the CPU time of one callback, which does not depend on how busy the machine is."""
    verdict = campaign(5, seed=11, on_uvloop=False)
    assert verdict.good, verdict
    known = sum(len(list(killers())) for killers in KILLERS.values())
    assert verdict.frames > known + 6 * sum(map(len, ROWS.values()))
