"""Spark sessions with format "pyromq": any that the user has made, or a quiet local one that has found its Java."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from pyromq.errors import ConfigError
from pyromq.spark.java import cache_directory, prepare_environment, write_once

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_LOG4J2 = """rootLogger.level = error
rootLogger.appenderRef.e.ref = e
appender.e.type = Console
appender.e.name = e
appender.e.target = SYSTEM_ERR
appender.e.layout.type = PatternLayout
appender.e.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n
"""
_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
# Not among them: spark.python.unix.domain.socket.enabled. It gives up to a third more rows a second, but prints a
# BrokenPipeError with its traceback for every Python worker that has been idle for a minute.
_FAST_CHECKPOINTS = {
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}


def register(spark: SparkSession) -> None:
    """Make format "pyromq" known to a session; needed only where Spark does not find the package by itself.

    Raises ConfigError if the session runs tasks speculatively: two attempts of one task would send everything twice.
    """
    from pyromq.spark.source import PyroMQDataSource

    if str(spark.conf.get("spark.speculation", "false")).lower() == "true":
        raise ConfigError("spark.speculation=true runs tasks twice, and a sink would send twice: switch it off")
    spark.dataSource.register(PyroMQDataSource)


def local_session(
    app_name: str, master: str = "local[*]", *, fast_checkpoints: bool = False, **conf: str
) -> SparkSession:
    """Return a local session with format "pyromq"; `conf` adds to its settings and wins over them.

    `fast_checkpoints` halves the time of a small micro-batch. It is for local disks only, and what it leaves after a
    power cut has not been examined.

    >>> spark = local_session("orders", "local[2]", **{"spark.driver.memory": "2g"})
    """
    if find_spec("pyspark") is None:
        raise ConfigError("Spark is not installed: pip install 'pyromq[spark]'")
    prepare_environment()
    from pyspark.sql import SparkSession

    log4j2 = write_once(cache_directory() / "log4j2.properties", _LOG4J2)
    settings: dict[str, bool | float | int | str | None] = {
        **_SETTINGS,
        **(_FAST_CHECKPOINTS if fast_checkpoints else {}),
        **conf,
    }
    settings[_JAVA_OPTIONS] = f"-Dlog4j2.configurationFile={log4j2.as_uri()} {conf.get(_JAVA_OPTIONS, '')}".strip()
    spark = SparkSession.Builder().appName(app_name).master(master).config(map=settings).getOrCreate()
    register(spark)
    return spark
