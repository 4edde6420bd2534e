"""Bounded reads: the driver fixes the ranges, the executors read them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec.structs import replace
from pyspark.sql.datasource import DataSourceReader, InputPartition

from pyromq.protocol.tag_filter import EVERYTHING
from pyromq.spark.options.read_options import ReadOptions
from pyromq.spark.read.plan.partitions import Slices, plan
from pyromq.spark.read.plan.positions import bounds
from pyromq.spark.read.plan.pushdown import Narrowing, PushesFilters, as_expression

if TYPE_CHECKING:
    import pyarrow as pa


class BatchReader(DataSourceReader):
    """Reads what lies between two positions of each queue."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._narrowing = Narrowing()

    def narrow_by(self, narrowing: Narrowing) -> None:
        """Read only what is left; a filter by tags goes to the broker if that has none to apply yet."""
        self._narrowing = narrowing
        tags = None if narrowing.tags is None else as_expression(narrowing.tags)
        if tags is not None and self._options.tags == EVERYTHING and self._options.sql is None:
            self._options = replace(self._options, tags=tags)

    def partitions(self) -> list[InputPartition]:
        from pyromq.spark.read.brokers.broker_queues import connect  # a read of files starts faster without

        options = self._options
        ranges = bounds(connect(options.namesrv, options.credentials), options, self._narrowing)
        return list(plan(ranges, options.min_partitions, options.max_records_per_partition))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from pyromq.spark.read.brokers.slice_reader import read_slices

        # Spark makes one partition of none when there is nothing to read.
        return read_slices(partition.slices if isinstance(partition, Slices) else (), self._options)


class PushingBatchReader(PushesFilters, BatchReader):
    """The same where Spark pushes filters down: with its setting off, a reader that takes filters fails every read."""
