"""Directories that a cluster's executors must see as the driver does.

A path of one machine's disk means another directory on every machine. Executors would write there, each to its own
disk, and nothing would say so before somebody reads what the run has written.
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
    """Raise ConfigError if the executors of a cluster do not see a directory of the driver; it is made if need be.

    Over Connect the driver is elsewhere, and nothing is checked.
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
            f"the executors on {', '.join(blind)} do not see {path.path}, which the driver has: give a directory that"
            " all machines share (NFS, hdfs://, s3a:// …)"
        )


def _default_files(context: SparkContext) -> str:
    """Return what a path without a scheme belongs to."""
    found: str = context._jsc.hadoopConfiguration().get("fs.defaultFS")
    return found


def _is_one_machine(master: str) -> bool:
    return master == "local" or master.startswith("local[")


def _blind_hosts(context: SparkContext, directory: str) -> list[str]:
    """Return the hosts whose executors do not find a file that the driver has just made."""
    sign = os.path.join(directory, f"_seen_{uuid4().hex}")

    def look(_: int) -> tuple[str, bool]:  # inside a function, so that it travels where PyroMQ is not installed
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
