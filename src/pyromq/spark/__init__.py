"""PyroMQ topics in Apache Spark: format "pyromq"."""

from __future__ import annotations

from pyromq.spark.dedupe import dedupe
from pyromq.spark.session import local_session, register

__all__ = ["dedupe", "local_session", "register"]
