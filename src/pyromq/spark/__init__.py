"""PyroMQ topics in Apache Spark: format "pyromq".

    source   schema   offsets          what Spark sees: the data source, its columns, positions in queues
    options/                           the options of reads and writes, checked before anything is connected
    read/                              batch and streaming reads, through brokers or from the files of a store
    write/                             the sink
    session   launch/   class_archive  sessions: Java, clusters, shipping the package, faster starts
    speculation                        refused in sessions, pipelines and sinks
    dedupe   progress   error_text     helpers for users: no second copies, lag per queue, errors in one line
    arrow                              Arrow arrays from buffers, shared by reads and writes

A read: Spark asks `source` for a reader, which checks its options (`options/`) and plans ranges of queues
(`read/plan/`). Each task reads some ranges (`read/brokers/` or `read/files/`) and decodes them into Arrow batches
(`read/decode/`). A write: each task turns its rows into batches for one queue each and sends them (`write/`).

Spark starts many short-lived Python processes, so modules import heavy parts only where they use them.
"""

from __future__ import annotations

from pyromq.spark.dedupe import dedupe
from pyromq.spark.error_text import one_line
from pyromq.spark.progress import QueueLag, lag
from pyromq.spark.session import local_session, register, session

__all__ = ["QueueLag", "dedupe", "lag", "local_session", "one_line", "register", "session"]
