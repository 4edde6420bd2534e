"""The short form of the long stream."""

from __future__ import annotations

import pytest

from tests.faults.spark_campaign import SHORT_LIVED_JVMS
from tests.faults.spark_stream import campaign


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_every_message_is_once_in_parquet_after_restarts_a_killed_driver_and_a_new_queue(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in SHORT_LIVED_JVMS.items():
        monkeypatch.setenv(name, value)
    verdict = campaign(0.0)
    assert verdict.good, verdict
    assert verdict.driver_starts == 2
