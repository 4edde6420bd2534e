"""The short form of the power-cut campaign, and the test of the test."""

from __future__ import annotations

import pytest

from tests.faults.campaign import History, check
from tests.faults.power_cut import campaign, unavailable

REASON = unavailable()
needs_power = pytest.mark.skipif(bool(REASON), reason=f"power cuts: {REASON}")


@needs_power
def test_nothing_acknowledged_is_lost_in_power_cuts() -> None:
    verdict = campaign(3, seed=7)
    assert verdict.good, verdict
    assert verdict.acknowledged > 50


@needs_power
def test_the_campaign_sees_that_a_broker_without_fsync_loses_messages() -> None:
    assert not campaign(4, lying=True, seed=7).good


def test_the_verdict_knows_every_kind_of_harm() -> None:
    history = History({("t", 0, 0): b"a", ("t", 0, 1): b"b"}, {b"a", b"b"}, {"t"})
    assert check(history, {("t", 0, 0): b"a", ("t", 0, 1): b"b"}, set()).good
    assert check(history, {("t", 0, 0): b"a"}, set()).lost == 1
    assert check(history, {("t", 0, 0): b"b", ("t", 0, 1): b"a"}, set()).wrong == 2
    assert check(history, {**history.acknowledged, ("t", 0, 2): b"c"}, set()).invented == 1
    assert check(history, dict(history.acknowledged), {"t"}).forgotten_topics == 1
