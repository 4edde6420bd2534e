"""Archive a topic and replay part of it: the pipelines called from Python.

pyromq up, then: python examples/spark_pipelines.py [NAMESRV]
"""

from __future__ import annotations

import sys
import tempfile
from typing import TYPE_CHECKING

from pyromq import Message, blocking
from pyromq.pipelines import archive, replay
from pyromq.pipelines.outcome import Silent
from pyromq.spark import local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def main(namesrv: str, directory: str, spark: SparkSession) -> None:
    """Send orders, archive them, and replay the large ones into another topic."""
    with blocking.Producer(group="examples", namesrv=namesrv) as producer:
        for number in range(20):
            body = b'{"order_id": %d, "cents": %d}' % (number, number * 100)
            producer.send(Message(topic="example-orders", body=body), order_key=f"o-{number % 3}")
        producer.send(Message(topic="example-large", body=b"{}"))  # creates the topic

    kept = archive.run(spark, archive.Options(namesrv=namesrv, topics="example-orders", to=directory), Silent())
    print(f"archived {kept.written}")
    large = replay.Options(namesrv=namesrv, archive=directory, to="example-large", where="body.cents >= 1500")
    for _ in range(2):
        outcome = replay.run(spark, large, Silent())
        print(f"replayed {outcome.written} of {outcome.read}, dropped {outcome.dropped}")


if __name__ == "__main__":
    session = local_session("pipelines")
    with tempfile.TemporaryDirectory() as temporary:
        main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876", temporary, session)
    session.stop()
