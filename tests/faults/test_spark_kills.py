"""The short form of the Spark kill campaign."""

from __future__ import annotations

import pytest

from tests.faults.spark_kills import campaign


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_killed_executor_loses_nothing_and_keeps_the_order_of_keys() -> None:
    verdict = campaign("topic", ["executor"], seed=7, rate=100)
    assert verdict.good, verdict
    assert verdict.kills == {"driver": 0, "executor": 1}
