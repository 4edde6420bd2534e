"""Spark sessions with format "pyromq": one of the user's, or a new quiet one, local or on a cluster."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

from pyromq.errors import ConfigError
from pyromq.spark.launch import ship as shipping
from pyromq.spark.launch.addresses import check_reachable
from pyromq.spark.launch.interrupted_start import no_jvm_left_behind
from pyromq.spark.launch.java import archive_options, cache_directory, prepare_environment, worker_python, write_once
from pyromq.spark.speculation import SETTING, refuse_speculation

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource

_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_LOG4J2 = """rootLogger.level = error
rootLogger.appenderRef.e.ref = e
appender.e.type = Console
appender.e.name = e
appender.e.target = SYSTEM_ERR
appender.e.layout.type = PatternLayout
appender.e.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n
"""
Settings = dict[str, bool | float | int | str | None]

_OF_EVERY_SESSION = {
    "spark.sql.session.timeZone": "UTC",
    # A Connect server's web pages show the plans of its sessions, including their options.
    "spark.sql.redaction.string.regex": r'(?i)"(?:accessKey|secretKey|tlsKeyPassword)"\s+value: "(?:[^"\\]|\\.)*"',
}
_SETTINGS = {
    **_OF_EVERY_SESSION,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
# spark.python.unix.domain.socket.enabled is left off. It gives up to a third more rows a second, but prints a
# BrokenPipeError with a traceback for every Python worker that has been idle for a minute.
_FAST_CHECKPOINTS = {
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}


def register(spark: SparkSession, *, ship: bool = False) -> None:
    """Register format "pyromq" with a session; needed only if Spark does not find the package by itself.

    Spark looks for it with the Python of PYSPARK_PYTHON, by default python3 on the PATH. In a local session, a
    registered format runs in this Python. With `ship`, the session carries the package to clusters that do not have it;
    docs/spark_cluster.md says what they need. Raises ConfigError if the session runs tasks speculatively: two attempts
    of one task would send everything twice.
    """
    refuse_speculation(spark.conf.get(SETTING, None))
    with _own_python(spark):
        spark.dataSource.register(shipping.ship(spark) if ship else _installed_source())


@contextmanager
def _own_python(spark: SparkSession) -> Iterator[None]:
    """Make a local session run the format in this Python, unless the user has chosen one for Spark.

    Without a choice Spark takes python3 from the PATH. If an environment is not activated, that is another Python,
    which has no PyroMQ.
    """
    context = getattr(spark, "_sc", None)  # a Connect session has none
    if context is None or os.environ.get("PYSPARK_PYTHON") or not str(context.master).startswith("local"):
        yield
        return
    try:
        own = str(worker_python(cache_directory()))
    except ConfigError:  # no directory for the shim: slower, not worse
        own = sys.executable
    usual, context.pythonExec = context.pythonExec, own
    try:
        yield
    finally:
        context.pythonExec = usual


def _installed_source() -> type[DataSource]:
    from pyromq.spark.source import PyroMQDataSource

    return PyroMQDataSource


def session(
    app_name: str,
    *,
    master: str | None = None,
    remote: str | None = None,
    ship: bool = False,
    conf: Mapping[str, str] | None = None,
) -> SparkSession:
    """Return a session with format "pyromq" on this machine, on a cluster (`master`) or over Connect (`remote`).

    `ship` is for clusters without the package: see `register`. `conf` adds to the settings and overrides them. Raises
    ConfigError if Spark or its Java is missing, if no cluster answers, or if tasks would run speculatively.

    >>> spark = session("archive", master="spark://10.0.0.1:7077", conf={"spark.executor.memory": "2g"})
    >>> spark = session("archive", remote="sc://10.0.0.1:15002")
    """
    if master and remote:
        raise ConfigError("set master or remote, not both: a Connect server has its own master")
    check_reachable(remote or master or "")
    spark = connect(remote, conf or {}) if remote else start(app_name, master or "local[*]", conf or {})
    register(spark, ship=ship)
    return spark


def local_session(
    app_name: str, master: str = "local[*]", *, fast_checkpoints: bool = False, **conf: str
) -> SparkSession:
    """Return a local session with format "pyromq"; `conf` adds to its settings and overrides them.

    `fast_checkpoints` halves the time of a small micro-batch. It is for local disks only, and its state after a power
    cut has not been tested.

    >>> spark = local_session("orders", "local[2]", **{"spark.driver.memory": "2g"})
    """
    spark = start(app_name, master, {**(_FAST_CHECKPOINTS if fast_checkpoints else {}), **conf})
    register(spark)
    return spark


def start(app_name: str, master: str, conf: Mapping[str, str]) -> SparkSession:
    """Start a quiet session in this process; it has format "pyromq" only if Spark finds the package by itself."""
    _need_spark()
    prepare_environment(local=master.startswith("local"))
    from pyspark.sql import SparkSession

    log4j2 = write_once(cache_directory() / "log4j2.properties", _LOG4J2)
    settings: Settings = {**_SETTINGS, **conf}
    options = [f"-Dlog4j2.configurationFile={log4j2.as_uri()}", archive_options(), conf.get(_JAVA_OPTIONS, "")]
    settings[_JAVA_OPTIONS] = " ".join(filter(None, options))
    with no_jvm_left_behind():
        return SparkSession.Builder().appName(app_name).master(master).config(map=settings).getOrCreate()


def connect(remote: str, conf: Mapping[str, str]) -> SparkSession:
    """Return a session on a Connect server; this needs no local Java, and most settings are the server's."""
    _need_spark()
    if find_spec("grpc") is None:
        raise ConfigError("Spark Connect is not installed: pip install 'pyromq[spark]'")
    from pyspark.sql import SparkSession

    settings: Settings = {**_OF_EVERY_SESSION, **conf}
    return SparkSession.Builder().remote(remote).config(map=settings).getOrCreate()


def _need_spark() -> None:
    if find_spec("pyspark") is None:
        raise ConfigError("Spark is not installed: pip install 'pyromq[spark]'")
