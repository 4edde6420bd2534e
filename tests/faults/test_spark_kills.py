"""The short form of the Spark kill campaign."""

from __future__ import annotations

import pytest

from tests.faults.spark_campaign import SHORT_LIVED_JVMS
from tests.faults.spark_kills import campaign


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_killed_executor_loses_nothing_and_keeps_the_order_of_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SHORT_LIVED_JVMS.items():
        monkeypatch.setenv(name, value)
    verdict = campaign("topic", ["executor"], seed=7, rate=100)
    assert verdict.good, verdict
    assert verdict.kills == {"driver": 0, "executor": 1}
