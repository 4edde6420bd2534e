"""Checks that a cluster's executors see the driver's directory.

A path on a local disk means a different directory on every machine. Executors would each write to their own disk, and
nobody would notice before the results are read.
"""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from uuid import uuid4

from pyromq.errors import ConfigError

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession


def check_shared(spark: SparkSession, directory: str) -> None:
    """Raise ConfigError if executors do not see a directory of the driver; the directory is created if needed.

    Over Connect the driver is elsewhere, so nothing is checked.
    """
    from pyspark.errors import PySparkException

    try:
        context = spark.sparkContext
    except PySparkException:
        return
    path = urlsplit(directory)
    scheme = path.scheme or urlsplit(_default_files(context)).scheme
    if scheme != "file" or _is_one_machine(str(context.master)):
        return
    blind = _blind_hosts(context, os.path.abspath(path.path))
    if blind:
        raise ConfigError(
            f"the executors on {', '.join(blind)} do not see {path.path}, which the driver has: use a directory that"
            " all machines share (NFS, hdfs://, s3a:// …)"
        )


def _default_files(context: SparkContext) -> str:
    """Return the file system of paths without a scheme."""
    found: str = context._jsc.hadoopConfiguration().get("fs.defaultFS")
    return found


def _is_one_machine(master: str) -> bool:
    return master == "local" or master.startswith("local[")


def _blind_hosts(context: SparkContext, directory: str) -> list[str]:
    """Return the hosts whose executors do not see a file that the driver has just created."""
    sign = os.path.join(directory, f"_seen_{uuid4().hex}")

    def look(_: int) -> tuple[str, bool]:  # nested, so that it is pickled by value: PyroMQ may be missing there
        return socket.gethostname(), os.path.exists(sign)

    os.makedirs(directory, exist_ok=True)
    with open(sign, "wb"):
        pass
    try:
        tasks = context.defaultParallelism
        seen = context.parallelize(range(tasks), tasks).map(look).collect()
    finally:
        os.remove(sign)
    return sorted({host for host, sees in seen if not sees})
