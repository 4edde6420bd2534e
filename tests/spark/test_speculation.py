from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from pyromq import blocking
from pyromq.errors import ConfigError
from pyromq.spark import one_line
from pyromq.spark.read.brokers.broker_queues import connect
from pyromq.spark.speculation import SETTING, refuse_speculation
from pyromq.testing import LocalCluster
from tests.pipelines.conftest import make_topic

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


def test_only_true_switches_it_on() -> None:
    for value in (None, "false", "False", ""):
        refuse_speculation(value)
    for value in ("true", " TRUE "):
        with pytest.raises(ConfigError, match=r"spark\.speculation=true runs tasks twice"):
            refuse_speculation(value)


def _app_names(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    for _ in batches:
        yield pa.record_batch({"name": [context.getLocalProperty("spark.app.name")]})


@pytest.mark.spark
def test_tasks_know_the_settings_of_their_session(spark: SparkSession) -> None:
    """The sink relies on it: nothing else tells a data source that Spark found by itself."""
    rows = spark.range(1).mapInArrow(_app_names, "name string").collect()
    assert [row.name for row in rows] == [spark.conf.get("spark.app.name")]


@pytest.mark.spark
def test_a_sink_refuses_it_even_if_nobody_registered_the_format(
    spark: SparkSession, cluster: LocalCluster, producer: blocking.Producer
) -> None:
    make_topic(cluster, "speculative", 1)
    writer = spark.range(3).selectExpr("cast(id as string) as body").write.format("pyromq").mode("append")
    writer = writer.option("namesrv", cluster.namesrv).option("topic", "speculative")
    spark.sparkContext.setLocalProperty(SETTING, "true")  # the setting itself cannot change in a running session
    try:
        with pytest.raises(Exception, match="runs tasks twice") as caught:
            writer.save()
    finally:
        spark.sparkContext.setLocalProperty(SETTING, None)  # type: ignore[arg-type]  # removes it
    assert (
        one_line(caught.value) == "spark.speculation=true runs tasks twice, and a sink would send twice: switch it off"
    )
    brokers = connect(cluster.namesrv)
    assert set(brokers.max_offsets(brokers.queues(["speculative"])).values()) == {0}, "nothing was sent"
