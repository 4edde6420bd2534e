"""Lets Spark find format "pyromq" by itself: it looks for top-level modules named `pyspark_*` with a DefaultSource."""

from pyromq.spark.source import PyroMQDataSource as DefaultSource

__all__ = ["DefaultSource"]
