"""Bounded reads: the driver fixes the ranges, the executors read them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from pyromq.spark.brokers import connect
from pyromq.spark.options import ReadOptions
from pyromq.spark.partitions import Slices, plan
from pyromq.spark.positions import bounds

if TYPE_CHECKING:
    import pyarrow as pa


class BatchReader(DataSourceReader):
    """Reads what lies between two positions of each queue."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        options = self._options
        ranges = bounds(connect(options.namesrv), options)
        return list(plan(ranges, options.min_partitions, options.max_records_per_partition))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from pyromq.spark.broker_reader import read_slices

        # Spark makes one partition of none when there is nothing to read.
        return read_slices(partition.slices if isinstance(partition, Slices) else (), self._options)
