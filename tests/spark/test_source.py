from __future__ import annotations

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from pyromq.errors import ConfigError
from pyromq.spark.options.read_options import ReadOptions, read_options
from pyromq.spark.source import with_schema

MAP_OF_INTS = MapType(StringType(), IntegerType())


def _options() -> ReadOptions:
    return read_options({"namesrv": "127.0.0.1:9876", "subscribe": "orders"}, streaming=False)


@pytest.mark.parametrize(
    ("field", "text"),
    [
        (StructField("body", StringType()), "column 'body' has type binary, not string: convert it after reading"),
        (
            StructField("properties", MAP_OF_INTS),
            "column 'properties' has type map<string,string>, not map<string,int>",
        ),
        (StructField("boddy", BinaryType()), "unknown column 'boddy'; did you mean 'body'?"),
        (StructField("queue_id", IntegerType(), nullable=False), "column 'queue_id' is NOT NULL in the given schema"),
    ],
)
def test_a_schema_that_does_not_fit_is_refused(field: StructField, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        with_schema(_options(), StructType([StructField("tags", StringType()), field]))
    assert text in str(caught.value)


def test_a_schema_chooses_columns_and_their_order() -> None:
    fields = {"tags": StringType(), "body": BinaryType(), "keys": ArrayType(StringType()), "properties": StringType()}
    schema = StructType([StructField(name, kind) for name, kind in fields.items()])
    options = with_schema(_options(), schema)
    assert (options.columns, options.properties_as_text) == (tuple(fields), True)
