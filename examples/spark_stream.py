"""Stream orders into Parquet files, exactly once; a second run adds only what is new.

Start a broker with `pyromq up`, then: python examples/spark_stream.py [NAMESRV] [DIRECTORY]
"""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession

from pyromq import Message
from pyromq.blocking import Producer
from pyromq.spark.session import local_session


def main(namesrv: str, directory: str, spark: SparkSession) -> None:
    with Producer(group="example-shop", namesrv=namesrv) as producer:
        for number in range(10):
            producer.send(Message(topic="example-payments", body=b'{"order": %d, "amount": 9.5}' % number))

    payments = (
        spark.readStream.format("pyromq")
        .option("namesrv", namesrv)
        .option("subscribe", "example-payments")
        .option("startingOffsets", "earliest")
        .option("group", "example-archive")  # shows the stream's progress as that of a consumer group
        .load()
    )
    decoded = payments.selectExpr("from_json(cast(body as string), 'order int, amount double') as payment")
    query = (
        decoded.select("payment.*")
        .writeStream.format("parquet")
        .option("path", f"{directory}/payments")
        .option("checkpointLocation", f"{directory}/checkpoint")
        .trigger(availableNow=True)  # only what is there now; without it the stream runs for ever
        .start()
    )
    query.awaitTermination()
    spark.read.parquet(f"{directory}/payments").selectExpr("count(*) as payments", "sum(amount)").show()


if __name__ == "__main__":
    default = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")
    chosen = sys.argv[2] if len(sys.argv) > 2 else "example-data"
    main(sys.argv[1] if len(sys.argv) > 1 else default, chosen, local_session("example"))
