"""The short form of the campaign that kills pipelines."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.faults.backlog import compare, fill, read_topic
from tests.faults.pipelines import Kills, widen

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


def test_a_backlog_is_widened_in_order_and_once_though_the_driver_is_killed(tmp_path: Path) -> None:
    verdict = widen(tmp_path, 5_000, 100, Kills(driver=1, seed=5), batches=4)[0]
    assert verdict.good, verdict
    assert verdict.kills == 1


def test_the_comparison_sees_what_is_missing_doubled_changed_and_out_of_order(tmp_path: Path) -> None:
    fill(tmp_path / "store", 20_000, 50)  # two messages of each key
    messages = read_topic(tmp_path / "store", "backlog")
    assert compare(messages, messages, in_queues=True).good
    assert compare(messages, messages.slice(1), in_queues=True).missing == 1
    assert compare(messages, pa.concat_tables([messages, messages.slice(3, 2)]), in_queues=False).doubled == 2
    bodies = pa.array([b"other", *messages["body"].to_pylist()[1:]], pa.binary())
    place = messages.schema.get_field_index("body")
    assert compare(messages, messages.set_column(place, "body", bodies), in_queues=True).changed == 1
    place = messages.schema.get_field_index("queue_offset")
    turned = messages.set_column(place, "queue_offset", pc.multiply(messages["queue_offset"], -1))
    assert compare(messages, turned, in_queues=True).out_of_order > 0
