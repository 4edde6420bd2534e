"""Copy large payments into a separate topic; a second run sends only what is new.

Start a broker with `pyromq up`, then: python examples/spark_sink.py [NAMESRV] [DIRECTORY]
"""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession

from pyromq.spark import dedupe
from pyromq.spark.session import local_session


def main(namesrv: str, directory: str, spark: SparkSession) -> None:
    bought = spark.range(20).selectExpr(
        """to_json(named_struct('customer', concat('c-', id % 3), 'amount', id * 10)) as body""",
        "concat('c-', id % 3) as order_key",  # payments of one customer stay in order, in one queue
        "if(id < 15, 'small', 'large') as tags",
    )
    bought.write.format("pyromq").mode("append").option("namesrv", namesrv).option("topic", "example-bought").save()

    payments = (
        spark.readStream.format("pyromq")
        .option("namesrv", namesrv)
        .option("subscribe", "example-bought")
        .option("startingOffsets", "earliest")
        .load()
    )
    query = (
        payments.where("tags = 'large'")
        .writeStream.format("pyromq")
        .option("namesrv", namesrv)
        .option("topic", "example-large")  # takes precedence over the column topic
        .option("checkpointLocation", f"{directory}/large")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()

    large = spark.read.format("pyromq").option("namesrv", namesrv).option("subscribe", "example-large").load()
    once = dedupe(large)  # a killed job may have sent some twice, with the same id
    customers = once.selectExpr("from_json(cast(body as string), 'customer string').customer as customer")
    customers.groupBy("customer").count().orderBy("customer").show()


if __name__ == "__main__":
    default = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")
    chosen = sys.argv[2] if len(sys.argv) > 2 else "example-data"
    main(sys.argv[1] if len(sys.argv) > 1 else default, chosen, local_session("example"))
