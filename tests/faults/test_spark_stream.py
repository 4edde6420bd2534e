"""The short form of the long stream."""

from __future__ import annotations

import pytest

from tests.faults.spark_stream import campaign


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_every_message_is_once_in_parquet_after_restarts_a_killed_driver_and_a_new_queue() -> None:
    verdict = campaign(0.0)
    assert verdict.good, verdict
    assert verdict.driver_starts == 2
