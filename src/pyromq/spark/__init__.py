"""PyroMQ topics in Apache Spark: format "pyromq"."""

from __future__ import annotations

from pyromq.spark.session import register

__all__ = ["register"]
