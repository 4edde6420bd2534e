"""Batch and streaming reads of a store's files: planned like reads through brokers, but read without one.

A running broker writes the entries of its queues within a second. Offsets that it has told somebody, or saved for a
group, may therefore be ahead of its files for that long: this is no loss, and the files are looked at once more.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from pyromq.errors import OffsetOutOfRange
from pyromq.spark.error_text import brief, brief_rows
from pyromq.spark.offsets import Offsets, QueueSlice
from pyromq.spark.options.read_options import ReadOptions
from pyromq.spark.read.batch_reader import BatchReader
from pyromq.spark.read.files.store_plan import LogRange, plan_store
from pyromq.spark.read.files.store_queues import StoreQueues
from pyromq.spark.read.plan.partitions import Slices
from pyromq.spark.read.plan.positions import bounds
from pyromq.spark.read.plan.pushdown import PushesFilters
from pyromq.spark.read.stream_reader import StreamReader

if TYPE_CHECKING:
    import pyarrow as pa

_ENTRIES_COME = 1.5  # seconds


class StoreBatchReader(BatchReader):
    """Reads each queue between two positions, as the files were when the read was planned."""

    @brief
    def partitions(self) -> list[InputPartition]:
        try:
            return self._planned()
        except OffsetOutOfRange:
            time.sleep(_ENTRIES_COME)
            return self._planned()

    def _planned(self) -> list[InputPartition]:
        with StoreQueues(self._options.store, self._options.broker_name) as store:
            return list(plan_store(store, bounds(store, self._options, self._narrowing), self._options))

    @brief_rows
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(partition, self._options)


class PushingStoreReader(PushesFilters, StoreBatchReader):
    """A StoreBatchReader that accepts filters."""


class StoreStreamReader(StreamReader):
    """Follows the files of a store, for example that of a running broker."""

    def __init__(self, options: ReadOptions) -> None:
        super().__init__(options)
        self._opened: StoreQueues | None = None  # only in the instance beside the driver: the other one is pickled

    @property
    def _source(self) -> StoreQueues:
        if self._opened is None:
            self._opened = StoreQueues(self._options.store, self._options.broker_name)
        return self._opened

    def _plan(self, ranges: list[QueueSlice]) -> list[Slices]:
        return plan_store(self._source, ranges, self._options)

    def _next_end(self, begin: Offsets) -> Offsets:
        end = super()._next_end(begin)
        if any(offset < begin.get(queue, offset) for queue, offset in end.items()):
            time.sleep(_ENTRIES_COME)
            if self._target is not None:
                self._target = self._source.reachable_max_offsets(self._target)
            end = super()._next_end(begin)
        return end

    @brief_rows
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(partition, self._options)


def _read(partition: InputPartition, options: ReadOptions) -> Iterator[pa.RecordBatch]:
    from pyromq.spark.read.files.range_reader import read_store

    if not isinstance(partition, Slices):  # with nothing to read, Spark still creates one empty partition
        return iter(())
    return read_store(partition.slices, options, by_log=isinstance(partition, LogRange))
