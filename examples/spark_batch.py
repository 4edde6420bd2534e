"""Count messages by tag with Spark SQL.

Start a broker with `pyromq up`, then: python examples/spark_batch.py [NAMESRV]
"""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession

from pyromq import Message
from pyromq.blocking import Producer
from pyromq.spark.session import local_session


def main(namesrv: str, spark: SparkSession) -> None:
    with Producer(group="example-shop", namesrv=namesrv) as producer:
        for number in range(30):
            tag = ("created", "paid", "shipped")[number % 3]
            producer.send(Message(topic="example-events", body=b"event %d" % number, tags=tag))

    events = spark.read.format("pyromq").option("namesrv", namesrv).option("subscribe", "example-events").load()
    events.createOrReplaceTempView("events")
    spark.sql("select tags, count(*) as messages, max(queue_offset) from events group by tags order by tags").show()


if __name__ == "__main__":
    default = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")
    main(sys.argv[1] if len(sys.argv) > 1 else default, local_session("example"))
