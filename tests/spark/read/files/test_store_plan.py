"""How the work of reading a store is divided into tasks."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from pyromq.protocol.messages.message import MessageQueue
from pyromq.spark.offsets import QueueSlice
from pyromq.spark.read.files import store_plan
from pyromq.spark.read.files.store_plan import LogRange
from tests.spark.read.sample_store import (
    COUNT,
    QUEUES,
    offsets_of,
    put_records,
    rows_of,
    sample_record,
    store_reader,
)
from tests.store.helpers import small_store


def test_log_ranges_divide_every_queue_without_gap_or_overlap(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_plan, "SMALL", 0)
    partitions = store_reader(root, subscribe="orders,refunds", minPartitions="5").partitions()
    assert len(partitions) == 5
    assert all(isinstance(partition, LogRange) for partition in partitions)
    slices: dict[MessageQueue, list[QueueSlice]] = defaultdict(list)
    for part in (part for partition in partitions for part in partition.value):
        slices[part.queue].append(part)
    for queue, parts in slices.items():
        assert [part.start for part in parts] == [0, *(part.stop for part in parts[:-1])]
        assert parts[-1].stop == (COUNT if queue.topic == "refunds" else -(-(COUNT - queue.queue_id) // QUEUES))
    sizes = [sum(part.stop - part.start for part in partition.value) for partition in partitions]
    assert max(sizes) < 2 * min(sizes)


def test_no_task_has_more_records_than_it_may_however_small_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_plan, "SMALL", 0)
    with small_store(tmp_path / "store") as store:
        for number in range(60):
            put_records(store, sample_record(number, body=b"x" if number < 50 else bytes(3000)))
    reader = store_reader(tmp_path, maxRecordsPerPartition="12")
    sizes = [sum(part.stop - part.start for part in partition.value) for partition in reader.partitions()]
    assert max(sizes) <= 12 < sum(sizes) == 60
    assert offsets_of(rows_of(reader)) == {queue_id: list(range(20)) for queue_id in range(QUEUES)}


def test_a_topic_that_fills_little_of_the_log_is_read_by_queues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_plan, "SMALL", 0)
    with small_store(tmp_path / "store") as store:
        for number in range(30):
            put_records(store, sample_record(number, body=b"x"), sample_record(number, "others", body=bytes(2000)))
    partitions = store_reader(tmp_path, minPartitions="3").partitions()
    assert [isinstance(partition, LogRange) for partition in partitions] == [False] * 3
