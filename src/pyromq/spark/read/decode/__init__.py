"""Decoding stored records into Arrow columns, with numpy, without a Python object per message.

    records           Records: where bodies, topics and properties lie in a buffer, every length checked
    columns           Columns: one builder per column of the schema; record_batches yields the result
    property_columns  properties split into names and values, fast if all records have the same names

Reads from brokers and from files meet here. A new column is a builder in `columns` and a type in `spark.schema`.
"""
