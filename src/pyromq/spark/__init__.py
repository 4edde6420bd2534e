"""PyroMQ topics in Apache Spark: format "pyromq"."""

from __future__ import annotations

from pyromq.spark.dedupe import dedupe
from pyromq.spark.error_text import one_line
from pyromq.spark.progress import QueueLag, lag
from pyromq.spark.session import local_session, register, session

__all__ = ["QueueLag", "dedupe", "lag", "local_session", "one_line", "register", "session"]
