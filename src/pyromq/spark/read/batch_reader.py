"""Batch reads: the driver fixes the offset ranges, the executors read them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec.structs import replace
from pyspark.sql.datasource import DataSourceReader, InputPartition

from pyromq.protocol.tag_filter import EVERYTHING
from pyromq.spark.error_text import brief, brief_rows
from pyromq.spark.options.read_options import ReadOptions
from pyromq.spark.read.plan.partitions import Slices, plan
from pyromq.spark.read.plan.positions import bounds
from pyromq.spark.read.plan.pushdown import Narrowing, PushesFilters, as_expression

if TYPE_CHECKING:
    import pyarrow as pa


class BatchReader(DataSourceReader):
    """Reads each queue between two positions."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._narrowing = Narrowing()

    def narrow_by(self, narrowing: Narrowing) -> None:
        """Restrict the read; a tag filter is passed on to the broker unless the options already give it a filter."""
        self._narrowing = narrowing
        tags = None if narrowing.tags is None else as_expression(narrowing.tags)
        if tags is not None and self._options.tags == EVERYTHING and self._options.sql is None:
            self._options = replace(self._options, tags=tags)

    @brief
    def partitions(self) -> list[InputPartition]:
        from pyromq.spark.read.brokers.broker_queues import connect  # late: reads of files do not need it

        options = self._options
        ranges = bounds(connect(options.namesrv, options.credentials, options.tls), options, self._narrowing)
        return list(plan(ranges, options.min_partitions, options.max_records_per_partition, across=True))

    @brief_rows
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from pyromq.spark.read.brokers.slice_reader import read_slices

        # When there is nothing to read, Spark still creates one empty partition.
        return read_slices(partition.slices if isinstance(partition, Slices) else (), self._options)


class PushingBatchReader(PushesFilters, BatchReader):
    """A BatchReader that accepts filters; with Spark's pushdown setting off, such a reader would fail every read."""
