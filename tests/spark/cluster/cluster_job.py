"""A user's program for a cluster: reads a topic, writes a frame, copies the topic with a stream; prints what it read.

cluster_job.py master|remote ADDRESS ship|installed NAMESRV TOPIC DIRECTORY
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from pyromq.spark import one_line, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONF = {
    "spark.cores.max": "2",
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",  # they live for seconds
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",  # both executors, before the first task
}


def batch(spark: SparkSession, namesrv: str, topic: str) -> int:
    messages = spark.read.format("pyromq").options(namesrv=namesrv, subscribe=topic).load()
    frame = messages.selectExpr("body", "keys[0] as order_key")
    frame.write.format("pyromq").mode("append").options(namesrv=namesrv, topic=f"{topic}-frame").save()
    return messages.count()


def stream(spark: SparkSession, namesrv: str, topic: str, directory: str) -> None:
    messages = spark.readStream.format("pyromq").options(namesrv=namesrv, subscribe=topic, startingOffsets="earliest")
    query = (
        messages.load()
        .writeStream.format("pyromq")
        .options(namesrv=namesrv, topic=f"{topic}-stream", checkpointLocation=f"{directory}/{topic}")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def wrong(spark: SparkSession, namesrv: str) -> str:
    try:
        spark.read.format("pyromq").options(namesrv=namesrv, subcribe="x").load().count()
    except Exception as error:
        return one_line(error)
    return "no error"


def main(kind: str, address: str, how: str, namesrv: str, topic: str, directory: str) -> None:
    where = {"master": address} if kind == "master" else {"remote": address}
    spark = session("cluster job", ship=how == "ship", conf=CONF if kind == "master" else {}, **where)
    try:
        rows = batch(spark, namesrv, topic)
        stream(spark, namesrv, topic, directory)
        print(json.dumps({"rows": rows, "wrong": wrong(spark, namesrv)}))
    except Exception as error:
        print(json.dumps({"error": one_line(error)}))
        raise
    finally:
        spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
