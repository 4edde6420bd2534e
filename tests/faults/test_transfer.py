"""The short form of the transfer campaign."""

from __future__ import annotations

from tests.faults.transfer import campaign


def test_both_accounts_agree_although_producers_and_broker_are_killed() -> None:
    verdict = campaign(100, kills=2, seed=11, pause=1.0)
    assert verdict.good, verdict
    assert verdict.committed > 30
    assert min(verdict.producer_kills, verdict.broker_kills) >= 1
