"""Show what fills a store, live or copied, by reading its files: no broker is needed or disturbed.

python examples/spark_store.py DIRECTORY    (`pyromq up` keeps its store below ./pyromq-data)
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

from pyromq.spark.session import local_session


def main(directory: str, spark: SparkSession) -> None:
    messages = (
        spark.read.format("pyromq")
        .option("store", directory)
        .option("subscribePattern", ".*")
        .option("columns", "topic,tags,store_size,store_timestamp")  # no bodies: most of each file is never read
        .load()
    )
    messages.createOrReplaceTempView("messages")
    spark.sql(
        "select topic, tags, count(*) as messages, sum(store_size) as bytes, max(store_timestamp) as last"
        " from messages group by topic, tags order by topic, tags"
    ).show(100, truncate=False)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "pyromq-data", local_session("example"))
