"""PyroMQ topics in Apache Spark: format "pyromq"."""

from __future__ import annotations

from pyromq.spark.session import local_session, register

__all__ = ["local_session", "register"]
