"""Whole records -> Arrow batches with the columns that a read asks for."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from functools import lru_cache

import pyarrow as pa

from pyromq.spark.columns import Columns
from pyromq.spark.options import ReadOptions
from pyromq.spark.records import Records


def record_batches(records: Records, broker_name: str | None, options: ReadOptions) -> Iterator[pa.RecordBatch]:
    """Yield the records as one batch, or as several if their bodies, decompressed, are too large for one."""
    while len(records):
        columns = Columns(records, broker_name, inflate=options.decompress)
        count = columns.fitting() if "body" in options.columns else len(records)
        if count < len(records):
            columns = Columns(records.select(slice(count)), broker_name, inflate=options.decompress)
        yield columns.batch(options.columns, properties_as_text=options.properties_as_text)
        records = records.select(slice(count, None))


@lru_cache  # once in a process; asking how much is frozen costs as much as what is saved
def freeze() -> None:
    """Take what is loaded out of the garbage collector's sight: Spark collects after each task (27 ms, then 12)."""
    gc.collect()
    gc.freeze()
