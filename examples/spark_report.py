"""Profile a store, live or copied, into one HTML page: what fills it, what stands out, which groups lag.

python examples/spark_report.py DIRECTORY [PAGE]    (`pyromq up` keeps its store below ./pyromq-data)
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

from pyromq.pipelines import report
from pyromq.pipelines.outcome import Silent
from pyromq.spark.session import local_session


def main(directory: str, page: str, spark: SparkSession) -> None:
    outcome = report.run(spark, report.Options(store=directory, out=page), Silent())
    print(f"{outcome.read:,} messages were counted. {outcome.remarks[0]}")


if __name__ == "__main__":
    directory, page = [*sys.argv[1:3], *("pyromq-data", "report.html")[len(sys.argv) - 1 :]]
    main(directory, page, local_session("example"))
