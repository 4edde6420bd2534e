"""The short form of the kill campaign."""

from __future__ import annotations

import pytest

from tests.faults.kill_loop import campaign


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_nothing_acknowledged_is_lost_when_the_broker_is_killed(flush: str) -> None:
    verdict = campaign(3, flush=flush, seed=11)
    assert verdict.good, verdict
    assert verdict.acknowledged > 50
