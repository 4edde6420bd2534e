"""Batch and streaming reads of a store's files: planned as those through brokers are, read without one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from pyromq.spark.offsets import QueueSlice
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


class StoreBatchReader(BatchReader):
    """Reads what lies between two positions of each queue, as the files were when the read was planned."""

    def partitions(self) -> list[InputPartition]:
        with StoreQueues(self._options.store, self._options.broker_name) as store:
            return list(plan_store(store, bounds(store, self._options, self._narrowing), self._options))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(partition, self._options)


class PushingStoreReader(PushesFilters, StoreBatchReader):
    """The same where Spark pushes filters down."""


class StoreStreamReader(StreamReader):
    """Follows what becomes visible in the files of a store, that of a running broker for example."""

    def __init__(self, options: ReadOptions) -> None:
        super().__init__(options)
        self._opened: StoreQueues | None = None  # by the instance beside the driver only: the other one is pickled

    @property
    def _source(self) -> StoreQueues:
        if self._opened is None:
            self._opened = StoreQueues(self._options.store, self._options.broker_name)
        return self._opened

    def _plan(self, ranges: list[QueueSlice]) -> list[Slices]:
        return plan_store(self._source, ranges, self._options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(partition, self._options)


def _read(partition: InputPartition, options: ReadOptions) -> Iterator[pa.RecordBatch]:
    from pyromq.spark.read.files.range_reader import read_store

    if not isinstance(partition, Slices):  # Spark makes one partition of none when there is nothing to read
        return iter(())
    return read_store(partition.slices, options, by_log=isinstance(partition, LogRange))
