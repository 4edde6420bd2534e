"""The data source "pyromq" as Spark sees it: options and schema in, readers and writers out.

Spark imports this module in each of its planning processes, so each method imports the heavy modules that it needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from pyromq.errors import ConfigError
from pyromq.spark.error_text import brief
from pyromq.spark.options.read_options import ReadOptions, read_options, schema_options
from pyromq.spark.options.write_options import write_options
from pyromq.spark.read.plan.pushdown import is_pushing
from pyromq.spark.schema import COLUMN_TYPES, check_columns, ddl

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )


class PyroMQDataSource(DataSource):
    """Format "pyromq": topics as tables and streams."""

    @classmethod
    def name(cls) -> str:
        return "pyromq"

    @brief
    def schema(self) -> str:
        columns, as_text = schema_options(self.options)
        return ddl(columns, properties_as_text=as_text)

    @brief
    def reader(self, schema: StructType) -> DataSourceReader:
        options = with_schema(read_options(self.options, streaming=False), schema)
        if options.store:
            from pyromq.spark.read.store_readers import PushingStoreReader, StoreBatchReader

            return PushingStoreReader(options) if is_pushing() else StoreBatchReader(options)
        from pyromq.spark.read.batch_reader import BatchReader, PushingBatchReader

        return PushingBatchReader(options) if is_pushing() else BatchReader(options)

    @brief
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        options = with_schema(read_options(self.options, streaming=True), schema)
        if options.store:
            from pyromq.spark.read.store_readers import StoreStreamReader

            return StoreStreamReader(options)
        from pyromq.spark.read.stream_reader import StreamReader

        return StreamReader(options)

    @brief
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from pyromq.spark.write.writer import BatchWriter

        if overwrite:
            raise ConfigError("messages cannot be overwritten: write with mode('append')")
        return BatchWriter(write_options(self.options, schema))

    @brief
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from pyromq.spark.write.writer import StreamWriter

        return StreamWriter(write_options(self.options, schema))  # mode "complete" sends all rows every time


def with_schema(options: ReadOptions, schema: StructType) -> ReadOptions:
    """Return options with the columns of the user's schema; Spark does not prune columns of Python data sources."""
    columns = check_columns(schema.fieldNames())
    types = {field.name: field.dataType.simpleString() for field in schema.fields}
    as_text = types.get("properties") == "string"
    for name in (field.name for field in schema.fields if not field.nullable):
        raise ConfigError(f"column {name!r} is NOT NULL in the given schema; all columns of pyromq are nullable")
    for name, kind in types.items():
        if kind != COLUMN_TYPES[name] and not (name == "properties" and as_text):
            raise ConfigError(f"column {name!r} has type {COLUMN_TYPES[name]}, not {kind}: convert it after reading")
    return replace(options, columns=columns, properties_as_text=as_text)
