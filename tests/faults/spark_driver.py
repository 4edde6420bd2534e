"""A separate driver for campaigns that kill it; it streams a topic into Parquet or a topic until it is stopped.

python -m tests.faults.spark_driver '{"namesrv": …, "source": …, "directory": …}'
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from pyromq.spark.session import session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter


class Job(Struct, frozen=True, kw_only=True):
    """The source and the target of a driver's stream."""

    namesrv: str
    source: str
    directory: str
    """Holds the checkpoint, and the rows if they go into files."""
    target: str = ""
    """The topic to write to, instead of files."""
    master: str = "local[2]"
    most: int = 100_000
    """Messages in a micro-batch."""
    pace: int = 1_000_000
    """The most messages a second that each task sends to the topic."""
    every: str = "0 seconds"
    """Time from one micro-batch to the next."""


def main(job: Job) -> None:
    executors = {"memory": "512m", "extraJavaOptions": os.environ.get("SPARK_SUBMIT_OPTS", "")}  # as the driver's
    conf = {f"spark.executor.{name}": value for name, value in executors.items()}
    spark = session("campaign", master=job.master, conf=conf)
    messages = (
        spark.readStream.format("pyromq")
        .options(namesrv=job.namesrv, subscribe=job.source, startingOffsets="earliest", maxOffsetsPerTrigger=job.most)
        .load()
    )
    writer = _to_topic(messages, job) if job.target else _to_files(messages, job)
    query = writer.option("checkpointLocation", f"{job.directory}/checkpoint").trigger(processingTime=job.every).start()
    query.awaitTermination()


def _to_files(messages: DataFrame, job: Job) -> DataStreamWriter:
    return messages.writeStream.format("parquet").option("path", f"{job.directory}/rows")


def _to_topic(messages: DataFrame, job: Job) -> DataStreamWriter:
    copies = messages.drop("message_id")  # the sink would keep it; here its own ids are tested
    return copies.writeStream.format("pyromq").options(namesrv=job.namesrv, topic=job.target, ratePerSecond=job.pace)


if __name__ == "__main__":
    main(msgspec.json.decode(sys.argv[1], type=Job))
