from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pyromq import Message, blocking
from pyromq.errors import ConfigError
from pyromq.protocol.messages.message import MessageQueue
from pyromq.spark import dedupe
from pyromq.testing import LocalCluster
from tests.pipelines.conftest import make_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
def test_dedupe_names_the_column_that_it_lacks(spark: SparkSession) -> None:
    with pytest.raises(ConfigError, match="dedupe needs the column 'topic'"):
        dedupe(spark.range(1))


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_a_queue_that_is_far_behind_loses_nothing(spark: SparkSession, tmp_path: Path) -> None:
    """Hours lie between the messages of two queues, and batches mix both: the older ones are late, not repeated."""
    with LocalCluster() as cluster, blocking.Producer("g", cluster.namesrv) as producer:
        make_topic(cluster, "uneven", 2)
        for queue_id in (0, 1):
            for number in range(queue_id * 20, queue_id * 20 + 20):
                message = Message(topic="uneven", body=b"%d" % number)
                producer.send(message, queue=MessageQueue("uneven", "broker-a", queue_id))
            cluster.clock.advance(hours=5)
        stream = spark.readStream.format("pyromq").options(namesrv=cluster.namesrv, subscribe="uneven")
        stream = stream.options(startingOffsets="earliest", maxOffsetsPerTrigger="10")
        query = (
            dedupe(stream.load(), within="1 hour")
            .selectExpr("cast(body as string) as body")
            .writeStream.format("parquet")
            .options(path=str(tmp_path / "rows"), checkpointLocation=str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(240)
    rows = spark.read.parquet(str(tmp_path / "rows")).collect()
    assert sorted(int(row.body) for row in rows) == list(range(40))
